"""Statements on `conversations`, and on `history`, the chain of their changes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from typing import Any

from stenolog.adapters.store.contract.appends import check_storable
from stenolog.adapters.store.contract.shared_rows import texts
from stenolog.adapters.store.contract.values import DELETIONS, ConversationKey, Order, Which
from stenolog.domain.erasure import RECEIPT, RECEIPT_BYTES
from stenolog.domain.history import (
    ARCHIVED,
    BEGUN,
    DELETED,
    ERASED,
    FORKED,
)

from .dialect import clean_text, shared

FIND_ALL = "SELECT name, stream FROM conversations WHERE name IN (SELECT value FROM json_each(?))"
# An erasure says nothing new. Its payload is never compressed. The length comes first, so that long ones need
# not be read.
IS_RECEIPT = f"(length(state) < {RECEIPT_BYTES} AND instr(state, '{RECEIPT.decode()}'))"
LAST_AT = f"""(SELECT at FROM stored_events WHERE originator_id = stream AND NOT {IS_RECEIPT}
    ORDER BY originator_version DESC LIMIT 1)"""
ORDERS: dict[Order, str] = {
    "oldest": "stream",
    "newest": "stream DESC",
    "latest": f"{LAST_AT} DESC, stream DESC",
    "a-z": "name",
    "z-a": "name DESC",
}
# With a bound, listing a larger log is as fast; with this one, a page of `ls` keeps its limit.
RECENT = 6_000
"""The number of newest conversations whose times are compared."""
BEGUN_BEFORE = "stream < (SELECT stream FROM conversations WHERE name = ?)"
OLDER = f"({LAST_AT}, stream) < (SELECT {LAST_AT}, stream FROM conversations WHERE name = ?)"
CREATE = "INSERT INTO conversations (name, parent, fork_position) VALUES (?, ?, ?)"
ALL = "SELECT stream, name, parent, fork_position FROM conversations ORDER BY stream"
# A backup put in the log's place has its own number: so files beside the log can tell.
NEWEST = "SELECT coalesce(max(rowid), 0) FROM stored_events"
# Random, and not counted: a restored backup would count to numbers that were used before.
MARK_DELETION = "INSERT OR REPLACE INTO tracking (name, stream, position, piece) VALUES (?, 0, random(), 0)"


def find_all(connection: sqlite3.Connection, names: Collection[str]) -> dict[str, int]:
    """Return the existing names' streams."""
    return dict(connection.execute(FIND_ALL, (json.dumps([*names]),)).fetchall())


def names(
    connection: sqlite3.Connection, which: Which, *, limit: int | None = None, order: Order = "oldest"
) -> list[str]:
    """Return conversations' names in an order; the oldest was begun first."""
    conditions, values = _conditions(which)
    rows = f"conversations {conditions}"
    if order == "latest":
        rows = f"(SELECT name, stream FROM {rows} ORDER BY stream DESC LIMIT {RECENT})"
    statement = f"SELECT name FROM {rows} ORDER BY {ORDERS[order]} LIMIT ?"
    found = connection.execute(statement, (*values, -1 if limit is None else limit)).fetchall()
    return texts(found)


def count(connection: sqlite3.Connection, which: Which) -> int:
    """Return the number selected."""
    conditions, values = _conditions(which)
    row = connection.execute(f"SELECT count(*) FROM conversations {conditions}", values).fetchone()
    return int(row[0])


def _conditions(which: Which) -> tuple[str, list[Any]]:
    begins, before = clean_text(which.begins), clean_text(which.before)
    # To LIKE a text ends with a NUL, which no name has.
    part = clean_text(which.like).replace("\0", "\ufffd")
    part = part.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    asked: list[tuple[bool, str, tuple[Any, ...]]] = [
        (not which.archived, "archived_at IS NULL", ()),
        # A range, which the index on names answers; LIKE would read every name.
        (bool(begins), "name >= ? AND name < ?", (begins, f"{begins}\U0010ffff")),
        (bool(part), "name LIKE ? ESCAPE '\\'", (f"%{part}%",)),
        (which.since is not None, f"{LAST_AT} >= ?", (which.since,)),
        (which.until is not None, f"{LAST_AT} <= ?", (which.until,)),
        (bool(before), OLDER if which.by_time else BEGUN_BEFORE, (before,)),
    ]
    given = [(condition, values) for is_asked, condition, values in asked if is_asked]
    clause = " AND ".join(condition for condition, _ in given)
    return f"WHERE {clause}" if clause else "", [value for _, values in given for value in values]


def create(
    connection: sqlite3.Connection, name: str, *, parent: int | None = None, fork: int | None = None
) -> int:
    """Return a new stream, forked from `parent` at `fork` if given."""
    check_storable("name", name)
    key = connection.execute(CREATE, (name, parent, fork)).lastrowid
    assert key is not None
    what = BEGUN if parent is None else FORKED
    shared.add_change(connection, key, what, value=fork, parent=parent, name=name)
    return key


def every(connection: sqlite3.Connection) -> list[ConversationKey]:
    """Return every conversation, the oldest first."""
    return [*map(ConversationKey._make, connection.execute(ALL).fetchall())]


def delete(connection: sqlite3.Connection, key: int) -> None:
    """Delete the conversation, its entries and rows, but not its blobs.

    Raises `ConversationNotFoundError`.
    """
    shared.check_exists(connection, key)
    (newest,) = connection.execute(NEWEST).fetchone()
    # With the newest entry, so that a noted entry of this conversation counts as deleted and not as lost.
    shared.add_change(connection, key, DELETED, value=newest)
    # The record stays in the chain; of the name it keeps the hash alone.
    shared.erase_name(connection, key)
    connection.execute("DELETE FROM tracking WHERE stream = ?", (key,))
    connection.execute("DELETE FROM claims WHERE stream = ?", (key,))
    connection.execute("DELETE FROM stored_events WHERE originator_id = ?", (key,))
    connection.execute("DELETE FROM conversations WHERE stream = ?", (key,))
    connection.execute(MARK_DELETION, (DELETIONS,))


ERASED_ENTRIES = "SELECT originator_id, originator_version FROM stored_events WHERE erased IS NOT NULL"
IMPORT_MARKS = "SELECT stream, piece, position FROM tracking WHERE name = 'imported' AND position > 0"
DROP_IMPORT_MARKS = "DELETE FROM tracking WHERE name = 'imported'"
CONVERSATIONS = "SELECT stream, name, parent, fork_position, archived_at FROM conversations ORDER BY stream"


def fill_history(connection: sqlite3.Connection) -> None:
    """Write the history of an earlier version's file from its present conversations."""
    for stream, name, parent, fork, archived_at in connection.execute(CONVERSATIONS).fetchall():
        what = BEGUN if parent is None else FORKED
        shared.add_change(connection, stream, what, value=fork, parent=parent, name=name)
        if archived_at is not None:
            shared.add_change(connection, stream, ARCHIVED, value=archived_at)
    for stream, position in connection.execute(ERASED_ENTRIES).fetchall():
        shared.add_change(connection, stream, ERASED, value=position)


def record_imports(connection: sqlite3.Connection) -> None:
    """Move an earlier version's marks of imports from `tracking` to the history."""
    for stream, first, last in connection.execute(IMPORT_MARKS).fetchall():
        shared.note_import(connection, stream, first, last)
    connection.execute(DROP_IMPORT_MARKS)
