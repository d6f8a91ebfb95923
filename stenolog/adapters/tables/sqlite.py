"""Tables in the log's own database, updated in each append's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from stenolog.adapters.store.contract.values import Cursor
from stenolog.adapters.store.reading import reader
from stenolog.adapters.store.sqlite.recorder import SqliteLogRecorder
from stenolog.adapters.store.sqlite.statements import event_rows, schema
from stenolog.adapters.store.sqlite.statements.dialect import shared
from stenolog.adapters.store.sqlite.turn.datastore import SqliteLogDatastore
from stenolog.domain.errors import CallerError, TableError

from .sql import Committed, Intake, drop, inherit, load_table, make, note_fault, prepare
from .table import TABLES, TYPES, Table

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Log

AT_ONCE = 5_000
"""The most entries that one transaction adds: appending processes must not wait for a whole log."""
PAGE = 500
REFUSED = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_READONLY)
READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
NOBODYS = sqlite3.SQLITE_MISUSE
FAULTS = {
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_RANGE,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,
    NOBODYS,
}
"""Errors of SQLite's that what was asked of it is to blame for, and not the machine."""


class InSQLite:
    """The log's database, for tables."""

    conversations: ClassVar[str] = "conversations"
    types: ClassVar[dict[type, str]] = TYPES
    raises: tuple[type[Exception], ...] = (sqlite3.Error,)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows that a statement gives."""
        return self.connection.execute(statement, values).fetchall()

    def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run the statement for each row; times are ISO 8601, so that they sort."""
        self.connection.executemany(statement, [list(map(_stored, row)) for row in rows])


class TableStatus(NamedTuple):
    """The number of entries a table is behind, and the fault that stopped it (empty: none)."""

    name: str
    behind: int
    fault: str = ""


