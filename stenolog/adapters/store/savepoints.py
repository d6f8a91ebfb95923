"""A job's part in a transaction: what it writes with, and what takes back what it has written."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Generic, TypeAlias, TypeVar

from stenolog.domain.entry import Record

from . import event_rows
from .errors import BUSY, RAISED, to_store_error
from .event_rows import Head, Row
from .stream import Stream

T = TypeVar("T")
Job: TypeAlias = "Callable[[Savepoint], T]"
"""Something to be written, in a transaction with others: all of it or, where it raises, nothing of it."""


class Savepoint:
    """A part of a part. What is done in `with part:` is undone when the block raises.

    `heads`: the streams that the transaction has appended to, their keys, and where they stand once it is
    committed.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.heads: dict[Stream, tuple[int, Head]] = {}

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection that the savepoint writes with."""
        return self._connection

    @property
    def goes_on(self) -> bool:
        """True if the transaction is still open; some failures of the machine end it."""
        return self._connection.in_transaction

    def smaller(self) -> Savepoint:
        """A part of this part, for a job that goes on where something in it is refused."""
        part = Savepoint(self.connection)
        part.heads = self.heads
        return part

    def insert(self, key: int, records: Sequence[Record]) -> None:
        """Write records of one stream; `sqlite3.IntegrityError` where a position or an id is taken."""
        with self:
            event_rows.insert(self.connection, key, records)

    def flush(self) -> None:
        """Have everything written that was inserted: from here on, what `heads` says is so."""

    def __enter__(self) -> None:
        self.connection.execute("SAVEPOINT part")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._connection.execute("RELEASE part")
        elif self.goes_on:
            self.heads.clear()  # some of them are undone; of the others, the log knows
            self._connection.execute("ROLLBACK TO part")
            self._connection.execute("RELEASE part")

    def remember(self) -> None:
        """Note where the streams stand, once that is durable: a head that never was would leave a gap."""
        for stream, (key, head) in self.heads.items():
            stream.key, stream.head = key, head


class SingleWrite(Savepoint):
    """All of a transaction. It begins where several statements are needed: one is a transaction by itself."""

    def insert(self, key: int, records: Sequence[Record]) -> None:
        if len(records) <= event_rows.AT_ONCE:
            event_rows.insert(self._connection, key, records)
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


class PendingWrite(Generic[T]):
    """A job in the queue; `done` says when it is done or refused, and the thread that writes calls `wake`.

    Those of a transaction that have the same `wake` are woken by one call of it.
    """

    __slots__ = ("_result", "done", "error", "job", "wake")
    _result: T

    def __init__(self, job: Job[T], wake: Callable[[], object]) -> None:
        self.job = job
        self.wake = wake
        self.done = False
        self.error: BaseException | None = None

    def run(self, part: Savepoint, path: str) -> None:
        """Do the job, or note why it cannot be done. Raises what ends the transaction for all."""
        try:
            self._result = self.job(part)
        except Exception as error:
            if not part.goes_on:
                raise
            self.error = to_store_error(error, path) if isinstance(error, RAISED) else error

    def result(self) -> T:
        """Return the job's result.

        Raises the job's error, or the error that kept its transaction from committing.
        """
        if self.error is not None:
            raise self.error
        return self._result


class WriteBatch(Savepoint):
    """The part of many jobs, one after another. Rows that are inserted are gathered, and written at once:
    with each statement, other threads get their turn. Whoever uses the connection finds them written.

    Where one of them is in the way of another, or of the log, each job is done again by itself. The
    transaction begins, as for one, where several statements are needed: before the first of them, so that all
    jobs are durable together.
    """

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        super().__init__(connection)
        self._path = path
        self._begun = connection.in_transaction
        self._rows: list[Row] = []
        self._gathered: list[PendingWrite[Any]] = []
        self._job: PendingWrite[Any] | None = None

    @property
    def connection(self) -> sqlite3.Connection:
        self.flush()
        return self._connection

    @property
    def goes_on(self) -> bool:
        return not self._begun or super().goes_on

    def run(self, job: PendingWrite[Any]) -> None:
        """Do a job, or note why it cannot be done. Raises what ends the transaction for all."""
        self._job = job
        job.run(self, self._path)

    def insert(self, key: int, records: Sequence[Record]) -> None:
        if self._job is None:
            super().insert(key, records)
            return
        self._rows += event_rows.rows(key, records)
        self._gathered.append(self._job)

    def flush(self) -> None:
        if not self._begun:
            self._begun = True  # whoever cannot begin ends it for all: they would wait for the same once more
            self._connection.execute("BEGIN IMMEDIATE")
        self.finish()

    def finish(self) -> None:
        """Write what was gathered, as the last that is done, or behind the beginning of the transaction."""
        if not self._rows:
            return
        rows, gathered, job = self._rows, self._gathered, self._job
        self._rows, self._gathered, self._job = [], [], None
        try:
            if len(rows) <= event_rows.AT_ONCE:
                event_rows.insert_rows(self._connection, rows)
            else:
                with self:
                    event_rows.insert_rows(self._connection, rows)
        except Exception as error:
            if not self.goes_on or getattr(error, "sqlite_errorcode", 0) & 0xFF in BUSY:
                raise
            self.heads.clear()
            for each in gathered:
                each.run(self, self._path)
        self._job = job
