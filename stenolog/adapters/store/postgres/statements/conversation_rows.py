"""The statements on `conversations`, and on `history`, the chain of records over what becomes of them.

Whoever writes to `history` has its turn (`datastore.HISTORY`).
"""

from __future__ import annotations

import os
import random
from collections.abc import Collection, Iterator
from typing import Any

from stenolog.adapters.store.contract.appends import check_storable
from stenolog.adapters.store.contract.values import LAST, Order, Segment, Which
from stenolog.adapters.store.postgres.connection import schema
from stenolog.adapters.store.postgres.connection.datastore import LogConnection
from stenolog.domain import history
from stenolog.domain.errors import ConversationNotFoundError, CorruptLogError
from stenolog.domain.history import (
    ARCHIVED,
    BEGUN,
    DELETED,
    FORKED,
    IMPORTED,
    RENAMED,
    SALT_BYTES,
    UNARCHIVED,
    Newest,
    following,
    hashed,
)

from . import followed

FIND = "SELECT stream FROM {s}.conversations WHERE name = %s"
FIND_ALL = "SELECT name, stream FROM {s}.conversations WHERE name = ANY(%s)"
NAME = "SELECT name FROM {s}.conversations WHERE stream = %s"
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
FORKS = "SELECT name FROM {s}.conversations WHERE parent = %s ORDER BY stream"
# With a bound on depth, since in a damaged table a conversation may be its own ancestor.
LINEAGE = """WITH RECURSIVE line (stream, parent, fork_position, depth) AS (
        SELECT stream, parent, fork_position, 0 FROM {s}.conversations WHERE stream = %s
        UNION ALL
        SELECT c.stream, c.parent, c.fork_position, line.depth + 1
        FROM line JOIN {s}.conversations AS c ON c.stream = line.parent
        WHERE line.depth < 10000
    ) SELECT stream, fork_position FROM line ORDER BY depth"""
INHERITED = "SELECT 1 FROM {s}.conversations WHERE parent = %s AND fork_position >= %s LIMIT 1"
DELETIONS = "deletions"
"""The name in `tracking` of a number that is another one after each deletion."""
# Random, and not counted: a restored backup would count to numbers that were used before.
MARK_DELETION = """INSERT INTO {s}.tracking (name, stream, position, piece) VALUES (%s, 0, %s, 0)
    ON CONFLICT (name, stream) DO UPDATE SET position = excluded.position"""


def find(connection: LogConnection, name: str) -> int | None:
    """Return the stream of the conversation of that name."""
    row = connection.run(FIND, (name,)).fetchone() if can_be_stored(name) else None
    return int(row[0]) if row else None


def can_be_stored(text: str) -> bool:
    """Return whether PostgreSQL takes the text: no name holds a NUL or a lone surrogate."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def find_all(connection: LogConnection, names: Collection[str]) -> dict[str, int]:
    """Return the streams of those of the names that there are."""
    return dict(connection.run(FIND_ALL, ([*filter(can_be_stored, names)],)).fetchall())


def name_of(connection: LogConnection, key: int) -> str | None:
    """Return the name that the stream's conversation has now; None when it was deleted."""
    row = connection.run(NAME, (key,)).fetchone()
    return row[0] if row else None


def names(connection: LogConnection, which: Which, *, limit: int | None, order: Order) -> list[str]:
    """Return the names of some conversations, in an order; the oldest is the one that was begun first."""
    conditions, values = _conditions(which)
    rows = f"{{s}}.conversations {conditions}"
    if order == "latest":
        rows = f"(SELECT name, stream, last_at FROM {rows} ORDER BY stream DESC LIMIT {RECENT}) AS recent"
    found = connection.run(f"SELECT name FROM {rows} ORDER BY {ORDERS[order]} LIMIT %s", (*values, limit))
    return [name for (name,) in found.fetchall()]


def count(connection: LogConnection, which: Which) -> int:
    """Return the number of conversations selected."""
    conditions, values = _conditions(which)
    row = connection.run(f"SELECT count(*) FROM {{s}}.conversations {conditions}", values).fetchone()
    return int(row[0]) if row else 0


