"""Group commit: jobs that arrive during a transaction are written together in the next one.

Most of an append's time is one `fsync`. Of 64 threads that commit one after another, the last would wait for
64; with groups it waits for two: the commit under way, and its own group's.

A job is a function that writes into a transaction, such as `appends.append`. `GroupCommit.write` runs it:

- In the caller's thread (`SingleWrite`), if no thread is writing and the queue is empty.
- Otherwise in the writer thread, while the caller sleeps. It takes all queued jobs, at most `MOST`, into one
  transaction (`WriteBatch`), commits it, and wakes their callers. It ends after `LINGER` idle seconds.

Jobs of one group do not notice each other:

- A savepoint undoes the changes of a job that raises; only its caller gets the error.
- A job sees what earlier ones wrote: `heads` has each stream's head within the transaction.
- Rows are written by one statement, because each statement costs a switch of threads. If a row is refused,
  its jobs run again one by one, to find the one at fault.

A stream learns its new head after the commit (`remember`).

An error that ends the transaction, such as a full disk, is raised in every caller of the group, and nothing
of it is written. After `StoreTimeoutError` the queued jobs fail too. Interrupting a sleeping caller does not
stop its job: append again with the same entry id to learn whether it was done.

`store.written` takes the turn among threads and the lock among processes (see `transaction`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from threading import Lock, current_thread
from types import TracebackType
from typing import Any, Protocol, TypeAlias, TypeVar

from stenolog.adapters.store.contract.values import Head, Row, Stream
from stenolog.adapters.store.contract.write_queue import MOST, PendingWrite, WriteQueue
from stenolog.adapters.store.sqlite.errors import BUSY, RAISED, to_store_error
from stenolog.adapters.store.sqlite.statements import event_rows
from stenolog.domain.entry import Record
from stenolog.domain.errors import StoreTimeoutError

T = TypeVar("T")
Job: TypeAlias = Callable[["Savepoint"], T]
"""Something to be written, in a transaction with others: all of it or, where it raises, nothing of it."""
PendingJob: TypeAlias = PendingWrite[Job[T], T]


class WritableStore(Protocol):
    """A datastore as `GroupCommit` needs it."""

    path: str
    thread_lock: Lock
    writer: sqlite3.Connection

    def check(self) -> None:
        """Raise `StoreError` if the datastore is unusable."""

    def written(self, work: Callable[[], T]) -> T:
        """Return what the work returns, committed."""


class GroupCommit(WriteQueue[Job[Any]]):
    """Writer for one datastore that commits jobs singly or in groups."""

    def __init__(self, store: WritableStore) -> None:
        super().__init__(store)
        self._datastore = store

    def write(self, job: Job[T]) -> T:
        """Do the job, durable on return. Raises the job's errors, `StoreTimeoutError`, `StoreError`."""
        # The writer thread writes by itself: waiting for its own queue would never end.
        # A caller that finds jobs queued joins them, so that it does not overtake them.
        is_busy = self._datastore.thread_lock.locked() or not self._queue.empty()
        if is_busy and current_thread() is not self._thread:
            return self._wait(job)
        part = SingleWrite(self._datastore.writer)
        result = self._datastore.written(partial(job, part))
        # After the commit: a head that was never committed would leave a gap in the positions.
        part.remember()
        return result

    def savepoint(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a job in a savepoint: if it raises, its changes are undone."""

        def job(part: Savepoint) -> T:
            with part:
                return work(part.connection)

        return self.write(job)

    def _wait(self, job: Job[T]) -> T:
        """Queue the job and sleep until done. An interruption does not stop it."""
        done = Lock()
        done.acquire()
        waiting: PendingJob[T] = PendingWrite(job, done.release)
        self.submit(waiting)
        done.acquire()
        return waiting.result()

    def _write_together(self, first: PendingJob[Any]) -> None:
        taken = [first]
        try:
            part = self._datastore.written(partial(self._batch, taken))
        except BaseException as error:
            # The queued jobs fail with it: they would wait for the same lock once more.
            if isinstance(error, StoreTimeoutError):
                taken += self._queued()
            for waiting in taken:
                waiting.error = error
        else:
            part.remember()
        self._finish(taken)

    def _batch(self, taken: list[PendingJob[Any]]) -> WriteBatch:
        part = WriteBatch(self._datastore.writer, self._store.path)
        for waiting in self._gathering(taken):
            part.run(waiting)
        part.finish()
        return part

    def _gathering(self, taken: list[PendingJob[Any]]) -> Iterator[PendingJob[Any]]:
        """Yield the dequeued jobs, then more from the queue, up to `MOST`.

        Each is dequeued as it is yielded.
        """
        yield from taken
        # Noted in `taken` before it runs, so that an error of the transaction reaches its caller too.
        for waiting in islice(self._queued(), MOST - len(taken)):
            taken.append(waiting)
            yield waiting


class Savepoint:
    """A part of a transaction. `with part:` undoes its changes if the block raises.

    `heads`: streams that the transaction appended to, their keys, and heads after the commit.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.heads: dict[Stream, tuple[int, Head]] = {}

    @property
    def connection(self) -> sqlite3.Connection:
        return self._connection

    @property
    def goes_on(self) -> bool:
        """True if the transaction is still open; some failures end it."""
        return self._connection.in_transaction

    def smaller(self) -> Savepoint:
        """Return a part of this part, for a job that continues after a refusal."""
        part = Savepoint(self.connection)
        part.heads = self.heads
        return part

    def insert(self, key: int, records: Sequence[Record]) -> None:
        """Write a stream's records; `sqlite3.IntegrityError` for a taken position or id."""
        with self:
            event_rows.insert(self.connection, key, records)

    def flush(self) -> None:
        """Write all inserted rows: from here on, `heads` is right."""

    def __enter__(self) -> None:
        self.connection.execute("SAVEPOINT part")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._connection.execute("RELEASE part")
        elif self.goes_on:
            # Some heads are undone with the savepoint; those that still hold are read again from the log.
            self.heads.clear()
            self._connection.execute("ROLLBACK TO part")
            self._connection.execute("RELEASE part")

    def remember(self) -> None:
        """Note the heads of the streams; call it once they are durable."""
        for stream, (key, head) in self.heads.items():
            stream.key, stream.head = key, head


class SingleWrite(Savepoint):
    """All of a transaction, which begins where several statements are needed."""

    def insert(self, key: int, records: Sequence[Record]) -> None:
        # These fit into one statement, which SQLite commits or undoes as a whole.
        if len(records) <= event_rows.AT_ONCE:
            event_rows.insert_rows(self._connection, event_rows.rows(key, records))
        else:
            super().insert(key, records)

    def __enter__(self) -> None:
        if not self.goes_on:
            self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self.goes_on:
            self.heads.clear()
            self._connection.execute("ROLLBACK")


class WriteBatch(Savepoint):
    """The part of many successive jobs.

    Inserted rows are collected, and written before other use of the connection. If one conflicts, each job is
    run again singly. The transaction begins before the first of several statements.
    """

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        super().__init__(connection)
        self._path = path
        # With commit hooks the transaction has begun already (see `Transaction.begin`).
        self._begun = connection.in_transaction
        self._rows: list[Row] = []
        self._gathered: list[PendingJob[Any]] = []
        self._job: PendingJob[Any] | None = None

    @property
    def connection(self) -> sqlite3.Connection:
        self.flush()
        return self._connection

    @property
    def goes_on(self) -> bool:
        # Before BEGIN there is no transaction that an error could have ended.
        return not self._begun or super().goes_on

    def run(self, job: PendingJob[Any]) -> None:
        """Run a job, or note its error. Raises errors that end the transaction."""
        self._job = job
        self._try(job)

    def _try(self, job: PendingJob[Any]) -> None:
        try:
            job.written = job.asked(self)
        except Exception as error:
            # The transaction itself has ended, so no job of it is done: all their callers get the error.
            if not self.goes_on:
                raise
            job.error = to_store_error(error, self._path) if isinstance(error, RAISED) else error

    def insert(self, key: int, records: Sequence[Record]) -> None:
        # No job is running, or its rows were refused together: these are written at once, to find the
        # fault.
        if self._job is None:
            super().insert(key, records)
            return
        # Gathered, because each statement lets go of the interpreter and costs a switch of threads.
        self._rows += event_rows.rows(key, records)
        self._gathered.append(self._job)

    def flush(self) -> None:
        if not self._begun:
            # Set first: where BEGIN fails, `goes_on` is false, and the error ends the group for all.
            # Else each of its jobs would wait for the same lock once more.
            self._begun = True
            self._connection.execute("BEGIN IMMEDIATE")
        self.finish()

    def finish(self) -> None:
        """Write the collected rows at the end."""
        if not self._rows:
            return
        rows, gathered, job = self._rows, self._gathered, self._job
        # Without a job, `insert` writes at once: the jobs that are run again below must not gather.
        self._rows, self._gathered, self._job = [], [], None
        try:
            if len(rows) <= event_rows.AT_ONCE:
                event_rows.insert_rows(self._connection, rows)
            else:
                with self:
                    event_rows.insert_rows(self._connection, rows)
        except Exception as error:
            # A busy database is not a refused row: trying each job alone would wait again for each.
            if not self.goes_on or getattr(error, "sqlite_errorcode", 0) & 0xFF in BUSY:
                raise
            # The heads that the jobs below went by were never written.
            self.heads.clear()
            for each in gathered:
                self._try(each)
        self._job = job
