"""Reading of a possibly damaged database: trusts no row, continues after unreadable ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from typing import Any, NamedTuple

import psycopg
from psycopg import errors as pg

from stenolog.adapters.store.contract import inspection
from stenolog.adapters.store.contract.values import LAST, START, Cursor, Head, Segment
from stenolog.adapters.store.postgres.statements.dialect import shared
from stenolog.domain.entry import Record
from stenolog.domain.erasure import RECEIPT, RECEIPT_BYTES
from stenolog.domain.errors import StoreTimeoutError
from stenolog.domain.history import Change

from .connection.datastore import LogConnection, PostgresLogDatastore
from .connection.errors import RAISED, is_lost, to_store_error
from .connection.schema import TABLES
from .statements import event_rows, followed

PATIENCE = "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = '10min'"
"""A long index takes its time; a transaction that only reads keeps no follower waiting."""
# What the row of a conversation repeats of its last entry, beside that entry, read in one statement.
CONVERSATIONS = f"""SELECT c.stream, c.name, c.parent, c.fork_position, c.archived_at,
        c.head, c.digest, c.last_at, coalesce(e.position, 0), coalesce(e.digest, ''),
        (SELECT at FROM {{s}}.stored_events AS e WHERE e.stream = c.stream
            AND NOT (octet_length(state) < {RECEIPT_BYTES} AND position(%s::bytea IN state) > 0)
            ORDER BY e.position DESC LIMIT 1)
    FROM {{s}}.conversations AS c LEFT JOIN LATERAL (
        SELECT position, digest FROM {{s}}.stored_events WHERE stream = c.stream
        ORDER BY position DESC LIMIT 1) AS e ON true
    ORDER BY c.stream"""
ENDS = "SELECT min(position), max(position) FROM {s}.stored_events WHERE stream = %s"
# From stream to stream by the index: the entries of each are passed over. A follower may note a cursor in a
# conversation that others have just deleted, which is no fault.
ORPHANS = """WITH RECURSIVE streams AS (
        SELECT min(stream) AS stream FROM {s}.stored_events
        UNION ALL SELECT (SELECT min(stream) FROM {s}.stored_events WHERE stream > streams.stream)
        FROM streams WHERE stream IS NOT NULL)
    SELECT 'stored_events', stream FROM streams
    WHERE stream IS NOT NULL
        AND NOT EXISTS (SELECT FROM {s}.conversations AS c WHERE c.stream = streams.stream)
    UNION SELECT 'claims', stream FROM {s}.claims AS k
    WHERE NOT EXISTS (SELECT FROM {s}.conversations AS c WHERE c.stream = k.stream)
    ORDER BY 1, 2 LIMIT 20"""
# One statement, as a log may have 100,000 of them.
HEADS_UNTIL = """SELECT e.position, e.digest FROM unnest(%s::bigint[]) WITH ORDINALITY AS k (stream, n)
    LEFT JOIN LATERAL (SELECT position, digest FROM {s}.stored_events
        WHERE stream = k.stream AND notification <= %s ORDER BY position DESC LIMIT 1) AS e ON true
    ORDER BY k.n"""
NEXT_BLOB = "SELECT number, sha256, bytes FROM {s}.blobs WHERE number > %s ORDER BY number LIMIT 1"


@contextmanager
def inspecting(datastore: PostgresLogDatastore) -> Iterator[PostgresInspection]:
    """Yield a log's inspection on its own connection. Raises `StoreError`."""
    datastore.check()
    try:
        connection = datastore.connect()
    except RAISED as error:
        raise to_store_error(error, datastore.path) from error
    with closing(connection):
        # Behind a pooler a session's settings are others', too; and none was made there.
        if not datastore.address.pooled:
            connection.execute(PATIENCE)
        yield PostgresInspection(connection, datastore.path)