def _conditions(which: Which) -> tuple[str, list[Any]]:
    """Return the clause that picks them, with its values."""
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
    """Return a new stream, forked from `parent` at position `fork` where given."""
    check_storable("name", name)
    (key,) = connection.run(CREATE, (name, parent, fork)).fetchone() or (0,)
    add_change(connection, key, BEGUN if parent is None else FORKED, value=fork, parent=parent, name=name)
    return int(key)


def forks(connection: LogConnection, key: int) -> list[str]:
    """Return the names of the conversations forked from this one."""
    return [name for (name,) in connection.run(FORKS, (key,)).fetchall()]


def lineage(connection: LogConnection, key: int, last: int = LAST) -> tuple[Segment, ...]:
    """Return the segments that store the positions up to `last`: the oldest ancestor first, its own last."""
    segments: list[Segment] = []
    for ancestor, fork in connection.run(LINEAGE, (key,)).fetchall():
        after = min(fork or 0, last)
        segments.append(Segment(ancestor, after, last))
        last = after
    return tuple(reversed(segments))


def is_inherited(connection: LogConnection, key: int, position: int) -> bool:
    """Return whether a fork inherits the position of a stream."""
    return connection.run(INHERITED, (key, position)).fetchone() is not None


def check_exists(connection: LogConnection, key: int) -> None:
    """Check that a stream's conversation was not deleted. Raises `ConversationNotFoundError`."""
    # Otherwise the history would tell of a change to a conversation that is not there: as of a damaged log.
    if name_of(connection, key) is None:
        raise ConversationNotFoundError(f"stream {key}: the conversation was deleted")


def rename(connection: LogConnection, key: int, name: str) -> None:
    """Give a stream another name. Raises `ConversationNotFoundError`."""
    check_storable("name", name)
    check_exists(connection, key)
    connection.run("UPDATE {s}.conversations SET name = %s WHERE stream = %s", (name, key))
    add_change(connection, key, RENAMED, name=name)


def is_archived(connection: LogConnection, key: int, at: int | None) -> bool:
    """Return whether a stream is archived since that time; with None, whether it is current."""
    row = connection.run("SELECT archived_at FROM {s}.conversations WHERE stream = %s", (key,)).fetchone()
    return row == (at,)


def archive(connection: LogConnection, key: int, at: int | None) -> None:
    """Mark as archived at that time (microseconds since 1970), or with None as current again.

    Raises `ConversationNotFoundError`.
    """
    check_exists(connection, key)
    connection.run("UPDATE {s}.conversations SET archived_at = %s WHERE stream = %s", (at, key))
    add_change(connection, key, UNARCHIVED if at is None else ARCHIVED, value=at)


def delete(connection: LogConnection, key: int) -> None:
    """Delete the conversation, its entries and the rows beside it, but not its blobs.

    Raises `ConversationNotFoundError`.
    """
    check_exists(connection, key)
    newest, _ = followed.newest(connection)
    # With the newest entry, so that a noted entry of this conversation counts as deleted and not as lost.
    add_change(connection, key, DELETED, value=newest)
    # The record stays in the chain; of the name it keeps the hash alone.
    erase_name(connection, key)
    connection.run("DELETE FROM {s}.tracking WHERE stream = %s", (key,))
    connection.run(
        "DELETE FROM {s}.drafts WHERE fence IN (SELECT fence FROM {s}.claims WHERE stream = %s)", (key,)
    )
    connection.run("DELETE FROM {s}.claims WHERE stream = %s", (key,))
    connection.run("DELETE FROM {s}.stored_events WHERE stream = %s", (key,))
    connection.run("DELETE FROM {s}.conversations WHERE stream = %s", (key,))
    connection.run(MARK_DELETION, (DELETIONS, random.SystemRandom().getrandbits(63)))


