"""Statements on `conversations`, and on `history`, the chain of records over what becomes of them."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Collection, Iterator
from typing import Any

from stenolog.adapters.store.contract.appends import check_storable
from stenolog.adapters.store.contract.values import ConversationKey, Order, Segment, Which
from stenolog.domain import history
from stenolog.domain.erasure import RECEIPT, RECEIPT_BYTES
from stenolog.domain.errors import ConversationNotFoundError, CorruptLogError
from stenolog.domain.history import (
    ARCHIVED,
    BEGUN,
    DELETED,
    ERASED,
    FORKED,
    IMPORTED,
    RENAMED,
    SALT_BYTES,
    UNARCHIVED,
    Newest,
    following,
    hashed,
)

FIND = "SELECT stream FROM conversations WHERE name = ?"
FIND_ALL = "SELECT name, stream FROM conversations WHERE name IN (SELECT value FROM json_each(?))"
NAME = "SELECT name FROM conversations WHERE stream = ?"
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
RECENT = 8_000
"""The number of newest conversations whose times are compared."""
BEGUN_BEFORE = "stream < (SELECT stream FROM conversations WHERE name = ?)"
OLDER = f"({LAST_AT}, stream) < (SELECT {LAST_AT}, stream FROM conversations WHERE name = ?)"
CREATE = "INSERT INTO conversations (name, parent, fork_position) VALUES (?, ?, ?)"
ALL = "SELECT stream, name, parent, fork_position FROM conversations ORDER BY stream"
FORKS = "SELECT name FROM conversations WHERE parent = ? ORDER BY stream"
# With a bound on depth, since in a damaged file a conversation may be its own ancestor.
LINEAGE = """
    WITH RECURSIVE line (stream, parent, fork_position, depth) AS (
        SELECT stream, parent, fork_position, 0 FROM conversations WHERE stream = ?
        UNION ALL
        SELECT c.stream, c.parent, c.fork_position, line.depth + 1
        FROM line JOIN conversations c ON c.stream = line.parent
        WHERE line.depth < 10000
    ) SELECT stream, fork_position FROM line ORDER BY depth"""
# A backup put in the log's place has its own number: so files beside the log can tell.
DELETIONS = "deletions"
"""The name in `tracking` of a number that is another one after each deletion."""
NEWEST = "SELECT coalesce(max(rowid), 0) FROM stored_events"
# Random, and not counted: a restored backup would count to numbers that were used before.
MARK_DELETION = "INSERT OR REPLACE INTO tracking (name, stream, position, piece) VALUES (?, 0, random(), 0)"


def find(connection: sqlite3.Connection, name: str) -> int | None:
    """Return the stream of the conversation of that name."""
    row = connection.execute(FIND, (clean_text(name),)).fetchone()
    return int(row[0]) if row else None


def find_all(connection: sqlite3.Connection, names: Collection[str]) -> dict[str, int]:
    """Return the streams of those of the names that there are."""
    return dict(connection.execute(FIND_ALL, (json.dumps([*names]),)).fetchall())


def clean_text(text: str) -> str:
    """Return the text as SQLite takes it: a lone surrogate, which no name has, becomes another character."""
    return text.encode(errors="surrogatepass").decode(errors="replace")


def name_of(connection: sqlite3.Connection, key: int) -> str | None:
    """Return the name that the stream's conversation has now; None when it was deleted."""
    row = connection.execute(NAME, (key,)).fetchone()
    return str(row[0]) if row else None


def names(
    connection: sqlite3.Connection, which: Which, *, limit: int | None = None, order: Order = "oldest"
) -> list[str]:
    """Return the names of some conversations, in an order; the oldest is the one that was begun first."""
    conditions, values = _conditions(which)
    rows = f"conversations {conditions}"
    if order == "latest":
        rows = f"(SELECT name, stream FROM {rows} ORDER BY stream DESC LIMIT {RECENT})"
    statement = f"SELECT name FROM {rows} ORDER BY {ORDERS[order]} LIMIT ?"
    found = connection.execute(statement, (*values, -1 if limit is None else limit)).fetchall()
    return [_text(name) for (name,) in found]