class PostgresInspection(inspection.Inspection):
    """Inspection of a log, on a connection of `inspecting`.

    Raises `StoreTimeoutError` if the server goes away: no fault of the log.
    """

    failures = (*RAISED, UnicodeDecodeError)

    def __init__(self, connection: LogConnection, path: str) -> None:
        self.connection = connection
        self._path = path

    def errors(self) -> Iterator[str]:
        try:
            with self._part():
                for table, stream in self.connection.run(ORPHANS).fetchall():
                    yield f"{table} has rows of stream {stream}, which is no conversation"
        except self.failures as error:
            # Where a table is missing, `schema_errors` says so.
            if not isinstance(error, pg.UndefinedTable):
                yield str(error)
        yield from amcheck_errors(self.connection)

    def schema_errors(self) -> Iterator[str]:
        return schema_errors(self.connection)

    def lost(self) -> tuple[str, str] | None:
        # The server keeps what it has acknowledged; `check log --head` tells what a failover has lost.
        return None

    def conversations(self) -> list[inspection.ConversationRow]:
        found = []
        with self._part():
            for row in self.connection.run(CONVERSATIONS, (RECEIPT,)).fetchall():
                held = inspection.checked_conversation(*row[:5])
                found.append(held._replace(wrong=(*held.wrong, *_repeated(row[5:8], row[8:]))))
        return found

    def history(self) -> Iterator[Change | inspection.DamagedRow]:
        try:
            with self._part():
                yield from inspection.checked_changes(shared.history_rows(self.connection))
        except self.failures as error:
            yield inspection.DamagedRow(0, "/history", "rows that can be read", _message(error))

    def records(self, key: int, after: int, upto: int) -> Iterator[Record | inspection.DamagedRow]:
        position = after
        while True:
            try:
                with self._part():
                    rows = event_rows.page(self.connection, event_rows.WHOLE, key, position, upto)
            except self.failures as error:
                yield inspection.DamagedRow(position + 1, "", "rows that can be read", _message(error))
                return
            if not rows:
                return
            yield from map(inspection.checked_record, rows)
            last = rows[-1][0]
            # Else a damaged index could make this loop read the same page without end.
            if last <= position:
                yield inspection.DamagedRow(position + 1, "/position", "positions in order", repr(last))
                return
            position = last

    def outside(self, held: inspection.ConversationRow) -> Iterator[inspection.DamagedRow]:
        with self._part():
            ends = self.connection.run(ENDS, (held.key,)).fetchone() or ()
        yield from inspection.misplaced(held, ends)

    def blobs(self) -> Iterator[tuple[str, bool]]:
        last = -1
        # One blob at a time, since each may be long.
        while row := self._one(NEXT_BLOB, last):
            last, key, content = row
            yield key.hex(), sha256(content).digest() == key

    def cursors(self) -> Iterator[tuple[str, int, Cursor]]:
        with self._part():
            found = shared.cursors(self.connection)
        yield from found

    def lineage(self, key: int) -> tuple[Segment, ...]:
        with self._part():
            return shared.lineage(self.connection, key, LAST)

    def withheld(self, key: int) -> frozenset[int]:
        with self._part():
            return shared.withheld(self.connection, key)

    def digest_at(self, key: int, position: int) -> bytes | None:
        with self._part():
            return event_rows.digest_at(self.connection, key, position)

    def heads_until(self, keys: Sequence[int], newest: int) -> Iterator[Head]:
        with self._part():
            rows = self.connection.run(HEADS_UNTIL, ([*keys], newest)).fetchall()
        return (START if position is None else Head(position, digest) for position, digest in rows)

    def newest(self) -> int:
        with self._part():
            return followed.newest(self.connection)[0]

    def newest_given(self) -> int:
        # No counter of the server tells; the rows of the conversations tell of entries that are gone.
        return self.newest()

    @contextmanager
    def at_one_moment(self) -> Iterator[None]:
        with self.connection.transaction():
            self.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield

    def _one(self, statement: str, *values: Any) -> tuple[Any, ...] | None:
        with self._part():
            return self.connection.run(statement, values).fetchone()

    @contextmanager
    def _part(self) -> Iterator[None]:
        """Read in a savepoint, so that the rest can be read after an error."""
        try:
            if self.connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS:
                with self.connection.transaction():
                    yield
            else:
                yield
        except RAISED as error:
            if is_lost(error):
                said = f"{self._path}: the server went away meanwhile ({_message(error)})"
                raise StoreTimeoutError(said) from error
            raise


def _repeated(row: tuple[Any, ...], entry: tuple[Any, ...]) -> Iterator[inspection.DamagedRow]:
    for column, found, stands in zip(("head", "digest", "last_at"), row, entry, strict=True):
        if found != stands:
            yield inspection.DamagedRow(
                entry[0],
                f"/{column}",
                _value_in_words(stands),
                f"{_value_in_words(found)} in its conversation",
            )


