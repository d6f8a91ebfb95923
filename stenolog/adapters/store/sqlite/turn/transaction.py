"""A writing transaction: threads' turns, processes' locks, and space in the write-ahead log."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from stenolog.adapters.store.contract.notifier import CommitNotifier
from stenolog.adapters.store.sqlite.errors import RAISED, to_store_error
from stenolog.adapters.store.sqlite.file_locks import FileLock
from stenolog.adapters.store.sqlite.statements import event_rows
from stenolog.domain.errors import StoreError, StoreTimeoutError

from . import durable_head

T = TypeVar("T")
# With "normal" a commit is too fast for one more `stat` each time.
LOOK_SECONDS = 0.02
# A few appends' worth, so that no writer waits long for the room of later ones.
STEP = 65_536
"""Bytes by which the write-ahead log is made longer at once."""
# Zeros are no frame of SQLite's: it takes them for the end of the log.
ZEROS = bytes(STEP)


class WalPreallocator:
    """Space in a write-ahead log, up to `enough` bytes at its end."""

    # A commit that makes a file longer also waits until the file system has noted the new length.
    # One that writes into room that is there already takes little more than half as long.
    # SQLite writes over its log again and again, but the first round after each opening makes it longer.

    def __init__(self, path: str, enough: int) -> None:
        self.path = path
        self.enough = enough
        self._file: int | None = None
        self._end = 0

    def make(self) -> None:
        """Allocate space if none is left. SQLite handles failures."""
        if self._end >= self.enough:
            return
        try:
            if self._file is None:
                # Appending never writes over frames, wherever the end is by then.
                self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0))
            end = os.lseek(self._file, 0, os.SEEK_END)
            if end >= self.enough:  # another process has made it
                self._end = end
            # Where the end is still ours, the room that was made last is not used up.
            elif end != self._end:
                self._end = end + os.write(self._file, ZEROS)
        except OSError:
            # Not tried again: the disk is full, or the folder may not be written.
            self._end = self.enough

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


class OpenedFile:
    """The file that a process opened; another may have been put in its place since."""

    def __init__(self, path: str, file: str, *, is_checked_rarely: bool) -> None:
        self._path = path
        self._file = file
        self._is_checked_rarely = is_checked_rarely
        self._identity: tuple[int, int] | None = None
        self._looks_again = 0.0

    def identify(self) -> None:
        """Remember which file it is."""
        self._identity = _identity(self._file)

    def check(self, now: float | None = None) -> None:
        """Raise `StoreError` if the file was removed or replaced.

        `now`: the monotonic time, from a writer.
        """
        if now is not None and self._is_checked_rarely:
            if now < self._looks_again:
                return
            self._looks_again = now + LOOK_SECONDS
        # SQLite would go on writing into a removed file, and every append would be lost.
        if self._identity is not None and _identity(self._file) != self._identity:
            raise StoreError(
                f"{self._path}: expected the file that was opened, found "
                f"{'another one in its place' if os.path.exists(self._file) else 'none'}: nothing more is "
                "written to it. Close the log, and open it again"
            )


def _identity(path: str) -> tuple[int, int]:
    """Return an identity that distinguishes a file from others of its name."""
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


class TransactionStore(Protocol):
    """A datastore for `Transaction`: its writer, locks, and commit listeners."""

    path: str
    deadline: float
    writer: event_rows.Connection
    thread_lock: threading.Lock
    file_lock: FileLock | None
    wal_preallocator: WalPreallocator | None
    commit_hooks: list[Callable[[sqlite3.Connection], None]]
    commit_notifier: CommitNotifier
    last_head: durable_head.DurableHead
    keeps_note: bool
    opened_file: OpenedFile

    def check(self) -> None:
        """Raise `StoreError` if the datastore is unusable."""

    def timed_out(self) -> StoreTimeoutError:
        """Return the error for a caller that has waited too long."""


@contextmanager
def writing(store: TransactionStore) -> Iterator[sqlite3.Connection]:
    """Open a transaction that commits at the block's end, and rolls back if it raises."""
    transaction = Transaction(store)
    try:
        try:
            yield transaction.begin()
            transaction.commit()
        finally:
            transaction.end()
    except RAISED as error:
        raise to_store_error(error, store.path) from error
    finally:
        # Ctrl-C may have come before the first line of the other.
        if transaction.is_held:
            transaction.end()


