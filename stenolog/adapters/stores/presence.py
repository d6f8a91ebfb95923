"""That a runner is alive: a lock on a file of its own, which the kernel lets go of when its process dies.

So a dead runner is known at once, however long its effects take, and one that merely stands still is not
taken for dead.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from glob import escape, glob

from stenolog.domain.errors import StoreFailed

from . import permissions

try:
    import fcntl
except ImportError:  # pragma: no cover - not on POSIX
    fcntl = None  # type: ignore[assignment]

TRIES = 100
_HERE: dict[str, int] = {}
"""The runners of this process, each with its process id: a fork of it has a copy of this, and no lock."""
_SWEPT: set[str] = set()
"""Where this process has removed the files of the dead."""


class Presence:
    """The presence of one runner; `file` is the database's (":memory:": nobody else can have it)."""

    def __init__(self, file: str, id: str, *, in_memory: bool = False) -> None:
        self.id = id
        self._prefix = f"{os.path.realpath(file)}-runner-"  # one place, by whatever name the file is opened
        _HERE[id] = os.getpid()  # before there is a file: to open it here and close it lets its lock go
        self._file: int | None = None
        if not in_memory:
            self._file = _locked(self._prefix + id)
            self._sweep()

    def lives(self, owner: str) -> bool:
        """Whether a runner is alive."""
        return _HERE.get(owner) == os.getpid() or _is_locked(self._prefix + owner)

    def _sweep(self) -> None:
        """Once in a process: remove the files of those who died with no claim, for whom nobody asks."""
        if self._prefix not in _SWEPT:
            _SWEPT.add(self._prefix)
            for path in glob(f"{escape(self._prefix)}*"):
                self.lives(path.removeprefix(self._prefix))

    def close(self) -> None:
        """The runner ends in good order."""
        _HERE.pop(self.id, None)
        if self._file is not None:
            with suppress(OSError):
                os.unlink(self._prefix + self.id)
            os.close(self._file)
            self._file = None


def _locked(path: str) -> int:
    """The file, made and locked. A record lock: children of this process do not inherit it."""
    for _ in range(TRIES):
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, permissions.PRIVATE)
        except OSError as error:
            raise StoreFailed(f"{path}: cannot be made to show that a runner lives: {error}") from error
        if fcntl is None or (_lock(file) and _stands(file, path)):
            return file
        os.close(file)  # whoever looked just now took it for that of a dead one
        time.sleep(0.001)
    raise StoreFailed(f"{path}: cannot be locked to show that a runner lives")


def _lock(file: int) -> bool:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _stands(file: int, path: str) -> bool:
    """Whether the file is still the one that has this name."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file), os.stat(path))
    return False


def _is_locked(path: str) -> bool:
    """Whether somebody holds the lock; the file of one who is dead is removed."""
    if fcntl is None:  # pragma: no cover - an open file cannot be removed there
        with suppress(FileNotFoundError):
            try:
                os.unlink(path)
            except PermissionError:
                return True
        return False
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:  # it is there, and not ours to look at
        return True
    try:
        if not _lock(file):
            return True
        with suppress(OSError):
            os.unlink(path)
        return False
    finally:
        os.close(file)
