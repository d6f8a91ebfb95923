"""Statements on `stored_events`: rows in, records out, by ranges and in pages."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from math import inf
from typing import Any

from stenolog.adapters.store.contract.values import LAST, START, CommittedRow, Head, Row, Segment
from stenolog.domain.codec import REGISTRY
from stenolog.domain.entry import Record
from stenolog.domain.erasure import ERASED, SWITCH, WITHHELD, is_receipt

# A page ends at either measure: rows are few where they are long.
PAGE_ROWS = 512
PAGE_BYTES = 4_000_000
CHUNK_ROWS = 64
# Only a compressed payload is worth a call of Python for each row. Damage may have made a text of any value,
# which Python could not be given where it is no UTF-8.
PAYLOAD = """iif(size IS NULL OR erased IS NOT NULL, state,
    decompressed(CAST(state AS BLOB), iif(typeof(size) = 'integer', size, -1)))"""
"""The payload, of which `state` may be the compressed bytes."""
WHOLE = f"""originator_version, entry_id, at, topic, salt, {PAYLOAD}, digest, coalesce(size, length(state)),
    erased"""
"""The columns of a `Record`, in its order."""
# Whatever stands beside the mark of an erasure is no payload, but for the effects of a mode switch.
READABLE = f"(erased IS NULL OR (topic = '{SWITCH}' AND state <> x''))"
TOPIC = f"iif({READABLE}, topic, '{ERASED}')"
STATE = f"iif({READABLE}, {PAYLOAD}, x'')"
"""Topic and payload as they are read."""
CHECKED = f"originator_version, entry_id, at, digest, topic, {PAYLOAD}, salt, size, erased"
"""The columns from which an `Entry` is built and checked against its digest."""
OVER = "\0over"
"""The value in the place of a payload that a page has no room for; no payload is a text."""
VALUES = "(?, ?, ?, ?, ?, ?, ?, ?, ?)"
INSERT = f"""INSERT INTO stored_events
    (originator_id, originator_version, entry_id, at, topic, salt, digest, state, size)
    VALUES {VALUES}"""
MARK_ERASED = """UPDATE stored_events SET size = ?, erased = ?
    WHERE originator_id = ? AND originator_version = ?"""
AT_ONCE = 64
"""The number of rows that one statement writes at most."""
BETWEEN = """FROM stored_events
    WHERE originator_id = ? AND originator_version > ? AND originator_version <= ?"""
PAGE = f"ORDER BY originator_version LIMIT {PAGE_ROWS}"
STRETCH = f"""SELECT count(*), max(position) FROM (
    SELECT originator_version AS position {BETWEEN} ORDER BY originator_version LIMIT 4096)"""
"""Counts the next rows and returns the position of the last one, reading only the index."""
KNOWN_TOPIC = f"""CASE WHEN {READABLE} OR NOT EXISTS (SELECT 1 FROM history AS h
    WHERE h.stream = e.originator_id AND h.what = '{WITHHELD}' AND h.value = e.originator_version)
    THEN e.topic ELSE '{WITHHELD}' END"""
# Both tables are read in the order of their keys, so nothing is sorted.
COMMITTED = f"""SELECT e.rowid, e.originator_id, c.name, e.originator_version, e.entry_id, e.at, e.digest,
    {KNOWN_TOPIC}, CASE WHEN {READABLE} THEN {PAYLOAD} END
    FROM stored_events e JOIN conversations c ON c.stream = e.originator_id WHERE"""
"""The columns of a `CommittedRow`."""
BEHIND = f"{COMMITTED} e.rowid > ? AND e.rowid <= ? ORDER BY e.rowid"
OF_STREAM = f"""{COMMITTED} e.originator_id = ? AND e.originator_version > ? AND e.rowid <= ?
    ORDER BY e.originator_version"""
NEWEST = "SELECT rowid, digest FROM stored_events WHERE rowid <= ? ORDER BY rowid DESC LIMIT 1"
NOTIFICATIONS = """SELECT rowid FROM stored_events WHERE originator_id = ?
    AND originator_version BETWEEN ? AND ? ORDER BY originator_version"""
BY_ID = f"SELECT {WHOLE} FROM stored_events WHERE originator_id = ? AND entry_id = ?"
HEAD = """SELECT originator_version, digest FROM stored_events WHERE originator_id = ?
    ORDER BY originator_version DESC LIMIT 1"""
HEAD_UNTIL = """SELECT originator_version, digest FROM stored_events
    WHERE originator_id = ? AND rowid <= ? ORDER BY originator_version DESC LIMIT 1"""
TIMES = """SELECT originator_version, at FROM stored_events WHERE originator_id = ?
    AND (?2 IS NULL OR originator_version IN (SELECT value FROM json_each(?2))) ORDER BY 1"""
DIGEST = "SELECT digest FROM stored_events WHERE originator_id = ? AND originator_version = ?"


class SelfClosingConnection(sqlite3.Connection):
    """A connection that closes itself when collected.

    The garbage collector may reach a forgotten log's connections first, and since Python 3.13 SQLite's own
    warn then.
    """

    def __del__(self) -> None:
        # Ctrl-C may have come before it was opened.
        with suppress(sqlite3.ProgrammingError):
            self.close()


class Unpacking:
    """Decompression within a budget of bytes: the row that exceeds it is the last."""

    left = inf

    def __call__(self, stored: Any, size: int) -> Any:
        """Return the payload, `OVER` once the budget is spent."""
        if self.left < 0:
            return OVER
        self.left -= size
        return decompressed(stored, size)


class Connection(SelfClosingConnection):
    """A connection that remembers the last statement that wrote entries.

    It has their number, and the last one's notification id and digest. Its SQL has `decompressed`.
    """

    inserted: tuple[int, int, bytes] | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.unpacking = Unpacking()
        self.create_function("decompressed", 2, self.unpacking, deterministic=True)


def insert(connection: sqlite3.Connection, key: int, records: Iterable[Record]) -> None:
    """Write the records; `sqlite3.IntegrityError` for a taken position or id."""
    insert_rows(connection, rows(key, records))


def insert_stored(connection: sqlite3.Connection, key: int, records: Sequence[Record]) -> None:
    """Write another store's records; of an erased one, only length and hash."""
    insert(connection, key, records)
    if erased := [(one.size, one.erased, key, one.position) for one in records if one.erased is not None]:
        connection.executemany(MARK_ERASED, erased)


