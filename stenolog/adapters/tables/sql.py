"""A table in SQLite or PostgreSQL: its definition, and its rows.

A table is a view over rows that never change. Each row has its stream and position; a later row of the same
key replaces an earlier one. In a keyed table an edit also adds rows with `nth` below 0: positions that no
longer count. The view follows each conversation's ancestors as reading does, so forks copy no rows. Names
come from `conversations`: a rename shows at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from stenolog.adapters.store.contract.values import LAST
from stenolog.domain.base.model import clean
from stenolog.domain.entry import Entry
from stenolog.domain.errors import TableError

from .table import CONVERSATION, POSITION, Column, RowOf, Table, edited_by

FAULT_LENGTH = 300


class Database(Protocol):
    """A database with tables. `conversations` is its table of streams and names, `types` its column types."""

    conversations: ClassVar[str]
    types: ClassVar[dict[type, str]]

    @property
    def raises(self) -> tuple[type[Exception], ...]:
        """Its own errors."""
        ...

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return a statement's rows; `?` is a value."""
        ...

    def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run the statement once for each row."""
        ...


class StoredTable(NamedTuple):
    """A stored table's signature, and the fault that stopped it (empty: none)."""

    signature: str
    fault: str = ""


class Committed(NamedTuple):
    """An entry with its place among all conversations, and its stream."""

    notification: int
    stream: int
    entry: Entry


def prepare(database: Database) -> None:
    """Create the list of tables and the table of inheritance."""
    database.run(
        """CREATE TABLE IF NOT EXISTS stenolog_tables (
            name TEXT NOT NULL PRIMARY KEY, signature TEXT NOT NULL, fault TEXT NOT NULL)"""
    )
    database.run(
        f"""CREATE TABLE IF NOT EXISTS stenolog_lineage (
            conversation BIGINT NOT NULL REFERENCES {database.conversations} (stream) ON DELETE CASCADE,
            stream BIGINT NOT NULL, upto BIGINT NOT NULL, PRIMARY KEY (conversation, stream))"""
    )
    database.run("CREATE INDEX IF NOT EXISTS stenolog_heirs ON stenolog_lineage (stream)")


def inherit(database: Database, stream: int, parent: int | None, fork: int | None) -> None:
    """Record a new conversation's own stream, and its parent's up to the fork."""
    database.run("INSERT INTO stenolog_lineage VALUES (?, ?, ?)", (stream, stream, LAST))
    if parent is not None:
        database.run(
            """INSERT INTO stenolog_lineage SELECT ?, stream, CASE WHEN upto < ? THEN upto ELSE ? END
            FROM stenolog_lineage WHERE conversation = ?""",
            (stream, fork or 0, fork or 0, parent),
        )


def make(database: Database, table: Table) -> None:
    """Make a table, empty."""
    columns = "".join(f', "{name}" {database.types[kind]}' for name, kind in table.declared_columns.items())
    rows = f'"{table.name}__rows"'
    database.run(
        f"""CREATE TABLE {rows} (
            stream BIGINT NOT NULL REFERENCES {database.conversations} (stream) ON DELETE CASCADE,
            position BIGINT NOT NULL, nth BIGINT NOT NULL, key TEXT NOT NULL, gone BOOLEAN NOT NULL{columns},
            PRIMARY KEY (stream, position, nth))"""
    )
    database.run(f'CREATE INDEX "{table.name}__keys" ON {rows} (stream, key, position)')
    for nth, name in enumerate(table.indexes):  # a name of its own would be too long for PostgreSQL
        database.run(f'CREATE INDEX "{table.name}__by_{nth}" ON {rows} ("{name}")')
    shown = ", ".join(
        f'{_view_expression(name, column)} AS "{name}"' for name, column in table.columns.items()
    )
    database.run(
        f"""CREATE VIEW "{table.name}" AS SELECT {shown}
        FROM {database.conversations} c
        JOIN stenolog_lineage l ON l.conversation = c.stream
        JOIN {rows} r ON r.stream = l.stream AND r.position <= l.upto
        WHERE NOT r.gone {_counts(table, "r")} AND NOT EXISTS (
            SELECT 1 FROM stenolog_lineage m
            JOIN {rows} n ON n.stream = m.stream AND n.position <= m.upto
            WHERE m.conversation = l.conversation AND n.key = r.key AND n.position > r.position
            {_counts(table, "n")})"""
    )
    database.run("INSERT INTO stenolog_tables VALUES (?, ?, '')", (table.name, table.signature))


