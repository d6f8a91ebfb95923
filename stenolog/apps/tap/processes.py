"""Child processes of a tap: the relay and recording, which are started again when they die."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from pydantic_core import to_json

import stenolog._version

ROOT = str(Path(stenolog._version.__file__).parent.parent)
BOOT = """
import os, runpy, sys
root, module = sys.argv[1:]
sys.path.append(root)
if module == "relay":
    # Without the public package, whose models take longer to import than all else and as much memory.
    sys.modules["stenolog"] = package = type(sys)("stenolog")
    package.__path__ = [os.path.join(root, "stenolog")]
else:
    os.nice(10)  # forwarding goes before recording, from the first import on
runpy.run_module(f"stenolog.apps.tap.{module}.process", {}, "__main__")
"""
QUICK_SECONDS = 5.0
"""A process that ends sooner than this after its start is started again with a delay."""
MAX_DELAY_SECONDS = 2.0


def start(
    module: str, config: object, descriptors: tuple[int, ...], errors: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start the process of a package here, with these file descriptors.

    Its configuration comes as JSON on stdin. It has its own session: Ctrl-C is for the user's command.
    """
    # -P: a module in the user's folder must not be imported in place of a library's.
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", BOOT, ROOT, module],
        stdin=subprocess.PIPE,
        stdout=errors,
        stderr=errors,
        pass_fds=descriptors,
        start_new_session=True,
    )
    assert process.stdin is not None
    try:
        process.stdin.write(to_json(config))
        process.stdin.close()
    except BrokenPipeError:
        pass  # it has ended already, and is started again
    return process


class Restarted:
    """A process that is started again when it ends; `generation` counts its starts."""

    def __init__(self, begin: Callable[[int], subprocess.Popen[bytes]]) -> None:
        self.generation = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._begin = begin
        self._started_at = 0.0
        self._delay = 0.0

    def ensure(self) -> float | None:
        """Start the process if it is not running; return the seconds until the next try, or None."""
        if self.process and self.process.poll() is None:
            return None
        now = time.monotonic()
        wait = self._started_at + self._delay - now if self.process else 0.0
        if wait > 0:
            return wait
        quick = bool(self.process) and now - self._started_at < QUICK_SECONDS
        # The first restart is at once; a process that ends again and again must not use up the machine.
        self._delay = min(max(self._delay * 2, 0.1), MAX_DELAY_SECONDS) if quick else 0.0
        self._started_at = now
        self.generation += 1
        self.process = self._begin(self.generation)
        return None
