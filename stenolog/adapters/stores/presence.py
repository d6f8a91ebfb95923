"""That a runner is alive: a lock on a file of its own, which the kernel lets go of when its process dies.

So a dead runner is known at once, however long its effects take, and one that merely stands still is not
taken for dead.
"""

from __future__ import annotations

import os
from contextlib import suppress

from stenolog.domain.errors import StoreFailed

try:
    import fcntl
except ImportError:  # pragma: no cover - not on POSIX
    fcntl = None  # type: ignore[assignment]

_HERE: dict[str, int] = {}
"""The runners of this process, each with its process id: a copy that a fork of the process made is dead."""


class Presence:
    """The presence of one runner; `file` is the database's (":memory:": nobody else can have it)."""

    def __init__(self, file: str, id: str, *, in_memory: bool = False) -> None:
        self.id = id
        self._prefix = f"{file}-runner-"
        self._file: int | None = None if in_memory else _locked(self._prefix + id)
        _HERE[id] = os.getpid()

    def lives(self, owner: str) -> bool:
        """Whether a runner is alive."""
        if owner in _HERE:
            return _HERE[owner] == os.getpid()
        return _is_locked(self._prefix + owner)

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
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if fcntl is not None:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise StoreFailed(f"{path}: cannot be made to show that a runner lives: {error.strerror}") from error
    return file


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
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(OSError):
            os.unlink(path)
        return False
    except OSError:
        return True
    finally:
        os.close(file)