def _counts(table: Table, row: str) -> str:
    if not table.key:
        return ""
    return f"""AND {row}.nth >= 0 AND NOT EXISTS (
        SELECT 1 FROM stenolog_lineage o
        JOIN "{table.name}__rows" e ON e.stream = o.stream AND e.position <= o.upto
        WHERE o.conversation = l.conversation AND e.nth < 0 AND e.key = CAST({row}.position AS TEXT))"""


def drop(database: Database, name: str) -> None:
    """Drop a table, whoever created it."""
    database.run(f'DROP VIEW IF EXISTS "{name}"')
    database.run(f'DROP TABLE IF EXISTS "{name}__rows"')
    database.run("DELETE FROM stenolog_tables WHERE name = ?", (name,))


def load_table(database: Database, name: str) -> StoredTable | None:
    """Return the stored table of that name; None if there is none."""
    found = database.run("SELECT signature, fault FROM stenolog_tables WHERE name = ?", (name,))
    return StoredTable(*found[0]) if found else None


def note_fault(database: Database, name: str, fault: str) -> None:
    """Record a table's fault, or its end (empty)."""
    database.run("UPDATE stenolog_tables SET fault = ? WHERE name = ?", (fault, name))


class Intake:
    """Buffer of rows for a table; those of some entries are written together."""

    def __init__(self, database: Database, table: Table) -> None:
        self._database = database
        self._table = table
        self._rows: list[tuple[Any, ...]] = []
        holes = ", ".join("?" * (5 + len(table.declared_columns)))
        self._insert = f'INSERT INTO "{table.name}__rows" VALUES ({holes})'
        rows = f"""FROM stenolog_lineage l
            JOIN "{table.name}__rows" r ON r.stream = l.stream AND r.position <= l.upto
            WHERE l.conversation = ?"""
        self._key_at = f"SELECT r.key {rows} AND r.position = ? LIMIT 1"
        self._edited_at = f"SELECT r.key {rows} AND r.nth = -1 AND r.position = ?"
        self._edits_of = f"SELECT r.position {rows} AND r.nth = -1 AND r.key = ?"

    def take(self, entries: Iterable[Committed]) -> tuple[int, str]:
        """Apply entries; return the last notification (0: none) and the fault.

        Raises only the database's errors: a failing table must not stop the log.
        """
        reached, place = 0, ""
        try:
            for committed in entries:
                place = f"{committed.entry.conversation!r} at position {committed.entry.position}: "
                self._take(committed)
                reached, place = committed.notification, ""
        except self._database.raises:
            raise
        except Exception as error:
            self.flush()
            told = str(error) if isinstance(error, TableError) else f"{type(error).__name__}: {error}"
            return reached, clean(f"{place}{told}"[:FAULT_LENGTH]).replace("\0", "\ufffd")
        self.flush()
        return reached, ""

    def flush(self) -> None:
        """Write the rows taken in."""
        if self._rows:
            self._database.many(self._insert, self._rows)
            self._rows = []

    def _take(self, committed: Committed) -> None:
        stream, entry = committed.stream, committed.entry
        nothing = (None,) * len(self._table.declared_columns)
        made = self._table.rows_of(entry, lambda position: self._key(stream, position))
        if self._table.key and (edited := edited_by(entry)):
            made += [RowOf(-nth, key, None) for nth, key in enumerate(self._edited(stream, edited), 1)]
        for nth, key, values in made:
            row = (stream, entry.position, nth, key, values is None, *(values or nothing))
            self._rows.append(row)

    def _edited(self, stream: int, position: int) -> list[str]:
        self.flush()
        found = self._database.run(self._edited_at, (stream, position))
        first = str(found[0][0]) if found else str(position)
        return [first, *(str(at) for (at,) in self._database.run(self._edits_of, (stream, first)))]

    def _key(self, stream: int, position: int) -> str:
        self.flush()
        found = self._database.run(self._key_at, (stream, position))
        return str(found[0][0]) if found else str(position)


def _view_expression(name: str, column: Column) -> str:
    if column is CONVERSATION:
        return "c.name"
    return "r.position" if column is POSITION else f'r."{name}"'
