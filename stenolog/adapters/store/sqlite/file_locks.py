"""Locks on files: exclusive ones for writers, on bytes, and for a process's life.

`flock` locks whole files; Linux's open file description locks are on bytes. The kernel releases both when the
file is closed or the process ends.
"""

from __future__ import annotations

import os
import struct
import time
from contextlib import suppress
from glob import escape, glob
from threading import Event, Lock, Thread

from stenolog.adapters.store.contract.notifier import started
from stenolog.domain.errors import StoreError

from . import file_safety
from .errors import NO_LOCKS, without_locks

try:
    import fcntl
except ImportError:  # pragma: no cover - not on POSIX
    fcntl = None  # type: ignore[assignment]

try:
    from fcntl import F_OFD_GETLK, F_OFD_SETLK, F_RDLCK, F_UNLCK, F_WRLCK
    from fcntl import fcntl as set_lock
except ImportError:  # pragma: no cover - not on Linux
    set_lock = None  # type: ignore[assignment]
    F_RDLCK = F_UNLCK = F_WRLCK = 0  # type: ignore[misc]


PART = ".stenolog-part"
"""The end of a copy's name until the copy is complete."""


# SQLite's own waiting is a lottery: with eight writers some get nothing for seconds.
# Waiters for a file lock are woken by the kernel.
class FileLock:
    """An exclusive lock, for one thread of one process at a time."""

    def __init__(self, path: str, database: str = "") -> None:
        self.path = path
        self._database = database
        self._file: int | None = None

    def acquire(self, timeout: float) -> bool:
        """Return true once acquired, or false after `timeout` seconds."""
        # Elsewhere than on POSIX, SQLite's own waiting is all there is.
        if fcntl is None:
            return True
        try:
            if self._file is None:
                self._file = self._open()
            # `flock`, since a record lock would be released when any copy of the file is closed in this
            # process.
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return self._wait(timeout)
        except OSError as error:
            self.close()
            if error.errno not in NO_LOCKS:
                raise
            raise without_locks(self._database or self.path, error) from error
        # Ctrl-C may come just as the lock has come: closing the file gives it back.
        except BaseException:
            self.close()
            raise

    def release(self) -> None:
        """Let the next one write."""
        if fcntl is not None and self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def write(self, content: bytes) -> None:
        """Write to the file's beginning; the caller holds the lock. Raises OSError."""
        if self._file is not None and hasattr(os, "pwrite"):
            os.pwrite(self._file, content, 0)

    def close(self) -> None:
        """Give the file back, and the lock with it."""
        # Forgotten first: a descriptor that was closed twice may be another file by then.
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _open(self) -> int:
        if self._database:
            file_safety.follow_permissions(self.path, self._database)
        try:
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, file_safety.PRIVATE)
        except OSError as error:
            raise StoreError(f"{self.path}: cannot be locked for writing: {error.strerror}") from error

    def _wait(self, timeout: float) -> bool:
        """Sleep in the kernel until acquired; False after `timeout` seconds."""
        # In a thread, since `flock` itself knows no deadline. On a file of its own: a late thread must not
        # unlock the file of the next caller.
        waiter = _Waiter(self._open())
        try:
            self._start(waiter)
            if not waiter.wait(timeout):
                return False
            self.close()
            self._file = waiter.file
            return True
        # Ctrl-C: no process must wait for a lock that this one holds and does not use.
        except BaseException:
            if self._file == waiter.file:
                self._file = None
            waiter.let_go()
            raise

    def _start(self, waiter: _Waiter) -> None:
        try:
            started(waiter.thread, self.path)
        except StoreError:
            os.close(waiter.file)
            raise


class _Waiter:
    """A thread that waits for the lock on its own file, and releases it if too late."""

    def __init__(self, file: int) -> None:
        self.file = file
        self.thread = Thread(target=self._run, name="stenolog-lock", daemon=True)
        self._held = Event()
        self._abandoned = False
        # The lock may come just as the wait is given up: `_guard` makes one of the two come first.
        self._guard = Lock()

    def wait(self, timeout: float) -> bool:
        self._held.wait(timeout)
        return not self._abandon()

    def let_go(self) -> None:
        if not self._abandon():
            os.close(self.file)

    def _abandon(self) -> bool:
        """Stop waiting; return False if the lock was acquired meanwhile."""
        with self._guard:
            self._abandoned = not self._held.is_set()
            return self._abandoned

    def _run(self) -> None:
        fcntl.flock(self.file, fcntl.LOCK_EX)
        with self._guard:
            if self._abandoned:
                os.close(self.file)
            else:
                self._held.set()