def rows(key: int, records: Iterable[Record]) -> list[Row]:
    """Return the records as `insert_rows` takes them."""
    made = []
    for position, id, time, topic, salt, payload, digest, _, erased in records:
        stored = compressed(payload) if erased is None else (payload, None)
        made.append((key, position, id, time, topic, salt, digest, *stored))
    return made


def insert_rows(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Write rows of any streams, up to `AT_ONCE` by one statement."""
    # Each statement lets other threads run, and getting the interpreter back takes time.
    for first in range(0, len(rows), AT_ONCE):
        some = rows[first : first + AT_ONCE]
        cursor = connection.execute(_insert(len(some)), [*chain.from_iterable(some)])
        if isinstance(connection, Connection):
            connection.inserted = len(some), cursor.lastrowid or 0, some[-1][6]


@cache
def _insert(rows: int) -> str:
    return INSERT + f", {VALUES}" * (rows - 1)


def page(
    connection: sqlite3.Connection,
    columns: str,
    key: int,
    after: int,
    upto: int,
    topics: Sequence[str] = (),
) -> list[Row]:
    """Return the next rows after `after`: at most 512, fewer long ones, none at the end.

    `columns` is `WHOLE` or `CHECKED`, whose sixth is the payload. `topics` as in `_only`.
    """
    only, others = _only(topics)
    cursor = connection.execute(f"SELECT {columns} {BETWEEN} {only} {PAGE}", (key, after, upto, *others))
    return _fetched(connection, cursor, 5)


def _fetched(connection: sqlite3.Connection, cursor: sqlite3.Cursor, nth: int) -> list[Row]:
    """Return at least one and at most a page of rows; the payload is the nth column."""
    assert isinstance(connection, Connection), "it knows `decompressed`"
    rows: list[Row] = []
    size, unpacking = 0, connection.unpacking
    unpacking.left = PAGE_BYTES
    try:
        while size < PAGE_BYTES and unpacking.left >= 0 and (chunk := cursor.fetchmany(CHUNK_ROWS)):
            rows += chunk
            size += _bytes(chunk, nth)
        if unpacking.left < 0:
            # Few bytes of a log from elsewhere may become a thousand times as many.
            over = (at for at, row in enumerate(rows) if at and row[nth] == OVER)
            del rows[next(over, len(rows)) :]
    finally:
        unpacking.left = inf
        # A cursor that is left open keeps the write-ahead log from being checkpointed.
        cursor.close()
    return rows


def _only(topics: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the condition without other known topics and erased rows, and its values."""
    if not topics:
        return "", ()
    # Excluded by name: a topic that is not known may be a damaged one, and has to be read.
    others = [known for known in (*REGISTRY.events, *REGISTRY.upcasts) if known not in topics]
    return f"AND {READABLE} AND topic NOT IN ({', '.join('?' * len(others))})", others


def _bytes(rows: list[Row], nth: int) -> int:
    """Return the payloads' total length; 0 if one has none."""
    try:
        return sum([len(row[nth] or b"") for row in rows])
    # A damaged row; decoding reports it.
    except TypeError:
        return 0


def stretch(connection: sqlite3.Connection, key: int, after: int, upto: int) -> tuple[int, Head] | None:
    """Return the number of rows after `after`, at most 4096, and the last's head."""
    count, last = connection.execute(STRETCH, (key, after, upto)).fetchone()
    digest = digest_at(connection, key, last) if count else None
    return None if digest is None else (count, Head(last, digest))


def by_id(connection: sqlite3.Connection, key: int, id: str) -> Record | None:
    """Return the stream's own record of that id."""
    row = connection.execute(BY_ID, (key, id)).fetchone()
    return Record._make(row) if row else None


def times(
    connection: sqlite3.Connection, key: int, positions: Collection[int] | None
) -> list[tuple[int, int]]:
    """Return position and time of a stream's own entries, some or all."""
    some = None if positions is None else json.dumps([*positions])
    return connection.execute(TIMES, (key, some)).fetchall()


def head(connection: sqlite3.Connection, key: int) -> Head | None:
    """Return the stream's last position and digest; None without entries."""
    row = connection.execute(HEAD, (key,)).fetchone()
    return Head._make(row) if row else None


def head_until(connection: sqlite3.Connection, key: int, newest: int) -> Head:
    """Return a stream's head as of a notification id."""
    row = connection.execute(HEAD_UNTIL, (key, newest)).fetchone()
    return Head._make(row) if row else START


def digest_at(connection: sqlite3.Connection, key: int, position: int) -> bytes | None:
    """Return the digest at a stream's own position."""
    row = connection.execute(DIGEST, (key, position)).fetchone()
    return row[0] if row else None


def committed(
    connection: sqlite3.Connection,
    after: int,
    *,
    upto: int = LAST,
    key: int | None = None,
    limit: int = CHUNK_ROWS,
) -> list[CommittedRow]:
    """Return entries after a notification id in commit order; of one stream, after a position.

    At most `limit`, fewer long ones.
    """
    if key is None:
        cursor = connection.execute(f"{BEHIND} LIMIT ?", (after, upto, limit))
    else:
        cursor = connection.execute(f"{OF_STREAM} LIMIT ?", (key, after, upto, limit))
    return [*map(CommittedRow._make, _fetched(connection, cursor, 8))]


def committed_at(connection: sqlite3.Connection, notifications: Sequence[int]) -> list[CommittedRow]:
    """Return the existing entries with these notification ids."""
    marks = ", ".join("?" * len(notifications))
    rows = connection.execute(f"{COMMITTED} e.rowid IN ({marks})", notifications).fetchall()
    return [*map(CommittedRow._make, rows)]


def newest(connection: sqlite3.Connection, upto: int = LAST) -> tuple[int, bytes]:
    """Return id and digest of the last entry up to a notification id; 0 if none."""
    return connection.execute(NEWEST, (upto,)).fetchone() or (0, b"")


def notifications(connection: sqlite3.Connection, key: int, first: int, last: int) -> list[int]:
    """Return the notification ids of a range."""
    return [id for (id,) in connection.execute(NOTIFICATIONS, (key, first, last)).fetchall()]


def select(
    connection: sqlite3.Connection,
    key: int,
    after: int,
    upto: int,
    *,
    desc: bool = False,
    limit: int | None = None,
    topics: Sequence[str] = (),
) -> list[Row]:
    """Return rows after `after`, all or `limit`, in either order; otherwise as `page`."""
    only, others = _only(topics)
    order = f"ORDER BY originator_version {'DESC' if desc else 'ASC'} LIMIT ?"
    values = (key, after, upto, *others, -1 if limit is None else limit)
    return connection.execute(f"SELECT {CHECKED} {BETWEEN} {only} {order}", values).fetchall()


NOTIFIED = f"""SELECT c.name, e.originator_version, {TOPIC}, {STATE}, e.rowid
    FROM stored_events e JOIN conversations c ON c.stream = e.originator_id WHERE e.rowid BETWEEN ? AND ?"""


def select_notifications(
    connection: sqlite3.Connection, first: int, last: int | None, topics: Sequence[str], limit: int
) -> list[Row]:
    """Return rows of the library's notifications in a range."""
    only = f"AND e.topic IN ({', '.join('?' * len(topics))})" if topics else ""
    values = (first, LAST if last is None else last, *topics, limit)
    return connection.execute(f"{NOTIFIED} {only} ORDER BY e.rowid LIMIT ?", values).fetchall()


def digest_on(connection: sqlite3.Connection, segments: Sequence[Segment], position: int) -> bytes | None:
    """Return the digest of a conversation's entry, if any."""
    for segment in segments:
        if segment.after < position <= segment.upto:
            return digest_at(connection, segment.key, position)
    return None


# The positions behind one are looked up in the index for each stream, and of most there is none.
APPENDED = f"""{COMMITTED} e.rowid IN (
    SELECT n.rowid FROM json_each(?) AS asked, stored_events AS n
    WHERE n.originator_id = CAST(asked.key AS INTEGER)
        AND n.originator_version > asked.value AND n.originator_version <= asked.value + ?)
    ORDER BY e.originator_id, e.originator_version"""


def appended(connection: sqlite3.Connection, behind: Mapping[int, int], limit: int) -> list[CommittedRow]:
    """Return the next entries of streams, each after its position."""
    return [*map(CommittedRow._make, connection.execute(APPENDED, (json.dumps(behind), limit)).fetchall())]


LONG = 1_024
"""Bytes from which on a payload is compressed; the entries of a talk are mostly shorter."""
# It makes less than half of most tool results and receipts. Level 6 takes twice as long for a tenth more.
LEVEL = 1


def compressed(payload: bytes) -> tuple[bytes, int | None]:
    """Return a payload's stored bytes, and its length if compressed, else None."""
    # The message of an erasure is looked for in the stored bytes.
    if len(payload) < LONG or is_receipt(payload):
        return payload, None
    stored = zlib.compress(payload, LEVEL)
    return (stored, len(payload)) if len(stored) < len(payload) else (payload, None)


def decompressed(stored: Any, size: Any) -> Any:
    """Return the payload of this length; bytes that give none are returned unchanged.

    The entry's digest shows these as damaged.
    """
    reading = zlib.decompressobj()
    try:
        # With the limit, damaged bytes cannot fill the memory.
        payload = reading.decompress(stored, max(size, 1))
    except (zlib.error, TypeError, OverflowError):
        return stored
    # Bytes behind the end are in no digest: they would travel in a row that seems proved.
    return payload if reading.eof and len(payload) == size and not reading.unused_data else stored
