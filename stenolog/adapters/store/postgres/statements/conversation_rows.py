"""Statements on `conversations`, and on `history`, the chain of their changes.

Who writes to `history` has its turn (`datastore.HISTORY`).
"""

from __future__ import annotations

import random
from collections.abc import Collection
from typing import Any

from stenolog.adapters.store.contract.appends import check_storable
from stenolog.adapters.store.contract.values import DELETIONS, Order, Which
from stenolog.adapters.store.postgres.connection import schema
from stenolog.adapters.store.postgres.connection.datastore import LogConnection
from stenolog.domain.history import (
    BEGUN,
    DELETED,
    FORKED,
)

from . import followed
from .dialect import can_be_stored, shared

FIND_ALL = "SELECT name, stream FROM {s}.conversations WHERE name = ANY(%s)"
ORDERS: dict[Order, str] = {
    "oldest": "stream",
    "newest": "stream DESC",
    "latest": "last_at DESC, stream DESC",
    "a-z": "name",
    "z-a": "name DESC",
}
# An index on the time would have to be changed by every append.
RECENT = 8_000
"""The number of newest conversations whose times are compared."""
BEGUN_BEFORE = "stream < (SELECT stream FROM {s}.conversations WHERE name = %s)"
OLDER = "(last_at, stream) < (SELECT last_at, stream FROM {s}.conversations WHERE name = %s)"
CREATE = "INSERT INTO {s}.conversations (name, parent, fork_position) VALUES (%s, %s, %s) RETURNING stream"
# Random, and not counted: a restored backup would count to numbers that were used before.
MARK_DELETION = """INSERT INTO {s}.tracking (name, stream, position, piece) VALUES (%s, 0, %s, 0)
    ON CONFLICT (name, stream) DO UPDATE SET position = excluded.position"""


def find_all(connection: LogConnection, names: Collection[str]) -> dict[str, int]:
    """Return the existing names' streams."""
    return dict(connection.run(FIND_ALL, ([*filter(can_be_stored, names)],)).fetchall())


def names(connection: LogConnection, which: Which, *, limit: int | None, order: Order) -> list[str]:
    """Return conversations' names in an order; the oldest was begun first."""
    conditions, values = _conditions(which)
    rows = f"{{s}}.conversations {conditions}"
    if order == "latest":
        rows = f"(SELECT name, stream, last_at FROM {rows} ORDER BY stream DESC LIMIT {RECENT}) AS recent"
    found = connection.run(f"SELECT name FROM {rows} ORDER BY {ORDERS[order]} LIMIT %s", (*values, limit))
    return [name for (name,) in found.fetchall()]


def count(connection: LogConnection, which: Which) -> int:
    """Return the number selected."""
    conditions, values = _conditions(which)
    row = connection.run(f"SELECT count(*) FROM {{s}}.conversations {conditions}", values).fetchone()
    return int(row[0]) if row else 0


def _conditions(which: Which) -> tuple[str, list[Any]]:
    begins, part, before = which.begins, which.like, which.before
    if not all(map(can_be_stored, (begins, part, before))):
        return "WHERE false", []
    part = part.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    asked: list[tuple[bool, str, tuple[Any, ...]]] = [
        (not which.archived, "archived_at IS NULL", ()),
        # A range, which the index on names answers.
        (bool(begins), "name >= %s AND name < %s", (begins, f"{begins}\U0010ffff")),
        # Small letters by "C" are those of Latin alone, as in SQLite.
        (bool(part), """lower(name) LIKE lower(%s::text COLLATE "C") ESCAPE '\\'""", (f"%{part}%",)),
        (which.since is not None, "last_at >= %s", (which.since,)),
        (which.until is not None, "last_at <= %s", (which.until,)),
        (bool(before), OLDER if which.by_time else BEGUN_BEFORE, (before,)),
    ]
    given = [(condition, values) for is_asked, condition, values in asked if is_asked]
    clause = " AND ".join(condition for condition, _ in given)
    return f"WHERE {clause}" if clause else "", [value for _, values in given for value in values]


def create(
    connection: LogConnection, name: str, *, parent: int | None = None, fork: int | None = None
) -> int:
    """Return a new stream, forked from `parent` at `fork` if given."""
    check_storable("name", name)
    (key,) = connection.run(CREATE, (name, parent, fork)).fetchone() or (0,)
    shared.add_change(
        connection, key, BEGUN if parent is None else FORKED, value=fork, parent=parent, name=name
    )
    return int(key)


def is_archived(connection: LogConnection, key: int, at: int | None) -> bool:
    """Return whether a stream is archived since that time; with None, whether it is not archived."""
    row = connection.run("SELECT archived_at FROM {s}.conversations WHERE stream = %s", (key,)).fetchone()
    return row == (at,)


def delete(connection: LogConnection, key: int) -> None:
    """Delete the conversation, its entries and rows, but not its blobs.

    Raises `ConversationNotFoundError`.
    """
    shared.check_exists(connection, key)
    newest, _ = followed.newest(connection)
    # With the newest entry, so that a noted entry of this conversation counts as deleted and not as lost.
    shared.add_change(connection, key, DELETED, value=newest)
    # The record stays in the chain; of the name it keeps the hash alone.
    shared.erase_name(connection, key)
    connection.run("DELETE FROM {s}.tracking WHERE stream = %s", (key,))
    shared.drop_drafts(connection, key)
    connection.run("DELETE FROM {s}.claims WHERE stream = %s", (key,))
    connection.run("DELETE FROM {s}.stored_events WHERE stream = %s", (key,))
    connection.run("DELETE FROM {s}.conversations WHERE stream = %s", (key,))
    connection.run(MARK_DELETION, (DELETIONS, random.SystemRandom().getrandbits(63)))


IS_OLD = "SELECT 1 FROM {s}.meta WHERE version < %s FOR UPDATE"
SET_VERSION = "UPDATE {s}.meta SET version = %s"
IMPORT_MARKS = "SELECT stream, piece, position FROM {s}.tracking WHERE name = 'imported' AND position > 0"
# A role that only writes may delete no row.
DROP_IMPORT_MARKS = "UPDATE {s}.tracking SET position = 0 WHERE name = 'imported'"


def upgrade(connection: LogConnection) -> None:
    """Move version 1's marks of imports from `tracking` to the history."""
    # Looked up again in turn: another process may have done it meanwhile.
    if connection.run(IS_OLD, (schema.VERSION,)).fetchone():
        for stream, first, last in connection.run(IMPORT_MARKS).fetchall():
            shared.note_import(connection, stream, first, last)
        connection.run(DROP_IMPORT_MARKS)
        connection.run(SET_VERSION, (schema.VERSION,))
