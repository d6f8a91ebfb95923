"""One transaction that writes: the turn among the threads, the lock among the processes, and SQLite's own."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol

from stenolog.domain.errors import StoreTimeoutError

from . import durable_head, event_rows
from .errors import RAISED, to_store_error
from .filelock import FileLock
from .notify import CommitNotifier
from .wal_preallocation import WalPreallocator


class TransactionStore(Protocol):
    """A datastore as `Transaction` needs it: its writer, its locks, and what is told of a commit."""

    path: str
    deadline: float
    writer: event_rows.Connection
    thread_lock: threading.Lock
    file_lock: FileLock | None
    wal_preallocator: WalPreallocator | None
    kept_up: list[Callable[[sqlite3.Connection], None]]
    bell: CommitNotifier
    noted: durable_head.Note
    notes: bool

    def check(self) -> None:
        """Raise `StoreError` where the datastore cannot be used any more."""

    def check_place(self, now: float | None = None) -> None:
        """Raise `StoreError` where the file was removed or replaced."""

    def timed_out(self) -> StoreTimeoutError:
        """Return the error for a caller that has waited too long."""

    def note(self, note: durable_head.Note) -> None:
        """Note beside the log what is durable."""


class Transaction(AbstractContextManager[sqlite3.Connection]):
    """The context manager behind `LogDatastore.writing`.

    With `lazily`, callers begin SQLite's own transaction if they need one, which a single statement does not;
    the turn and the lock are taken all the same.

    Ctrl-C may come behind every call, and before the first line of every function, `__exit__` too: so the
    turn is taken and noted with no call between, and every user calls `end` once more in the end.
    """

    _held = False
    _before = 0

    def __init__(self, store: TransactionStore, *, lazily: bool = False) -> None:
        self._store = store
        self._lazily = lazily

    def __enter__(self) -> sqlite3.Connection:
        try:
            return self._begin()
        except BaseException as error:
            self.end()
            if isinstance(error, RAISED):
                raise to_store_error(error, self._store.path) from error
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        store = self._store
        try:
            if error is None:
                self._commit()
            self.end()
        except BaseException as failed:
            self.end()
            if isinstance(failed, RAISED):
                raise to_store_error(failed, store.path) from failed
            raise
        finally:
            store.bell.notify()  # also for whoever was interrupted behind a commit: a false alarm is harmless
        if isinstance(error, RAISED):
            raise to_store_error(error, store.path) from error

    def _begin(self) -> sqlite3.Connection:
        store = self._store
        store.check()
        start = time.monotonic()
        (self._held,) = map(store.thread_lock.acquire, (True,), (store.deadline,))
        if not self._held:
            raise store.timed_out()
        lock = store.file_lock
        if lock and not lock.acquire(max(0.0, store.deadline - (time.monotonic() - start))):
            raise store.timed_out()
        store.check_place(start)
        self._before, store.writer.inserted = store.writer.total_changes, None
        if not self._lazily or store.kept_up:
            store.writer.execute("BEGIN IMMEDIATE")
        if store.wal_preallocator:
            store.wal_preallocator.make()
        return store.writer

    def _commit(self) -> None:
        """Commit, and note what is durable then; an interruption between the two leaves the older note."""
        store, writer = self._store, self._store.writer
        changes = writer.total_changes - self._before
        note = None
        if writer.in_transaction:
            for keep_up in tuple(store.kept_up):
                keep_up(writer)
            if store.notes and writer.total_changes != self._before:
                note = durable_head.newest(writer, store.noted.file)
            writer.execute("COMMIT")
        elif store.notes and changes:  # it was one statement; whoever keeps up since then finds it by himself
            inserted = writer.inserted
            if inserted is not None and inserted[0] == changes:
                note = store.noted._replace(entry=inserted[1], entry_digest=inserted[2])
            else:
                note = durable_head.newest(writer, store.noted.file)
        if note is not None:
            store.note(note)

    def end(self) -> None:
        """Undo what was not committed, and let the next one write; where that is done already, nothing."""
        if not self._held:
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
                if lock:
                    lock.close()
                raise
            finally:
                self._held = False
                store.thread_lock.release()
