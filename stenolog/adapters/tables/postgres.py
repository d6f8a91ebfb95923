"""Tables in PostgreSQL, kept up to date by a follower of the log.

    with Follower(log, "dbname=acme", messages) as follower:
        follower.follow()

Rows, the names of conversations and how far the follower has come are written in one transaction: wherever
it is killed, it goes on with what is missing, and nothing is there twice. Any number may follow one log; they
take turns.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

from stenolog.adapters.store.contract.address import is_postgres
from stenolog.adapters.store.contract.values import CommittedRow, LogMoment
from stenolog.adapters.store.postgres.connection.address import parse
from stenolog.adapters.store.reading import reader
from stenolog.domain.errors import CallerError, MissingExtraError, StoreError, TableError

from .sql import Committed, Intake, drop, inherit, load_table, make, note_fault, prepare
from .table import TYPES, Table

if TYPE_CHECKING:
    import psycopg

    from stenolog.adapters.conversation.log import Log

PAGE = 500
"""The number of entries that one transaction adds."""
TURN = 0x53544E4F
"""The advisory lock that followers take turns by: "STNO"."""
WAIT = 1.0
"""Seconds before a connection that was lost is made anew."""
PASSING = ("40", "53", "55", "57")
"""Classes of errors that pass: rolled back, out of resources, not in that state, an operator's doing."""
LOGGER = logging.getLogger("stenolog")
OWN = (
    """CREATE TABLE IF NOT EXISTS stenolog_conversations (
        stream BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS stenolog_names ON stenolog_conversations (name)",
    """CREATE TABLE IF NOT EXISTS stenolog_tracking (
        name TEXT NOT NULL PRIMARY KEY, position BIGINT NOT NULL, digest TEXT NOT NULL)""",
)
ADVANCE = """INSERT INTO stenolog_tracking VALUES (?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET position = excluded.position, digest = excluded.digest"""


class InPostgres:
    """A PostgreSQL database, for tables."""

    conversations: ClassVar[str] = "stenolog_conversations"
    types: ClassVar[dict[type, str]] = {**TYPES, bytes: "BYTEA", datetime: "TIMESTAMPTZ"}

    def __init__(self, connection: psycopg.Connection, raises: tuple[type[Exception], ...]) -> None:
        self.connection = connection
        self.raises = raises

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return a statement's rows; `?` is a value."""
        cursor = self.connection.execute(statement.replace("?", "%s"), values)
        return cursor.fetchall() if cursor.description else []

    def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run the statement for each row. U+FFFD replaces NUL in text."""
        with self.connection.cursor() as cursor:
            told = [list(map(_to_postgres, row)) for row in rows]
            cursor.executemany(statement.replace("?", "%s"), told)


class Follower:
    """Follower that keeps tables in PostgreSQL up to date with a log; `dsn` as for libpq.

    For one thread at a time. Creates tables, and recreates those of another version or other columns. Raises
    `MissingExtraError` without psycopg, `StoreError` without a connection, `InvalidEventError` for an invalid
    address.
    """

    def __init__(self, log: Log, dsn: str, *tables: Table) -> None:
        try:
            import psycopg
        except ImportError:
            raise MissingExtraError("postgres", "psycopg") from None
        if not tables:
            raise CallerError("expected a table to keep up to date, found none")
        self._psycopg = psycopg
        self._recorder = log.recorder
        # Quoted anew: of what it cannot read the driver's errors tell parts, of a password too.
        self._dsn = parse(dsn).conninfo if is_postgres(dsn) else dsn
        self._tables = tables
        self._connection: psycopg.Connection | None = None
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Follower:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the connection back."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def follow(self, timeout: float | None = None) -> None:
        """Catch up whenever the log grows, until closed or quiet for `timeout` seconds.

        Reconnects after a lost connection. A table that fails is logged and skipped.
        """
        woken = threading.Event()
        with self._recorder.listening(woken.set):
            while not self._recorder.closed:
                woken.clear()  # before reading: what comes after that wakes us again
                try:
                    self.catch_up()
                except StoreError as error:
                    if not self._recorder.closed:
                        LOGGER.warning("%s; again in %s s", error, WAIT)
                        woken.wait(WAIT)
                        woken.set()
                except TableError as error:
                    LOGGER.warning("%s", error)
                if not woken.wait(timeout):
                    return

    def catch_up(self) -> None:
        """Apply missing entries, renames and deletions.

        Raises `TableError` if a table's function fails, after updating the others; entries before the failure
        stay applied.
        """
        faults = [fault for table in self._tables if (fault := self._catch_up(table))]
        if faults:
            raise TableError("; ".join(faults))

    def rebuild(self) -> None:
        """Drop the tables and rebuild them, also from another log.

        All other tables there begin anew at their next turn. Raises `TableError`, as `catch_up`.
        """
        with self._transaction() as database:
            database.run("DELETE FROM stenolog_conversations")  # and with them lineage and rows
            database.run("UPDATE stenolog_tracking SET position = 0, digest = ''")
            for table in self._tables:
                self._make(database, table)
        self.catch_up()

    def _prepare(self) -> None:
        with self._transaction() as database:
            for statement in OWN:
                database.run(statement)
            prepare(database)
            for table in self._tables:
                found = load_table(database, table.name)
                if found is None or found.signature != table.signature:
                    self._make(database, table)

    def _catch_up(self, table: Table) -> str:
        """Apply all that a table lacks; return its fault, empty if up to date."""
        while True:
            with self._transaction() as database:
                name = table.name
                found = load_table(database, name)
                if found is None or found.signature != table.signature:
                    return f"{name}: expected {table.signature}; found {found}"
                ((after, digest),) = database.run(
                    "SELECT position, digest FROM stenolog_tracking WHERE name = ?", (name,)
                )
                here = self._recorder.moment(after, PAGE)
                if here.digest not in (None, bytes.fromhex(digest)) or here.newest < after:
                    return f"{name}: it follows another log; `rebuild` makes it one of this one"
                _mirror(database, here)
                reached, fault = Intake(database, table).take(map(_committed, here.entries))
                if reached:
                    database.run(ADVANCE, (name, reached, self._digest(reached)))
                if fault or found.fault:
                    note_fault(database, name, fault)
            if fault or not reached:
                return fault and f"{name}: {fault}"

    def _digest(self, notification: int) -> str:
        found, digest = self._recorder.last_committed(notification)
        return digest.hex() if found == notification else ""

    def _make(self, database: InPostgres, table: Table) -> None:
        names = (f'"{table.name}"', f'"{table.name}__rows"')
        there = database.run("SELECT to_regclass(?), to_regclass(?)", names) != [(None, None)]
        if there and load_table(database, table.name) is None:
            raise CallerError(f"{table.name!r}: the database has a table of this name, which is not ours")
        drop(database, table.name)
        make(database, table)
        database.run(ADVANCE, (table.name, 0, ""))

    @contextmanager
    def _transaction(self) -> Iterator[InPostgres]:
        """Open a transaction, exclusive among followers.

        Raises `StoreError` if the connection fails, `TableError` for other refusals.
        """
        raised = self._psycopg.Error
        try:
            if self._connection is None:
                self._connection = self._psycopg.connect(self._dsn, autocommit=True)
            with self._connection.transaction():
                self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (TURN,))
                yield InPostgres(self._connection, (raised,))
        except raised as error:
            told = f"PostgreSQL: {str(error).strip()}"
            if self._connection is None or self._connection.broken:
                self.close()
                raise StoreError(told) from error
            if (error.sqlstate or "")[:2] in PASSING:
                raise StoreError(told) from error
            raise TableError(told) from error


def _committed(row: CommittedRow) -> Committed:
    return Committed(row.notification, row.key, reader.decoded(row))


def _mirror(database: InPostgres, here: LogMoment) -> None:
    there = dict(database.run("SELECT stream, name FROM stenolog_conversations"))
    for stream, name, parent, fork in here.conversations:
        if stream not in there:
            database.run("INSERT INTO stenolog_conversations VALUES (?, ?)", (stream, name))
            inherit(database, stream, parent, fork)
        elif there.pop(stream) != name:
            database.run("UPDATE stenolog_conversations SET name = ? WHERE stream = ?", (name, stream))
    if there:
        database.run("DELETE FROM stenolog_conversations WHERE stream = ANY(?)", (list(there),))


def _to_postgres(value: Any) -> Any:
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value
