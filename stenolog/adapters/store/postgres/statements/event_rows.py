"""Statements on `stored_events`: rows in, records out, by ranges and in pages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from stenolog.adapters.store.contract.values import START, Head, Row, Segment
from stenolog.adapters.store.postgres.connection.datastore import LogConnection
from stenolog.domain.codec import REGISTRY
from stenolog.domain.entry import Record
from stenolog.domain.erasure import SWITCH

# A page ends at either measure: rows are few where they are long.
PAGE_ROWS = 512
PAGE_BYTES = 4_000_000
WHOLE = "position, entry_id, at, topic, salt, state, digest, coalesce(size, octet_length(state)), erased"
"""The columns of a `Record`, in its order."""
CHECKED = "position, entry_id, at, digest, topic, state, salt, size, erased"
"""The columns from which an `Entry` is built and checked against its digest."""
# Whatever stands beside the mark of an erasure is no payload, but for the effects of a mode switch.
READABLE = f"(erased IS NULL OR (topic = '{SWITCH}' AND state <> ''))"
BETWEEN = "FROM {s}.stored_events WHERE stream = %s AND position > %s AND position <= %s"
# The length of a long payload is known without reading it. The first row comes whatever its length.
PAGE = f"""SELECT {{columns}} FROM (
    SELECT *, coalesce(sum(octet_length(state)) OVER (
        ORDER BY position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
    FROM (SELECT * {BETWEEN} {{only}} ORDER BY position LIMIT {PAGE_ROWS}) AS next_rows
) AS measured WHERE before < {PAGE_BYTES} ORDER BY position"""
STRETCH = f"""SELECT count(*), max(position) FROM (
    SELECT position {BETWEEN} ORDER BY position LIMIT 4096) AS next_rows"""
SELECT = f"SELECT {CHECKED} {BETWEEN} {{only}} ORDER BY position {{order}} LIMIT %s"
# The payload at the position itself is known to the caller, and may be long.
SINCE = """SELECT position, entry_id, at, digest, topic,
        CASE WHEN position > %s THEN state END, salt, size, erased
    FROM {s}.stored_events WHERE stream = %s AND position >= %s ORDER BY position LIMIT %s"""
BY_ID = f"SELECT {WHOLE} FROM {{s}}.stored_events WHERE stream = %s AND entry_id = %s"
BY_IDS = f"SELECT {WHOLE} FROM {{s}}.stored_events WHERE stream = %s AND entry_id = ANY(%s)"
HEAD = "SELECT head, digest FROM {s}.conversations WHERE stream = %s"
HEADS = "SELECT stream, head, digest FROM {s}.conversations WHERE stream = ANY(%s) AND head > 0"
HEADER = "SELECT entry_id, at, digest FROM {s}.stored_events WHERE stream = %s AND position = %s"
LAST_POSITION = "SELECT max(position) FROM {s}.stored_events WHERE stream = %s"
TIMES = """SELECT position, at FROM {s}.stored_events WHERE stream = %s
    AND (%s::bigint[] IS NULL OR position = ANY(%s)) ORDER BY position"""
DIGEST = "SELECT digest FROM {s}.stored_events WHERE stream = %s AND position = %s"
NOTIFICATIONS = """SELECT notification FROM {s}.stored_events
    WHERE stream = %s AND position BETWEEN %s AND %s ORDER BY position"""


def page(
    connection: LogConnection, columns: str, key: int, after: int, upto: int, topics: Sequence[str] = ()
) -> list[Row]:
    """Return the next rows after `after`: at most 512, fewer long ones, none at the end.

    `columns` is `WHOLE` or `CHECKED`. `topics`: no other known topics, no erased entries.
    """
    only, others = _only(topics)
    statement = PAGE.replace("{columns}", columns).replace("{only}", only)
    return connection.run(statement, (key, after, upto, *others)).fetchall()


def select(
    connection: LogConnection,
    key: int,
    after: int,
    upto: int,
    *,
    desc: bool,
    limit: int | None,
    topics: Sequence[str],
) -> list[Row]:
    """Return rows after `after`, all or `limit`, in either order; otherwise as `page`."""
    only, others = _only(topics)
    statement = SELECT.replace("{only}", only).replace("{order}", "DESC" if desc else "ASC")
    return connection.run(statement, (key, after, upto, *others, limit)).fetchall()


def _only(topics: Sequence[str]) -> tuple[str, tuple[list[str], ...]]:
    """Return the condition without other known topics and erased rows, and its values."""
    if not topics:
        return "", ()
    # Excluded by name: a topic that is not known may be a damaged one, and has to be read.
    others = [known for known in (*REGISTRY.events, *REGISTRY.upcasts) if known not in topics]
    return f"AND {READABLE} AND topic <> ALL(%s)", (others,)


def stretch(connection: LogConnection, key: int, after: int, upto: int) -> tuple[int, Head] | None:
    """Return the number of rows after `after`, at most 4096, and the last's head."""
    count, last = connection.run(STRETCH, (key, after, upto)).fetchone() or (0, None)
    digest = digest_at(connection, key, last) if count else None
    return None if digest is None else (count, Head(last, digest))


def by_id(connection: LogConnection, key: int, id: str) -> Record | None:
    """Return the stream's own record of that id."""
    row = connection.run(BY_ID, (key, id)).fetchone()
    return Record._make(row) if row else None


def by_ids(connection: LogConnection, key: int, ids: Sequence[str]) -> dict[str, Record]:
    """Return the stream's own records of these ids."""
    rows = connection.run(BY_IDS, (key, list(ids))).fetchall()
    return {record.id: record for record in map(Record._make, rows)}


def times(connection: LogConnection, key: int, positions: Collection[int] | None) -> list[tuple[int, int]]:
    """Return position and time of a stream's own entries, some or all."""
    some = None if positions is None else [*positions]
    return connection.run(TIMES, (key, some, some)).fetchall()


def head(connection: LogConnection, key: int) -> Head | None:
    """Return a stream's head, `START` without entries; None if it does not exist."""
    row = connection.run(HEAD, (key,)).fetchone()
    return None if row is None else Head._make(row) if row[0] else START


def heads(connection: LogConnection, keys: Iterable[int]) -> dict[int, Head]:
    """Return the heads of those streams that have entries."""
    return {key: Head(*head) for key, *head in connection.run(HEADS, ([*keys],)).fetchall()}


def digest_at(connection: LogConnection, key: int, position: int) -> bytes | None:
    """Return the digest at a stream's own position."""
    row = connection.run(DIGEST, (key, position)).fetchone()
    return row[0] if row else None


def digest_on(connection: LogConnection, segments: Sequence[Segment], position: int) -> bytes | None:
    """Return the digest of a conversation's entry, if any."""
    for segment in segments:
        if segment.after < position <= segment.upto:
            return digest_at(connection, segment.key, position)
    return None


def notifications(connection: LogConnection, key: int, first: int, last: int) -> list[int]:
    """Return the notification ids of a range."""
    return [id for (id,) in connection.run(NOTIFICATIONS, (key, first, last)).fetchall()]