# With a millisecond between two: a process that looks at a file has it locked for an instant only.
TRIES = 100
# A fork shares open files and their locks, so the child has to close its copies (`_close_all`).
_OPEN: set[int] = set()
"""The descriptors of this process."""


def make_lock_file(path: str, database: str = "") -> int:
    """Create and lock a file; return its descriptor. Permissions are a given database's.

    Raises OSError, `StoreError`.
    """
    for _ in range(TRIES):
        # No link is followed: in a shared folder another user could have it lead to a file of ours.
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
        file = os.open(path, flags, file_safety.PRIVATE)
        if fcntl is None or (_lock(file) and _is_current(file, path)):
            _OPEN.add(file)
            if database:
                file_safety.follow_permissions(path, database, make=False)
            return file
        # Another process took the file for a dead one's and removed it, or is looking at it right now.
        os.close(file)
        time.sleep(0.001)
    raise StoreError(f"{path}: another process has it locked")


def open_lock_file(path: str) -> int:
    """Open a file for other locks; a forked child closes its copy."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, file_safety.PRIVATE)
    _OPEN.add(file)
    return file


def close_lock_file(file: int, process: int) -> None:
    """Close a file that this `process` opened, releasing its locks; a fork has closed its copy."""
    # In a forked child the number may by now be another file.
    if process == os.getpid():
        _OPEN.discard(file)
        os.close(file)


def is_lock_file_held(path: str) -> bool | None:
    """Return whether a living process holds the file's lock; None if missing."""
    if fcntl is None:  # pragma: no cover - an open file cannot be removed there
        return _is_open(path)
    try:
        # A link, a pipe or a device of that name must neither be followed nor keep us waiting.
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    # Another user's file cannot be opened: it counts as held, so that it is not removed.
    except OSError:
        return True
    try:
        return not _lock(file)
    finally:
        os.close(file)


def remove_lock_file(path: str, *, beside: bool = False) -> None:
    """Remove the file, and those `beside` a database, unless its lock is held."""
    if fcntl is None:  # pragma: no cover - an open file cannot be removed there
        with suppress(OSError):
            os.unlink(path)
        return
    with suppress(OSError):
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            # Looked at under the lock: the path may name another process's new file by now.
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
    """Close a forked child's copies, which would keep its parent's locks."""
    while _OPEN:
        with suppress(OSError):
            os.close(_OPEN.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all)


BYTE_LOCKS_SUPPORTED = set_lock is not None
# Far behind the end of the lock file, so no byte that is written there is ever locked.
OPENING_BYTE = 1 << 61
"""The byte that a process has locked while it opens the database; exclusively, while it replaces it."""
BLOBS_BYTES = 1 << 62
"""The first of the bytes that mean blobs."""
SHARED, EXCLUSIVE, FREE = F_RDLCK, F_WRLCK, F_UNLCK
_FLOCK = "hhqqi0q"
"""The C struct: type, whence, start, length, process."""


def lock_byte(file: int, place: int, kind: int) -> None:
    """Lock or unlock one byte. Raises OSError if another open file's lock conflicts."""
    if BYTE_LOCKS_SUPPORTED:
        # Not a plain record lock, which belongs to the process and goes when any copy of the file is
        # closed.
        set_lock(file, F_OFD_SETLK, struct.pack(_FLOCK, kind, os.SEEK_SET, place, 1, 0))


def is_byte_locked(file: int, place: int) -> bool:
    """Return whether another open file has a lock on a byte."""
    if not BYTE_LOCKS_SUPPORTED:
        return False
    found = set_lock(file, F_OFD_GETLK, struct.pack(_FLOCK, EXCLUSIVE, os.SEEK_SET, place, 1, 0))
    return bool(struct.unpack(_FLOCK, found)[0] != FREE)
