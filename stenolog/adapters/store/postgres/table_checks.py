"""Comparison of a database's tables with this release's, and amcheck's results.

Expected tables are read from the statements that create them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import psycopg
from psycopg import errors as pg

from .connection.datastore import LogConnection
from .connection.schema import TABLES

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
