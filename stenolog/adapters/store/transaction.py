"""One transaction that writes: turns of threads, locks of processes, room in the WAL, news of the commit.

A commit that makes a file longer waits for the file system, too, to note how long it is now; one that writes
into what is there already does not, and takes little more than half as long. SQLite writes over its
write-ahead log again and again, but what comes first after each opening makes it longer.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from types import TracebackType
from typing import Protocol, TypeAlias

from stenolog.domain.errors import StoreTimeoutError

from . import durable_head, event_rows
from .errors import RAISED, to_store_error
from .file_locks import FileLock

STEP = 65_536
"""Bytes at once: a few appends' worth, so that nobody waits long for those of others."""
ZEROS = bytes(STEP)
"""No frame of SQLite's: it takes them for the end, as it does what is left of an earlier round."""


class WalPreallocator:
    """The room in one write-ahead log, up to some `enough` bytes; it is made at its end, wherever that is."""

    def __init__(self, path: str, enough: int) -> None:
        self.path = path
        self.enough = enough
        self._file: int | None = None
        self._end = 0

    def make(self) -> None:
        """Make room where there is none left. Where that fails, SQLite does without, or says why."""
        if self._end >= self.enough:
            return
        try:
            if self._file is None:
                self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0))
            end = os.lseek(self._file, 0, os.SEEK_END)
            if end >= self.enough:  # others have made it
                self._end = end
            elif end != self._end:
                self._end = end + os.write(self._file, ZEROS)
        except OSError:
            self._end = self.enough

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


Listener: TypeAlias = Callable[[], object]
Versions: TypeAlias = Callable[[], Generator[int, None, None]]
POLL = 0.05
"""Seconds between two looks at what other processes have committed."""


class CommitNotifier:
    """Calls its listeners whenever the log has grown; now and then also when it has not.

    `versions` makes a generator whose value changes with every commit of another process; None where there
    can be no other. It is asked by one thread, which lives only while somebody listens.
    """

    def __init__(self, versions: Versions | None) -> None:
        self._versions = versions
        self._listeners: dict[object, Listener] = {}
        self._guard = threading.Lock()
        self._stop: threading.Event | None = None

    def notify(self) -> None:
        """Call every listener. They must be quick."""
        for listener in tuple(self._listeners.values()):
            with suppress(RuntimeError):  # the event loop of a listener may have ended
                listener()

    @contextmanager
    def subscribe(self, listener: Listener) -> Iterator[None]:
        """Have `listener` called from now on.

        Look at the log once more after this begins: it may have grown before.
        """
        key = object()
        with self._guard:
            self._listeners[key] = listener
            self._start()
        try:
            yield
        finally:
            with self._guard:
                del self._listeners[key]
                if not self._listeners:
                    self._end()

    def close(self) -> None:
        """Stop looking, and wake everybody so that they notice."""
        with self._guard:
            self._end()
        self.notify()

    def _start(self) -> None:
        if self._stop is None and self._versions is not None:
            self._stop = threading.Event()
            work = (self._versions(), self._stop)
            threading.Thread(target=self._poll, args=work, name="stenolog-tail", daemon=True).start()

    def _end(self) -> None:
        if self._stop is not None:
            self._stop.set()
            self._stop = None

    def _poll(self, versions: Generator[int, None, None], stop: threading.Event) -> None:
        with closing(versions):
            seen = None  # rings at once: something may have come before the first look
            while True:
                seen, before = next(versions), seen
                if seen != before:
                    self.notify()
                if stop.wait(POLL):
                    return


class TransactionStore(Protocol):
    """A datastore as `Transaction` needs it: its writer, its locks, and what is told of a commit."""

    path: str
    deadline: float
    writer: event_rows.Connection
    thread_lock: threading.Lock
    file_lock: FileLock | None
    wal_preallocator: WalPreallocator | None
    commit_hooks: list[Callable[[sqlite3.Connection], None]]
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
        """Note the durable head beside the log."""


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
        if not self._lazily or store.commit_hooks:
            store.writer.execute("BEGIN IMMEDIATE")
        if store.wal_preallocator:
            store.wal_preallocator.make()
        return store.writer

    def _commit(self) -> None:
        """Commit, then note the durable head; an interruption between the two leaves the older note."""
        store, writer = self._store, self._store.writer
        changes = writer.total_changes - self._before
        note = None
        if writer.in_transaction:
            for keep_up in tuple(store.commit_hooks):
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
        """Roll back uncommitted rows, and let the next writer begin; does nothing the second time."""
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
