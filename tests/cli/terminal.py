"""The program at a terminal: what it writes is read, and keys are pressed."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0
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
        hidden = ("STENOLOG_DB", "STENOLOG_MODEL", "COLUMNS", "LINES", "NO_COLOR")
        env = {name: value for name, value in os.environ.items() if name not in hidden}
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            stdin=slave, stdout=slave, stderr=slave, cwd=cwd, start_new_session=True,
            env={**env, "TERM": "xterm", "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        os.close(slave)
        self.text = ""
        self._read = 0

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)

    def expect(self, words: str) -> str:
        """Wait until these words come, after the last that were expected; gives what stood before them."""
        end = time.monotonic() + PATIENCE
        while (found := self.text.find(words, self._read)) < 0:
            if not self._more(end - time.monotonic()):
                raise AssertionError(f"expected {words!r}, found {self.text[self._read :]!r}")
        before, self._read = self.text[self._read : found], found + len(words)
        return before

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def ended(self) -> int:
        """Wait for its end, and give its exit code."""
        while self._more(PATIENCE):
            pass
        return self._process.wait(PATIENCE)

    def _more(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, seconds))
        try:
            piece = os.read(self._master, 65_536) if ready else b""
        except OSError:  # nobody has the other side open
            return False
        self.text += piece.decode(errors="replace")
        return bool(piece)
