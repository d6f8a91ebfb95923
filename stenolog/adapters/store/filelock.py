"""A lock on a side file: processes that write to one database take turns.

SQLite's own waiting is a lottery: with eight writers some get nothing for seconds. Waiters for a
file lock are woken by the kernel. Where `fcntl` is absent, SQLite's waiting is all there is.
"""

from __future__ import annotations

import os
from threading import Event, Lock, Thread

from stenolog.domain.errors import StoreError

from . import permissions
from .errors import started

try:
    import fcntl
except ImportError:  # pragma: no cover - not on POSIX
    fcntl = None  # type: ignore[assignment]


class FileLock:
    """One exclusive lock, held by one thread at a time of one process at a time."""

    def __init__(self, path: str, database: str = "") -> None:
        self.path = path
        self._database = database
        self._file: int | None = None

    def acquire(self, timeout: float) -> bool:
        """True once the lock is held; False when `timeout` seconds have passed."""
        if fcntl is None:
            return True
        try:
            if self._file is None:
                self._file = self._open()
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return self._wait(timeout)
        except BaseException:  # Ctrl-C, just as it has come
            self.close()
            raise

    def release(self) -> None:
        """Let the next one write."""
        if fcntl is not None and self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def write(self, content: bytes) -> None:
        """Write to the beginning of the file, for whoever holds the lock. Raises OSError."""
        if self._file is not None and hasattr(os, "pwrite"):
            os.pwrite(self._file, content, 0)

    def close(self) -> None:
        """Give the file back, and the lock with it."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _open(self) -> int:
        if self._database:
            permissions.follow(self.path, self._database)
        try:
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, permissions.PRIVATE)
        except OSError as error:
            raise StoreError(f"{self.path}: cannot be locked for writing: {error.strerror}") from error

    def _wait(self, timeout: float) -> bool:
        """Sleep in the kernel until it is our turn: in a thread, since flock itself knows no deadline."""
        waiter = _Waiter(self._open())
        try:
            self._start(waiter)
            if not waiter.wait(timeout):
                return False
            self.close()
            self._file = waiter.file
            return True
        except BaseException:  # Ctrl-C: nobody must wait for a lock that nobody uses
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
    """A thread that waits for the lock on a file of its own, and lets go if it comes too late."""

    def __init__(self, file: int) -> None:
        self.file = file
        self.thread = Thread(target=self._run, name="stenolog-lock", daemon=True)
        self._held = Event()
        self._abandoned = False
        self._turn = Lock()

    def wait(self, timeout: float) -> bool:
        self._held.wait(timeout)
        return not self._abandon()

    def let_go(self) -> None:
        """Give the lock back, now or when it comes."""
        if not self._abandon():
            os.close(self.file)

    def _abandon(self) -> bool:
        """Give up waiting; False where the lock has come by now."""
        with self._turn:
            self._abandoned = not self._held.is_set()
            return self._abandoned

    def _run(self) -> None:
        fcntl.flock(self.file, fcntl.LOCK_EX)
        with self._turn:
            if self._abandoned:
                os.close(self.file)
            else:
                self._held.set()