HISTORY_COLUMNS = "number, stream, what, value, parent, salt, name, digest, erased"
NEWEST_CHANGE = "SELECT number, digest FROM {s}.history ORDER BY number DESC LIMIT 1"
INSERT_CHANGE = f"""INSERT INTO {{s}}.history ({HISTORY_COLUMNS})
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"""
NAMED = "SELECT number, salt, name FROM {s}.history WHERE stream = %s AND erased IS NULL AND name <> ''"
UNNAME = "UPDATE {s}.history SET erased = %s, salt = '', name = '' WHERE number = %s"
LEFT = """SELECT name FROM {s}.history WHERE stream = %s AND what = 'erased' AND value = %s
    ORDER BY number DESC LIMIT 1"""
IMPORTED_RANGE = "SELECT min(parent), max(value) FROM {s}.history WHERE stream = %s AND what = 'imported'"
IS_OLD = "SELECT 1 FROM {s}.meta WHERE version < %s FOR UPDATE"
SET_VERSION = "UPDATE {s}.meta SET version = %s"
IMPORT_MARKS = "SELECT stream, piece, position FROM {s}.tracking WHERE name = 'imported' AND position > 0"
# A role that only writes may delete no row.
DROP_IMPORT_MARKS = "UPDATE {s}.tracking SET position = 0 WHERE name = 'imported'"
HISTORY_PAGE = f"SELECT {HISTORY_COLUMNS} FROM {{s}}.history WHERE number > %s ORDER BY number LIMIT 1000"


def newest_change(connection: LogConnection) -> Newest:
    """Return the end of the history."""
    row = connection.run(NEWEST_CHANGE).fetchone()
    return Newest._make(row) if row else history.START


def add_change(
    connection: LogConnection,
    key: int,
    what: str,
    *,
    value: int | None = 0,
    parent: int | None = 0,
    name: str = "",
) -> None:
    """Write one record behind the last one; the caller's transaction makes the change itself."""
    # Without a salt, the hash of an erased name could be guessed.
    salt = os.urandom(SALT_BYTES) if name else b""
    newest = newest_change(connection)
    change = following(newest, key, what, value=value or 0, parent=parent or 0, salt=salt, name=name)
    connection.run(INSERT_CHANGE, change)


def note_import(connection: LogConnection, key: int, first: int, last: int) -> None:
    """Record that the positions `first` to `last` of a stream were imported."""
    add_change(connection, key, IMPORTED, value=last, parent=first)


def imported(connection: LogConnection, key: int) -> tuple[int, int]:
    """Return the first and the last imported position of a stream itself; (0, 0) for none."""
    first, last = connection.run(IMPORTED_RANGE, (key,)).fetchone() or (0, 0)
    return first or 0, last or 0


def upgrade(connection: LogConnection) -> None:
    """Move the marks of imports that version 1 kept in `tracking` into the history."""
    # Looked up again in turn: another process may have done it meanwhile.
    if connection.run(IS_OLD, (schema.VERSION,)).fetchone():
        for stream, first, last in connection.run(IMPORT_MARKS).fetchall():
            note_import(connection, stream, first, last)
        connection.run(DROP_IMPORT_MARKS)
        connection.run(SET_VERSION, (schema.VERSION,))


def left_hash(connection: LogConnection, key: int, position: int) -> str:
    """Return the hash of what an erasure left of an entry; empty for nothing."""
    row = connection.run(LEFT, (key, position)).fetchone()
    return str(row[0]) if row else ""


def erase_name(connection: LogConnection, key: int) -> None:
    """Erase the names of a conversation that is deleted."""
    for number, salt, name in connection.run(NAMED, (key,)).fetchall():
        connection.run(UNNAME, (hashed(salt, name), number))


def history_rows(connection: LogConnection) -> Iterator[tuple[Any, ...]]:
    """Yield the stored records, unchecked, in order."""
    last = -1
    while page := connection.run(HISTORY_PAGE, (last,)).fetchall():
        yield from page
        last = page[-1][0]
        if not isinstance(last, int):
            raise CorruptLogError("history: expected numbers")