def _value_in_words(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _message(error: BaseException) -> str:
    return " ".join(str(error).split())


MADE = re.compile(r"CREATE (?:UNLOGGED )?TABLE \{s\}\.(\w+) \((.*?)\n\)", re.DOTALL)
TYPES = {
    "BIGINT": "bigint",
    "BOOLEAN": "boolean",
    "BYTEA": "bytea",
    "INT": "integer",
    "TEXT": "text",
    "TEXT[]": "text[]",
    "TIMESTAMPTZ": "timestamp with time zone",
    "UUID": "uuid",
}
"""Types as PostgreSQL names them, by the words that they are made with."""
COLUMNS = """SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        JOIN pg_attribute AS a ON a.attrelid = c.oid
    WHERE n.nspname = %s AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped"""
# An index that was left half-made is there, and keeps nothing apart.
KEYS = """SELECT c.relname, array_agg(a.attname::text ORDER BY k.place)
    FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indrelid
        JOIN pg_namespace AS n ON n.oid = c.relnamespace
        CROSS JOIN unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, place)
        JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = k.number
    WHERE n.nspname = %s AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND k.place <= i.indnkeyatts
    GROUP BY i.indexrelid, c.relname"""
# Each of them may run code at an append, add rows to it, change them, or hide them from a reader. Earlier
# releases made the foreign key.
CHANGING = """WITH ours AS (SELECT * FROM pg_class WHERE relkind = 'r'
    AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %(s)s))
SELECT c.relname, 'the trigger ' || t.tgname
    FROM pg_trigger AS t JOIN ours AS c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal
UNION ALL SELECT c.relname, 'the rule ' || r.rulename
    FROM pg_rewrite AS r JOIN ours AS c ON c.oid = r.ev_class
UNION ALL SELECT relname, 'policies over its rows' FROM ours WHERE relrowsecurity
UNION ALL SELECT c.relname, 'the constraint ' || k.conname
    FROM pg_constraint AS k JOIN ours AS c ON c.oid = k.conrelid
    WHERE k.contype NOT IN ('n', 'p', 'u') AND (k.confrelid NOT IN (0, k.conrelid)
        OR (c.relname || ' ' || replace(pg_get_constraintdef(k.oid), quote_ident(%(s)s) || '.', '')) NOT IN (
            'meta CHECK (one)', 'conversations FOREIGN KEY (parent) REFERENCES conversations(stream)'))
UNION ALL SELECT c.relname, 'the default of ' || a.attname
    FROM pg_attrdef AS d JOIN ours AS c ON c.oid = d.adrelid
        JOIN pg_attribute AS a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
    WHERE a.attgenerated <> ''
        OR (c.relname || '.' || a.attname || ' ' || pg_get_expr(d.adbin, d.adrelid)) NOT IN (
            'meta.one true', 'meta.log gen_random_uuid()', 'meta.base 0', 'conversations.head 0',
            $q$conversations.digest '\\x'::bytea$q$)
UNION ALL SELECT c.relname, 'the index ' || x.relname || ', which computes'
    FROM pg_index AS i JOIN ours AS c ON c.oid = i.indrelid JOIN pg_class AS x ON x.oid = i.indexrelid
    WHERE i.indexprs IS NOT NULL
        OR (x.relname || ' ' || pg_get_expr(i.indpred, i.indrelid)) NOT IN (
            'conversations_parent (parent IS NOT NULL)', $q$history_deleted (what = 'deleted'::text)$q$)
        OR EXISTS (SELECT FROM pg_opclass AS o WHERE o.oid = ANY (i.indclass)
            AND o.opcnamespace <> 'pg_catalog'::regnamespace)
UNION ALL SELECT c.relname, 'the statistics ' || s.stxname || ', which compute'
    FROM pg_statistic_ext AS s JOIN ours AS c ON c.oid = s.stxrelid WHERE s.stxexprs IS NOT NULL
UNION ALL SELECT relname, 'no write-ahead log' FROM ours
    WHERE relpersistence <> 'p' AND relname NOT IN ('drafts', 'processes', 'pins')
UNION ALL SELECT c.relname, 'the child table ' || k.relname
    FROM pg_inherits AS h JOIN ours AS c ON c.oid = h.inhparent JOIN pg_class AS k ON k.oid = h.inhrelid
UNION ALL SELECT c.relname, 'the parent table ' || k.relname
    FROM pg_inherits AS h JOIN ours AS c ON c.oid = h.inhrelid JOIN pg_class AS k ON k.oid = h.inhparent"""
# An extension stands in any schema.
AMCHECK = """SELECT quote_ident(n.nspname)
    FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace WHERE e.extname = 'amcheck'"""
INDEXES = """SELECT i.indexrelid::bigint, x.relname FROM pg_index AS i
        JOIN pg_class AS c ON c.oid = i.indrelid JOIN pg_class AS x ON x.oid = i.indexrelid
        JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN pg_am AS m ON m.oid = x.relam
    WHERE n.nspname = %s AND m.amname = 'btree' AND c.relpersistence = 'p' AND i.indisvalid
    ORDER BY x.relname"""
HEAPS = """SELECT c.oid::bigint, c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relkind = 'r' AND c.relpersistence = 'p' ORDER BY c.relname"""
MOST = 20
"""Faults of one table that are listed."""


class ColumnShape(NamedTuple):
    """A column's type, and whether it may be empty."""

    type: str
    is_filled: bool


class TableShape(NamedTuple):
    """A table: columns by name, and columns of unique keys."""

    columns: dict[str, ColumnShape]
    keys: set[tuple[str, ...]]


def expected_tables() -> dict[str, TableShape]:
    """Return the tables that this release makes, by their names."""
    found = {}
    for name, body in MADE.findall(TABLES):
        table = found[name] = TableShape({}, set())
        for line in body.strip().split(",\n"):
            words = line.split()
            if words[0] in ("PRIMARY", "UNIQUE"):
                table.keys.add(tuple(re.findall(r"\w+", line.partition("(")[2])))
                continue
            if is_key := "PRIMARY KEY" in line or "UNIQUE" in line:
                table.keys.add((words[0],))
            is_filled = "NOT NULL" in line or "IDENTITY" in line or (is_key and "PRIMARY" in line)
            table.columns[words[0]] = ColumnShape(TYPES[words[1]], is_filled)
        for key in table.keys:
            # A primary key's columns are never empty.
            if re.search(rf"PRIMARY KEY \({', '.join(key)}\)", body):
                for each in key:
                    table.columns[each] = table.columns[each]._replace(is_filled=True)
    return found


def schema_errors(connection: LogConnection) -> Iterator[str]:
    """Yield differences from this release's tables, ignoring others' tables."""
    found: dict[str, TableShape] = {}
    for table, column, *of in connection.run(COLUMNS, (connection.schema,)).fetchall():
        found.setdefault(table, TableShape({}, set())).columns[column] = ColumnShape(*of)
    for table, names in connection.run(KEYS, (connection.schema,)).fetchall():
        found[table].keys.add(tuple(names))
    expected = expected_tables()
    for name, table in expected.items():
        yield from _differing(name, table, found.get(name))
    for table, what in connection.run(CHANGING, {"s": connection.schema}).fetchall():
        if table in expected:
            yield f"the table {table} has {what}, which this release does not make"


def _differing(name: str, expected: TableShape, found: TableShape | None) -> Iterator[str]:
    if found is None:
        yield f"the table {name} is missing"
        return
    for column in {**expected.columns, **found.columns}:
        one, other = expected.columns.get(column), found.columns.get(column)
        if one != other:
            yield f"{name}.{column}: expected {_column_in_words(one)}, found {_column_in_words(other)}"
    for key in sorted(expected.keys - found.keys):
        yield f"the table {name} has no unique index on {', '.join(key)}"


def _column_in_words(column: ColumnShape | None) -> str:
    if column is None:
        return "no such column"
    return f"{column.type} not null" if column.is_filled else column.type


def amcheck_errors(connection: LogConnection) -> Iterator[str]:
    """Yield faults found by amcheck in tables and indexes, if installed and allowed."""
    row = connection.run(AMCHECK).fetchone()
    if row is None:
        return
    for oid, name in connection.run(INDEXES, (connection.schema,)).fetchall():
        # Every row of the table is looked for in the index, too.
        yield from _amcheck(connection, name, f"SELECT {row[0]}.bt_index_check(%s::oid::regclass, true)", oid)
    for oid, name in connection.run(HEAPS, (connection.schema,)).fetchall():
        statement = (
            f"SELECT msg FROM {row[0]}.verify_heapam(%s::oid::regclass, check_toast => true) LIMIT {MOST}"
        )
        yield from _amcheck(connection, name, statement, oid)


def _amcheck(connection: LogConnection, name: str, statement: str, oid: int) -> Iterator[str]:
    """Yield one check's messages; nothing if this role may not call it."""
    try:
        # In a transaction of its own, or a part of one: what cannot be checked stops nothing else.
        with suppress(pg.InsufficientPrivilege, pg.UndefinedFunction), connection.transaction():
            found: list[tuple[Any, ...]] = connection.run(statement, (oid,)).fetchall()
            # `bt_index_check` returns nothing, and raises at the first fault.
            yield from (f"{name}: {message}" for (message,) in found if message)
    except psycopg.Error as error:
        yield f"{name}: {' '.join(str(error).split())}"
