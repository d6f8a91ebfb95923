"""One transaction that writes: the turn among the threads, the lock among the processes, and SQLite's own."""

from __future__ import annotations

import sqlite3
import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING

from . import durable_head
from .errors import RAISED, to_store_error

if TYPE_CHECKING:
    from .database import LogDatastore


class Transaction(AbstractContextManager[sqlite3.Connection]):
    """What `LogDatastore.writing` begins and ends. `lazily`: SQLite's own is begun by whoever needs it, which
    one statement does not; the turn and the lock are taken all the same.

    Ctrl-C may come behind every call, and before the first line of every function, `__exit__` too: so the
    turn is taken and noted with no call between, and whoever uses this calls `end` once more in the end.
    """

    _held = False
    _before = 0

    def __init__(self, store: LogDatastore, *, lazily: bool = False) -> None:
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
        (self._held,) = map(store._turn.acquire, (True,), (store.deadline,))
        if not self._held:
            raise store._busy()
        if store._lock and not store._lock.acquire(max(0.0, store.deadline - (time.monotonic() - start))):
            raise store._busy()
        store.check_place(start)
        self._before, store._writer.inserted = store._writer.total_changes, None
        if not self._lazily or store.kept_up:
            store._writer.execute("BEGIN IMMEDIATE")
        if store._room:
            store._room.make()
        return store._writer

    def _commit(self) -> None:
        """Commit, and note what is durable then; an interruption between the two leaves the older note."""
        store, writer = self._store, self._store._writer
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
        store, lock = self._store, self._store._lock
        try:
            if store._writer.in_transaction:
                store._writer.execute("ROLLBACK")
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
                store._turn.release()
