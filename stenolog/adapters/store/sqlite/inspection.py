"""Reading of a possibly damaged database: trusts no row, continues after unreadable ones."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from hashlib import sha256
from typing import Any

from stenolog.adapters.store.contract import inspection
from stenolog.adapters.store.contract.values import LAST, Cursor, Head, Segment
from stenolog.adapters.store.sqlite.statements.dialect import shared
from stenolog.domain.entry import Record
from stenolog.domain.history import Change

from .errors import RAISED
from .statements import event_rows, schema
from .turn import durable_head
from .turn.datastore import SqliteLogDatastore

ENDS = """SELECT
    (SELECT min(originator_version) FROM stored_events WHERE originator_id = ?),
    (SELECT max(originator_version) FROM stored_events WHERE originator_id = ?)"""


@contextmanager
def inspecting(datastore: SqliteLogDatastore) -> Iterator[sqlite3.Connection]:
    """Open its own connection, on which bytes that are not UTF-8 become replacement characters."""
    if datastore.in_memory:
        with datastore.reading() as connection:
            yield connection
        return
    # Not a pooled one: the text factory would change what other readers get.
    with closing(datastore.connect()) as connection:
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        yield connection


def integrity_errors(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield the errors that SQLite finds in the file."""
    try:
        for (message,) in connection.execute("PRAGMA integrity_check(20)"):
            if message != "ok":
                yield str(message)
        for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check"):
            yield f"row {row} of {table} refers to a row of {parent} that is not there"
    except RAISED as error:
        yield str(error)


def schema_errors(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield tables, indexes, views and triggers that are not this release's."""
    try:
        found = _tables(connection)
    except RAISED as error:
        yield str(error)
        return
    # The expected tables are made by the migrations themselves, so that the two cannot come to disagree.
    with closing(sqlite3.connect(":memory:")) as fresh:
        schema.migrate(fresh, ":memory:")
        expected = _tables(fresh)
    for name in sorted({*expected, *found}):
        if expected.get(name) != found.get(name):
            yield f"the schema of {name} is not the one that this release makes"


def conversations(connection: sqlite3.Connection) -> list[inspection.ConversationRow]:
    """Return every conversation, oldest first. Raises `sqlite3.Error` for an unreadable table."""
    statement = "SELECT stream, name, parent, fork_position, archived_at FROM conversations ORDER BY stream"
    return [inspection.checked_conversation(*row) for row in connection.execute(statement).fetchall()]


def history(connection: sqlite3.Connection) -> Iterator[Change | inspection.DamagedRow]:
    """Yield records up to the first unreadable one."""
    try:
        yield from inspection.checked_changes(shared.history_rows(connection))
    except RAISED as error:
        yield inspection.DamagedRow(0, "/history", "rows that can be read", str(error))


def records(
    connection: sqlite3.Connection, key: int, after: int, upto: int
) -> Iterator[Record | inspection.DamagedRow]:
    """Yield a stream's records, and faults of damaged ones."""
    position = after
    while True:
        try:
            rows = event_rows.page(connection, event_rows.WHOLE, key, position, upto)
        except RAISED as error:
            yield inspection.DamagedRow(position + 1, "", "rows that can be read", str(error))
            return
        if not rows:
            return
        yield from map(inspection.checked_record, rows)
        last = rows[-1][0]
        # Else a damaged index could make this loop read the same page without end.
        if not isinstance(last, int) or last <= position:
            yield inspection.DamagedRow(position + 1, "/position", "positions in order", repr(last))
            return
        position = last


def outside(
    connection: sqlite3.Connection, held: inspection.ConversationRow
) -> Iterator[inspection.DamagedRow]:
    """Yield a stream's end positions that its conversation cannot have."""
    yield from inspection.misplaced(held, connection.execute(ENDS, (held.key, held.key)).fetchone())


def blobs(connection: sqlite3.Connection) -> Iterator[tuple[str, bool]]:
    """Yield each blob's sha256, and whether its bytes still match."""
    last = -1
    # One blob at a time, since each may be long.
    while row := connection.execute(
        "SELECT rowid, sha256, bytes FROM blobs WHERE rowid > ? ORDER BY rowid LIMIT 1", (last,)
    ).fetchone():
        last, key, content = row
        key, content = _bytes(key), _bytes(content)
        yield key.hex(), sha256(content).digest() == key


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else repr(value).encode()


def _tables(connection: sqlite3.Connection) -> dict[str, str]:
    """Return each table's and index's SQL, without tables that follow the log (see `adapters.tables`)."""
    found = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
    beside = {"stenolog_inherit", "stenolog_tables", "stenolog_lineage"}
    if any(name == "stenolog_tables" for _, name, *_ in found):
        for (table,) in connection.execute("SELECT name FROM stenolog_tables"):
            # The tables of projections differ from log to log, and are no part of the format.
            beside |= {table, f"{table}__rows"}
    return {
        str(name): str(sql)
        for kind, name, on, sql in found
        # A trigger that is not exactly ours is told, whatever it is named.
        if (kind == "trigger" and sql != schema.INHERIT) or not {name, on} & beside
    }


SEQUENCE = "SELECT seq FROM sqlite_sequence WHERE name = 'stored_events'"


class SqliteInspection(inspection.Inspection):
    """An inspection of one file, on a connection that `inspecting` gives."""

    failures = RAISED

    def __init__(self, datastore: SqliteLogDatastore, connection: sqlite3.Connection) -> None:
        self._datastore = datastore
        self._connection = connection

    def errors(self) -> Iterator[str]:
        return integrity_errors(self._connection)

    def schema_errors(self) -> Iterator[str]:
        return schema_errors(self._connection)

    def lost(self) -> tuple[str, str] | None:
        note = None if self._datastore.in_memory else durable_head.read(self._datastore.file)
        found = "" if note is None else durable_head.missing(self._connection, note)
        return (durable_head.in_words(note), found) if note is not None and found else None

    def conversations(self) -> list[inspection.ConversationRow]:
        return conversations(self._connection)

    def history(self) -> Iterator[Change | inspection.DamagedRow]:
        return history(self._connection)

    def records(self, key: int, after: int, upto: int) -> Iterator[Record | inspection.DamagedRow]:
        return records(self._connection, key, after, upto)

    def outside(self, held: inspection.ConversationRow) -> Iterator[inspection.DamagedRow]:
        return outside(self._connection, held)

    def blobs(self) -> Iterator[tuple[str, bool]]:
        return blobs(self._connection)

    def cursors(self) -> Iterator[tuple[str, int, Cursor]]:
        yield from shared.cursors(self._connection)

    def lineage(self, key: int) -> tuple[Segment, ...]:
        return shared.lineage(self._connection, key, LAST)

    def withheld(self, key: int) -> frozenset[int]:
        return shared.withheld(self._connection, key)

    def digest_at(self, key: int, position: int) -> bytes | None:
        return event_rows.digest_at(self._connection, key, position)

    def heads_until(self, keys: Sequence[int], newest: int) -> Iterator[Head]:
        return (event_rows.head_until(self._connection, key, newest) for key in keys)

    def newest(self) -> int:
        return event_rows.newest(self._connection)[0]

    def newest_given(self) -> object:
        row = self._connection.execute(SEQUENCE).fetchone()
        return row[0] if row else 0

    @contextmanager
    def at_one_moment(self) -> Iterator[None]:
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("COMMIT")
