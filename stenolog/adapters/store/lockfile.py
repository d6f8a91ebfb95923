"""Files whose lock shows that their process lives: the kernel releases it when the process ends.

The lock is `flock`'s, which belongs to the open file: another open and close of the same file, anywhere in
the process, does not release it, as it would a record lock. A fork of the process shares open files, so the
child closes its copies.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from glob import escape, glob

from stenolog.domain.errors import StoreError

from . import permissions

try:
    import fcntl
except ImportError:  # pragma: no cover - not on POSIX
    fcntl = None  # type: ignore[assignment]

TRIES = 100
_OPEN: set[int] = set()
"""The descriptors of this process."""


def make(path: str, database: str = "") -> int:
    """Create a file, lock it, and return its descriptor; with the permissions of a database if one is given.

    Raises OSError, `StoreError`.
    """
    for _ in range(TRIES):
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
        file = os.open(path, flags, permissions.PRIVATE)
        if fcntl is None or (_lock(file) and _is_current(file, path)):
            _OPEN.add(file)
            if database:
                permissions.follow(path, database, make=False)
            return file
        os.close(file)  # another process took the file for a dead one's, or is looking at it
        time.sleep(0.001)
    raise StoreError(f"{path}: another process has it locked")


def opened(path: str) -> int:
    """Open a file to take locks of another kind on it; a forked child closes its copy."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, permissions.PRIVATE)
    _OPEN.add(file)
    return file


def close(file: int, process: int) -> None:
    """Close a file that this `process` opened, which releases its locks; a fork of it has closed its copy."""
    if process == os.getpid():
        _OPEN.discard(file)
        os.close(file)


def is_held(path: str) -> bool | None:
    """Return whether a living process holds the file's lock; None for a missing file."""
    if fcntl is None:  # pragma: no cover - an open file cannot be removed there
        return _is_open(path)
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError:  # another user's
        return True
    try:
        return not _lock(file)
    finally:
        os.close(file)


def remove(path: str, *, beside: bool = False) -> None:
    """Remove the file, and those `beside` a database, unless a living process holds its lock."""
    if fcntl is None:  # pragma: no cover - an open file cannot be removed there
        with suppress(OSError):
            os.unlink(path)
        return
    with suppress(OSError):
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if _lock(file) and _is_current(file, path):
                for each in glob(f"{escape(path)}-*") if beside else ():
                    os.unlink(each)
                os.unlink(path)
        finally:
            os.close(file)


def _is_open(path: str) -> bool | None:  # pragma: no cover - not on POSIX
    try:
        os.rename(path, path)
    except FileNotFoundError:
        return None
    except PermissionError:
        return True
    return False


def _lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_current(file: int, path: str) -> bool:
    """Return whether the path still names this open file."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file), os.stat(path))
    return False


def _close_all() -> None:
    """Close a forked child's copies, which would keep the locks of its parent."""
    while _OPEN:
        with suppress(OSError):
            os.close(_OPEN.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all)