def count(connection: sqlite3.Connection, which: Which) -> int:
    """Return the number of conversations selected."""
    conditions, values = _conditions(which)
    row = connection.execute(f"SELECT count(*) FROM conversations {conditions}", values).fetchone()
    return int(row[0])


def _conditions(which: Which) -> tuple[str, list[Any]]:
    """Return the clause that picks them, with its values."""
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
    """Return a new stream, forked from `parent` at position `fork` where given."""
    check_storable("name", name)
    key = connection.execute(CREATE, (name, parent, fork)).lastrowid
    assert key is not None
    what = BEGUN if parent is None else FORKED
    add_change(connection, key, what, value=fork, parent=parent, name=name)
    return key


def every(connection: sqlite3.Connection) -> list[ConversationKey]:
    """Return every conversation, the oldest first."""
    return [*map(ConversationKey._make, connection.execute(ALL).fetchall())]


def forks(connection: sqlite3.Connection, key: int) -> list[str]:
    """Return the names of the conversations forked from this one."""
    return [_text(name) for (name,) in connection.execute(FORKS, (key,))]


def _text(name: object) -> str:
    """Return a stored name. Raises `CorruptLogError` where it is no text."""
    if not isinstance(name, str):
        raise CorruptLogError(f"conversations: expected names as text, found {type(name).__name__}")
    return name


def lineage(connection: sqlite3.Connection, key: int, last: int) -> tuple[Segment, ...]:
    """Return the segments that store the positions up to `last`.

    The oldest ancestor comes first, the stream itself last.
    """
    segments: list[Segment] = []
    for ancestor, fork in connection.execute(LINEAGE, (key,)).fetchall():
        if not isinstance(fork, int | None):
            raise CorruptLogError(f"stream {ancestor}: expected a fork position, found {type(fork).__name__}")
        after = min(fork or 0, last)
        segments.append(Segment(ancestor, after, last))
        last = after
    return tuple(reversed(segments))


def check_exists(connection: sqlite3.Connection, key: int) -> None:
    """Check that a stream's conversation was not deleted. Raises `ConversationNotFoundError`."""
    # Otherwise the history would tell of a change to a conversation that is not there: as of a damaged log.
    if name_of(connection, key) is None:
        raise ConversationNotFoundError(f"stream {key}: the conversation was deleted")


def rename(connection: sqlite3.Connection, key: int, name: str) -> None:
    """Give a stream another name. Raises `ConversationNotFoundError`."""
    check_storable("name", name)
    check_exists(connection, key)
    connection.execute("UPDATE conversations SET name = ? WHERE stream = ?", (name, key))
    add_change(connection, key, RENAMED, name=name)


def archive(connection: sqlite3.Connection, key: int, at: int | None) -> None:
    """Mark as archived at that time (microseconds since 1970), or with None as current again.

    Raises `ConversationNotFoundError`.
    """
    check_exists(connection, key)
    connection.execute("UPDATE conversations SET archived_at = ? WHERE stream = ?", (at, key))
    add_change(connection, key, UNARCHIVED if at is None else ARCHIVED, value=at)


def delete(connection: sqlite3.Connection, key: int) -> None:
    """Delete the conversation, its entries and the rows beside it, but not its blobs.

    Raises `ConversationNotFoundError`.
    """
    check_exists(connection, key)
    (newest,) = connection.execute(NEWEST).fetchone()
    # With the newest entry, so that a noted entry of this conversation counts as deleted and not as lost.
    add_change(connection, key, DELETED, value=newest)
    # The record stays in the chain; of the name it keeps the hash alone.
    erase_name(connection, key)
    connection.execute("DELETE FROM tracking WHERE stream = ?", (key,))
    connection.execute("DELETE FROM claims WHERE stream = ?", (key,))
    connection.execute("DELETE FROM stored_events WHERE originator_id = ?", (key,))
    connection.execute("DELETE FROM conversations WHERE stream = ?", (key,))
    connection.execute(MARK_DELETION, (DELETIONS,))