class AttachedTable:
    """A table that this log keeps up to date; see `attach_table`."""

    def __init__(self, log: Log, table: Table) -> None:
        self.table = table
        self._datastore = _datastore(log)
        self._mark = f"table:{table.name}"

    def __repr__(self) -> str:
        return f"<Kept {self.table.name} in {self._datastore.path}>"

    def status(self) -> TableStatus:
        """Return the status. Raises `TableError` if the table was removed or redefined."""
        with self._datastore.reading() as connection:
            found = load_table(InSQLite(connection), self.table.name)
            if found is None or found.signature != self.table.signature:
                raise TableError(f"{self.table.name}: expected {self.table.signature}; found {found}")
            return _status(connection, self.table.name, found.fault)

    def catch_up(self) -> None:
        """Apply missing entries. Raises `TableError` if its function fails; call again to retry."""
        with self._datastore.writing() as connection:
            note_fault(InSQLite(connection), self.table.name, "")
        before = 0
        while (stands := self.status()).behind:
            if stands.fault:
                raise TableError(f"{stands.name}: {stands.fault}")
            if stands.behind == before:
                raise TableError(f"{stands.name}: this log does not keep it any more")
            before = stands.behind
            with self._datastore.writing():
                pass  # at its end the next batch is taken in

    def rebuild(self) -> None:
        """Drop the table and rebuild it. Raises `TableError`, as `catch_up`."""
        with self._datastore.writing() as connection:
            self._make(connection)
        self.catch_up()

    def drop(self) -> None:
        """Drop the table, which is no longer updated."""
        if self.keep_up in self._datastore.commit_hooks:
            self._datastore.commit_hooks.remove(self.keep_up)
        with self._datastore.writing() as connection:
            drop(InSQLite(connection), self.table.name)
            shared.forget(connection, self._mark)

    def select(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a read-only SQL query; `?` is a value.

        Applies other programs' entries first. Raises `TableError` if the table stopped before the log's end,
        `CallerError` for an invalid query.
        """
        if (stands := self.status()).fault:
            raise TableError(f"{stands.name}: {stands.fault}")
        if stands.behind:
            self.catch_up()
        with self._datastore.reading() as connection:
            connection.set_authorizer(_may_read)
            try:
                return connection.execute(query, values).fetchall()
            except (sqlite3.Error, sqlite3.Warning) as error:
                if getattr(error, "sqlite_errorcode", NOBODYS) in FAULTS:
                    raise CallerError(f"{query[:200]!r}: {error}") from error
                raise
            finally:
                connection.set_authorizer(None)

    def attach(self) -> None:
        """Create the table if needed, and keep it up to date."""
        with self._datastore.writing() as connection:
            _prepare(InSQLite(connection))
            found = load_table(InSQLite(connection), self.table.name)
            if found is None or found.signature != self.table.signature:
                self._make(connection)
        self._datastore.commit_hooks.append(self.keep_up)
        self.catch_up()

    def keep_up(self, connection: sqlite3.Connection) -> None:
        """Apply the transaction's entries, and earlier ones of other processes.

        A failure is recorded and stops only the table: the append has happened.
        """
        after = shared.load_cursor(connection, self._mark).position
        if after >= event_rows.newest(connection)[0]:
            return
        database = InSQLite(connection)
        found = load_table(database, self.table.name)
        if found is None or found.fault or found.signature != self.table.signature:
            return
        connection.execute("SAVEPOINT kept")
        try:
            reached, fault = Intake(database, self.table).take(_next(connection, after))
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", NOBODYS) not in FAULTS:
                raise  # the disk is full, say: then the append fails too
            connection.execute("ROLLBACK TO kept")
            reached, fault = 0, str(error)
        connection.execute("RELEASE kept")
        if reached:
            shared.save_cursor(connection, self._mark, Cursor(reached))
        if fault:
            note_fault(database, self.table.name, fault)

    def _make(self, connection: sqlite3.Connection) -> None:
        """Create the empty table, in place of another definition's."""
        database, name = InSQLite(connection), self.table.name
        others = "SELECT type FROM sqlite_master WHERE lower(name) IN (?, ?)"
        if load_table(database, name) is None and database.run(others, (name, f"{name}__rows")):
            raise CallerError(f"{name!r}: the database has a table of this name, which is not ours")
        drop(database, name)
        shared.forget(connection, self._mark)
        make(database, self.table)


def attach_table(log: Log, table: Table | str) -> AttachedTable:
    """Have a table, or a registered one's name, follow the log in its own database.

    It is created, or recreated for another version or other columns, and brought up to date. Then each append
    of this log updates it in the same transaction, with entries of other programs: at most 5,000 at once. If
    the table's function fails, the append succeeds and the table stops until `catch_up` or `rebuild`. These,
    `select` and this raise `TableError` then. Raises `NotRegisteredError` for an unknown name, and
    `CallerError` for a log that is not in an SQLite file: `Follower` keeps tables elsewhere.
    """
    if isinstance(table, str):
        table = TABLES[table]
    for other in _datastore(log).commit_hooks:
        kept = getattr(other, "__self__", None)
        if isinstance(kept, AttachedTable) and kept.table.name == table.name:
            if kept.table != table:
                raise CallerError(f"{table.name!r}: this log keeps another table of this name")
            kept.catch_up()
            return kept
    kept = AttachedTable(log, table)
    kept.attach()
    return kept


def attached_tables(log: Log) -> list[TableStatus]:
    """Return the status of every table in the log's database, of any program."""
    with _datastore(log).reading() as connection:
        database = InSQLite(connection)
        if not database.run("SELECT 1 FROM sqlite_master WHERE name = 'stenolog_tables'"):
            return []
        found = database.run("SELECT name, fault FROM stenolog_tables ORDER BY name")
        return [_status(connection, name, fault) for name, fault in found]


def _datastore(log: Log) -> SqliteLogDatastore:
    """Return the log's SQLite database. Raises `CallerError` for another store."""
    if not isinstance(log.recorder, SqliteLogRecorder):
        raise CallerError(
            f"{log.path}: expected a log in an SQLite file, whose transactions a table can be part of, "
            "found one in another store: keep the table up to date with `Follower`"
        )
    return log.recorder.datastore


def _status(connection: sqlite3.Connection, name: str, fault: str) -> TableStatus:
    mark = shared.load_cursor(connection, f"table:{name}").position
    (behind,) = connection.execute("SELECT count(*) FROM stored_events WHERE rowid > ?", (mark,)).fetchone()
    return TableStatus(name, behind, fault)


def _next(connection: sqlite3.Connection, after: int) -> Iterator[Committed]:
    for _ in range(0, AT_ONCE, PAGE):
        for row in event_rows.committed(connection, after, limit=PAGE):
            after = row.notification
            yield Committed(after, row.key, reader.decoded(row))


def _prepare(database: InSQLite) -> None:
    """Create and fill the base tables, oldest conversation first."""
    if database.run("SELECT 1 FROM sqlite_master WHERE name = 'stenolog_inherit'"):
        return
    prepare(database)
    for stream, parent, fork in database.run(
        "SELECT stream, parent, fork_position FROM conversations ORDER BY stream"
    ):
        inherit(database, stream, parent, fork)
    database.run(schema.INHERIT)


def _may_read(action: int, *_: object) -> int:
    return sqlite3.SQLITE_OK if action in READS else sqlite3.SQLITE_DENY


def _stored(value: Any) -> Any:
    return value.isoformat(timespec="microseconds") if isinstance(value, datetime) else value
