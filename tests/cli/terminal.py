"""The program at a terminal: what it writes is read, and keys are pressed."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).parents[2]
PATIENCE, AGAIN = 30.0, 1.0
CTRL_C, CTRL_D = "\x03", "\x04"
PROGRAM = (
    "import fcntl, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "from stenolog.__main__ import main; sys.exit(main())"
)


class Terminal:
    """`stenolog ARGUMENTS`, run at a terminal of its own."""

    def __init__(self, *arguments: str, cwd: Path, columns: int = 80) -> None:
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (24, columns))
        hidden = ("STENOLOG_MODEL", "COLUMNS", "LINES", "NO_COLOR", "CI", "DISPLAY", "WAYLAND_DISPLAY")
        env = {name: value for name, value in os.environ.items() if name not in hidden}
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            stdin=slave, stdout=slave, stderr=slave, cwd=cwd, start_new_session=True,
            env={**env, "TERM": "xterm", "STENOLOG_DB": "talks.db", "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        os.close(slave)
        self.text = ""
        self._read = 0
        self._pressed = 0.0

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)

    def expect(self, words: str, insist: str = "") -> str:
        """Wait until these words come, after the last that were expected; gives what stood before them.

        `insist` are keys that are pressed every second until then: a signal that comes just before a program
        begins to wait for keys is not seen before the next one.
        """
        end = time.monotonic() + PATIENCE
        while (found := self.text.find(words, self._read)) < 0:
            if not self._more(insist) and time.monotonic() > end:
                raise AssertionError(f"expected {words!r}, found {self.text[self._read :]!r}")
        before, self._read = self.text[self._read : found], found + len(words)
        return before

    def type(self, keys: str) -> None:
        """Press keys."""
        with suppress(OSError):  # it has ended
            os.write(self._master, keys.encode())

    def says(self, keys: str, *answers: str) -> str:
        """Press keys, and wait for each of the answers in turn; gives what stood before the last."""
        self.type(keys)
        return [self.expect(words) for words in answers][-1]

    def leaves(self) -> int:
        """End it by Ctrl-D, and give its exit code."""
        self.type(CTRL_D)
        return self.ended()

    def ended(self, insist: str = "") -> int:
        """Wait for its end, and give its exit code; for `insist` see `expect`."""
        end = time.monotonic() + PATIENCE
        while self._process.poll() is None and time.monotonic() < end:
            self._more(insist)
        return self._process.wait(0)

    def _more(self, insist: str) -> bool:
        """Read what there is now; whether there was anything. Presses keys again when a second has passed."""
        now = time.monotonic()
        if insist and now - self._pressed >= AGAIN:
            self._pressed = now
            self.type(insist)
        ready, _, _ = select.select([self._master], [], [], AGAIN)
        try:
            piece = os.read(self._master, 65_536) if ready else b""
        except OSError:  # nobody has the other side open
            time.sleep(0.01)
            return False
        self.text += piece.decode(errors="replace")
        return bool(piece)