HISTORY_COLUMNS = "number, stream, what, value, parent, salt, name, digest, erased"
NEWEST_CHANGE = "SELECT number, digest FROM history ORDER BY number DESC LIMIT 1"
INSERT_CHANGE = f"INSERT INTO history ({HISTORY_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
NAMED = "SELECT number, salt, name FROM history WHERE stream = ? AND erased IS NULL AND name <> ''"
UNNAME = "UPDATE history SET erased = ?, salt = x'', name = '' WHERE number = ?"
LEFT = """SELECT name FROM history WHERE stream = ? AND what = 'erased' AND value = ?
    ORDER BY number DESC LIMIT 1"""
IMPORTED_RANGE = f"SELECT min(parent), max(value) FROM history WHERE stream = ? AND what = '{IMPORTED}'"
HISTORY_PAGE = f"SELECT {HISTORY_COLUMNS} FROM history WHERE number > ? ORDER BY number LIMIT 1000"
ERASED_ENTRIES = "SELECT originator_id, originator_version FROM stored_events WHERE erased IS NOT NULL"
IMPORT_MARKS = "SELECT stream, piece, position FROM tracking WHERE name = 'imported' AND position > 0"
DROP_IMPORT_MARKS = "DELETE FROM tracking WHERE name = 'imported'"
CONVERSATIONS = "SELECT stream, name, parent, fork_position, archived_at FROM conversations ORDER BY stream"


def newest_change(connection: sqlite3.Connection) -> Newest:
    """Return the end of the history."""
    row = connection.execute(NEWEST_CHANGE).fetchone()
    return Newest._make(row) if row else history.START


def add_change(
    connection: sqlite3.Connection,
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
    connection.execute(INSERT_CHANGE, change)


def note_import(connection: sqlite3.Connection, key: int, first: int, last: int) -> None:
    """Record that the positions `first` to `last` of a stream were imported."""
    add_change(connection, key, IMPORTED, value=last, parent=first)


def imported(connection: sqlite3.Connection, key: int) -> tuple[int, int]:
    """Return the first and the last imported position of a stream itself; (0, 0) for none."""
    first, last = connection.execute(IMPORTED_RANGE, (key,)).fetchone() or (0, 0)
    return first or 0, last or 0


def left_hash(connection: sqlite3.Connection, key: int, position: int) -> str:
    """Return the hash of what an erasure left of an entry; empty for nothing."""
    row = connection.execute(LEFT, (key, position)).fetchone()
    return str(row[0]) if row else ""


def erase_name(connection: sqlite3.Connection, key: int) -> None:
    """Erase the names of a conversation that is deleted."""
    for number, salt, name in connection.execute(NAMED, (key,)).fetchall():
        connection.execute(UNNAME, (hashed(salt, name), number))


def fill_history(connection: sqlite3.Connection) -> None:
    """Write the history of a file of an earlier version: its conversations as they are now."""
    for stream, name, parent, fork, archived_at in connection.execute(CONVERSATIONS).fetchall():
        what = BEGUN if parent is None else FORKED
        add_change(connection, stream, what, value=fork, parent=parent, name=name)
        if archived_at is not None:
            add_change(connection, stream, ARCHIVED, value=archived_at)
    for stream, position in connection.execute(ERASED_ENTRIES).fetchall():
        add_change(connection, stream, ERASED, value=position)


def record_imports(connection: sqlite3.Connection) -> None:
    """Move the marks of imports that an earlier version kept in `tracking` into the history."""
    for stream, first, last in connection.execute(IMPORT_MARKS).fetchall():
        note_import(connection, stream, first, last)
    connection.execute(DROP_IMPORT_MARKS)


def history_rows(connection: sqlite3.Connection) -> Iterator[tuple[Any, ...]]:
    """Yield the stored records, unchecked, in order."""
    last = -1
    while page := connection.execute(HISTORY_PAGE, (last,)).fetchall():
        yield from page
        last = page[-1][0]