def written(store: TransactionStore, work: Callable[[], T]) -> T:
    """Return what the work returns, committed; rolled back if it raises.

    Work of one statement needs no more; other work begins SQLite's transaction itself.
    """
    # The steps of `writing` once more, without a generator: all appends come this way.
    transaction = Transaction(store, lazily=True)
    try:
        try:
            transaction.begin()
            result = work()
            transaction.commit()
        finally:
            transaction.end()
    except RAISED as error:
        raise to_store_error(error, store.path) from error
    finally:
        if transaction.is_held:
            transaction.end()
    return result


class Transaction:
    """The steps of `writing`: `begin`, `commit`, and in any case `end`.

    With `lazily`, only the turn among threads and the lock among processes are taken.
    """

    # Ctrl-C may come before the first line of any function. So there is a second call of `end`, if this says
    # that the turn still has to be given back.
    is_held = False
    _before = 0

    def __init__(self, store: TransactionStore, *, lazily: bool = False) -> None:
        self._store = store
        self._lazily = lazily

    def begin(self) -> sqlite3.Connection:
        """Take the turn and the lock, and return the connection of the writer."""
        store = self._store
        store.check()
        start = time.monotonic()
        # Ctrl-C may come behind every call. `map` takes the lock and notes it with no bytecode between.
        # The order is fixed: first the turn among threads, then the lock among processes. `flock` belongs
        # to the open file, which all threads of a process share.
        (self.is_held,) = map(store.thread_lock.acquire, (True,), (store.deadline,))
        if not self.is_held:
            raise store.timed_out()
        lock = store.file_lock
        # What is left of the deadline: no call waits longer than that in all.
        if lock and not lock.acquire(max(0.0, store.deadline - (time.monotonic() - start))):
            raise store.timed_out()
        # Under the lock, because a restore replaces the file only while it has the lock.
        store.opened_file.check(start)
        # `total_changes` tells at the end whether anything was written, and `inserted` what it was.
        self._before, store.writer.inserted = store.writer.total_changes, None
        # Commit hooks write in the same transaction, so it has more than one statement.
        if not self._lazily or store.commit_hooks:
            store.writer.execute("BEGIN IMMEDIATE")
        # After the lock is taken, so that two processes do not both make the same room.
        if store.wal_preallocator:
            store.wal_preallocator.make()
        return store.writer

    def commit(self) -> None:
        """Commit, then note the durable head; an interruption between leaves the older note."""
        # Noted after COMMIT: after a power cut, a note ahead of its log would refuse a sound log.
        store, writer = self._store, self._store.writer
        changes = writer.total_changes - self._before
        head = None
        if writer.in_transaction:
            for keep_up in tuple(store.commit_hooks):
                keep_up(writer)
            if store.keeps_note and writer.total_changes != self._before:
                # Read within the transaction, so that it is what COMMIT makes durable.
                head = durable_head.newest(writer, store.last_head.file)
            writer.execute("COMMIT")
        # One statement, committed by itself: hooks that came since will find its rows by themselves.
        elif store.keeps_note and changes:
            inserted = writer.inserted
            # All changes were entries of one statement, whose last digest is known without a query.
            if inserted is not None and inserted[0] == changes:
                at = store.last_head
                head = durable_head.DurableHead(
                    at.file, at.record, at.record_digest, inserted[1], inserted[2], at.claim
                )
            else:
                head = durable_head.newest(writer, store.last_head.file)
        if head is not None:
            store.last_head = head
            durable_head.write(store.file_lock, head)

    def end(self) -> None:
        """Roll back uncommitted rows, and let the next writer begin; idempotent."""
        if not self.is_held:
            return
        store, lock = self._store, self._store.file_lock
        try:
            if store.writer.in_transaction:
                store.writer.execute("ROLLBACK")
        finally:
            try:
                if lock:
                    lock.release()
            except BaseException:
                # Closing the file gives the lock back too, where unlocking it was interrupted.
                if lock:
                    lock.close()
                raise
            finally:
                self.is_held = False
                # Last, in reverse order: a thread that gets its turn must find the file's lock free.
                try:
                    store.thread_lock.release()
                finally:
                    # Also after an interruption, which may have come after the commit: a false alarm is
                    # harmless.
                    if store.commit_notifier.listeners:
                        store.commit_notifier.notify()
