"""Process groups that must not outlive the engine that started them.

Every agent leads a session of its own, with a random mark in its environment. A watcher process reads the
groups of its engine from a pipe. The pipe closes when the engine ends, and the watcher kills the groups that
are left. An engine that takes over a dead one's claim kills by the same identity.

This file uses only the standard library, because the watcher runs it as a script.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

MARK = "STENOLOG_AGENT"
"""The environment variable with the mark; all that an agent starts inherits it."""
POLL_SECONDS = 2.0
ROUNDS = 20
"""A killed group is searched again up to this many times, for processes that were forked meanwhile."""
_PROC = Path("/proc")


def identity(pid: int, mark: str) -> str:
    """Return the identity of a group: its leader's process id, the boot, its start time, and the mark."""
    return ":".join((str(pid), _boot(), _started(pid), mark))


def end(group: str) -> None:
    """Kill the rest of a group, and the processes with its mark.

    A reused process id is never killed: its start time differs, and it lacks the mark.
    """
    pid, boot, started, mark = (*group.split(":"), "", "", "")[:4]
    if not pid.isdecimal() or int(pid) <= 1 or boot != _boot():  # group 1: every process there is
        return
    if started and _started(int(pid)) == started:
        _kill(int(pid), group=True)
    for _ in range(ROUNDS):
        if not (left := _marked(mark) if mark else []):
            break
        for each in left:
            _kill(each)


class Watcher:
    """Watcher process of this engine, started with the first group."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[str] = set()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def watched(self) -> tuple[str, ...]:
        """The groups that have not ended yet."""
        return tuple(self._groups)

    def watch(self, group: str) -> None:
        """Have a group killed when this process ends."""
        with self._lock:
            self._groups.add(group)
            self._tell([f"+{group}"])

    def forget(self, group: str) -> None:
        """Note that a group has ended."""
        with self._lock:
            if group in self._groups:
                self._groups.discard(group)
                self._tell([f"-{group}"])

    def close(self) -> None:
        """End the watcher, which first kills the groups that are left."""
        with self._lock:
            process, self._process = self._process, None
            if process is not None and process.stdin is not None:
                with suppress(OSError):
                    process.stdin.close()
                process.wait()

    def forked(self) -> None:
        """Close the parent's watcher in a fork: the pipe must close when the parent ends."""
        self._lock = threading.Lock()
        self._groups = set()
        process, self._process = self._process, None
        if process is not None:
            process.returncode = 0  # it is no child of this process
            if process.stdin is not None:
                process.stdin.close()

    def _tell(self, lines: list[str]) -> None:
        """Write to the watcher; a dead one is replaced, and gets everything again."""
        for _ in range(2):
            if self._process is None:
                with suppress(OSError):  # no process can be started: the groups go on without a watcher
                    self._process = _begun()
                if self._process is None:
                    return
                lines = [f"+{group}" for group in self._groups]
            assert self._process.stdin is not None, "its stdin is a pipe"
            try:
                self._process.stdin.write("".join(f"{line}\n" for line in lines).encode())
            except OSError:
                self._process.wait()
                self._process = None
            else:
                return


def _begun() -> subprocess.Popen[bytes]:
    """Start the watcher in a session of its own, so that no signal to this group reaches it."""
    return subprocess.Popen(
        [sys.executable, "-IS", os.path.abspath(__file__)],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )


def _watch() -> None:
    """Read groups from stdin until it closes or the parent has ended; then kill the rest."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    parent, groups, rest = os.getppid(), set[str](), b""
    while os.getppid() == parent:
        if not select.select([0], [], [], POLL_SECONDS)[0]:
            continue
        if not (data := os.read(0, 65536)):
            break
        *lines, rest = (rest + data).split(b"\n")
        for line in map(bytes.decode, lines):
            (groups.add if line.startswith("+") else groups.discard)(line[1:])
    for group in groups:
        end(group)


def _marked(mark: str) -> list[int]:
    wanted, found = f"{MARK}={mark}".encode(), []
    for folder in _PROC.glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is somebody else's
            if wanted in (folder / "environ").read_bytes().split(b"\0") and int(folder.name) != os.getpid():
                found.append(int(folder.name))
    return found


def _started(pid: int) -> str:
    """Return the start time of a process as the system writes it; empty if it does not run."""
    if (_PROC / "self").exists():
        with suppress(OSError):
            fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
            return "" if fields[0] == "Z" else fields[19]
        return ""
    with suppress(OSError):
        asked = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True)
        return "".join(c if c.isalnum() else "-" for c in asked.stdout.strip())
    return ""


def _boot() -> str:
    with suppress(OSError):
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    return ""


def _kill(pid: int, *, group: bool = False) -> None:
    with suppress(ProcessLookupError, PermissionError):
        (os.killpg if group else os.kill)(pid, signal.SIGKILL)


WATCHER = Watcher()

if __name__ == "__main__":
    _watch()
else:
    atexit.register(WATCHER.close)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=WATCHER.forked)
