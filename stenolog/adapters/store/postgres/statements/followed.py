"""The order of commits over the whole log, without a global lock.

A notification id is its transaction's number (64 bits, given at the first write), and the entry's place in
it. A transaction takes its conversations' turns before it writes. So its number is above those of all
transactions before its entries, and ids are ordered as positions in each conversation.

A follower reads below the *bound*: the oldest transaction that may still add entries, one that holds a turn,
or that had ended when locks were read. Others' transactions, open for hours, hold no turn and delay nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eventsourcing.persistence import Notification

from stenolog.adapters.store.contract.values import (
    LAST,
    CommittedRow,
    ConversationKey,
    LogMoment,
    Segment,
)
from stenolog.adapters.store.postgres.connection.datastore import LogConnection
from stenolog.adapters.store.postgres.connection.schema import MARK_BITS
from stenolog.domain.erasure import ERASED, WITHHELD

from .event_rows import READABLE

# The snapshot is taken as the statement begins, and the locks are looked at after it: a transaction that is
# in the one and gone from the other counts as one that may have added entries.
BOUND = f"""WITH now AS MATERIALIZED (SELECT pg_current_snapshot() AS snapshot),
held AS MATERIALIZED (
    SELECT pid, locktype, transactionid::text::bigint AS xid FROM pg_locks WHERE granted AND (
        (locktype = 'transactionid' AND mode = 'ExclusiveLock')
        OR (locktype = 'advisory' AND classid = {{class}} AND objsubid = 2
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())))),
others AS (
    SELECT xid FROM held AS one WHERE locktype = 'transactionid'
        AND NOT EXISTS (SELECT FROM held AS turn WHERE turn.pid = one.pid AND turn.locktype = 'advisory')),
bound AS MATERIALIZED (SELECT (SELECT base FROM {{s}}.meta) + (coalesce(
    (SELECT min(xid::text::bigint) FROM now, pg_snapshot_xip(now.snapshot) AS xid
        WHERE (xid::text::bigint & 4294967295) NOT IN (SELECT xid FROM others)),
    (SELECT pg_snapshot_xmax(now.snapshot)::text::bigint FROM now)) << {MARK_BITS}) AS mark)"""
# Rows are few where they are long, but the first comes whatever its length.
PAGE_BYTES = 4_000_000
PAYLOAD = f"CASE WHEN {READABLE} THEN e.state END"
TOPIC = f"""CASE WHEN {READABLE} OR NOT EXISTS (SELECT FROM {{s}}.history AS h
    WHERE h.stream = e.stream AND h.what = '{WITHHELD}' AND h.value = e.position)
    THEN e.topic ELSE '{WITHHELD}' END AS topic"""
# Each name is looked up once, and not for each entry: while a transaction of others is open for long, nothing
# removes the rows that a conversation had before, and every look at it passes all of them.
NAMES = """names AS MATERIALIZED (SELECT stream, name FROM {s}.conversations
    WHERE stream = ANY(ARRAY(SELECT DISTINCT stream FROM next_rows)))"""
MEASURED = f"""next_rows AS MATERIALIZED (
    SELECT e.notification, e.stream, e.position, e.entry_id, e.at, e.digest, {TOPIC}, {PAYLOAD} AS payload
    FROM {{s}}.stored_events AS e WHERE {{where}} ORDER BY {{place}} LIMIT %s),
{NAMES},
measured AS (SELECT *, coalesce(sum(octet_length(payload)) OVER (
    ORDER BY {{place}} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before FROM next_rows AS e)
SELECT e.notification, e.stream, c.name, e.position, e.entry_id, e.at, e.digest, e.topic, e.payload
FROM measured AS e JOIN names AS c ON c.stream = e.stream WHERE e.before < {PAGE_BYTES} ORDER BY {{place}}"""
"""The next rows as those of `CommittedRow`."""
BEHIND = f"{BOUND}, {MEASURED}".replace("{place}", "e.notification").replace(
    "{where}", "e.notification > %s AND e.notification <= %s AND e.notification < (SELECT mark FROM bound)"
)
OF_STREAM = f"WITH {MEASURED}".replace("{place}", "e.position").replace(
    "{where}", "e.stream = %s AND e.position > %s AND e.notification <= %s"
)
EVENTS = "{s}.stored_events AS e JOIN {s}.conversations AS c ON c.stream = e.stream"
COLUMNS = f"e.notification, e.stream, c.name, e.position, e.entry_id, e.at, e.digest, {TOPIC}, {PAYLOAD}"
AT = f"SELECT {COLUMNS} FROM {EVENTS} WHERE e.notification = ANY(%s) ORDER BY e.notification"
NEWEST = f"""{BOUND} SELECT notification, digest FROM {{s}}.stored_events
    WHERE notification <= %s AND notification < (SELECT mark FROM bound) ORDER BY notification DESC LIMIT 1"""
MARK = f"{BOUND} SELECT mark FROM bound"
DELETED = "SELECT coalesce(max(value), 0) FROM {s}.history WHERE what = 'deleted'"
DIGEST = "SELECT digest FROM {s}.stored_events WHERE notification = %s"
CONVERSATIONS = "SELECT stream, name, parent, fork_position FROM {s}.conversations ORDER BY stream"
NOTIFIED = f"""{BOUND}, next_rows AS MATERIALIZED (
    SELECT e.stream, e.position, CASE WHEN {READABLE} THEN e.topic ELSE '{ERASED}' END AS topic,
        coalesce({PAYLOAD}, '') AS payload, e.notification
    FROM {{s}}.stored_events AS e
    WHERE e.notification BETWEEN %s AND %s AND e.notification < (SELECT mark FROM bound)
    {{only}} ORDER BY e.notification LIMIT %s),
{NAMES} SELECT c.name, e.position, e.topic, e.payload, e.notification
FROM next_rows AS e JOIN names AS c ON c.stream = e.stream ORDER BY e.notification"""
ENDS = """SELECT
    (SELECT notification FROM {s}.stored_events WHERE stream = %s AND position > %s
        ORDER BY position LIMIT 1),
    (SELECT notification FROM {s}.stored_events WHERE stream = %s AND position <= %s
        ORDER BY position DESC LIMIT 1)"""


def committed(
    connection: LogConnection, after: int, *, upto: int, key: int | None, limit: int
) -> list[CommittedRow]:
    """Return the next entries after a notification id; of one stream, after a position."""
    if key is None:
        rows = connection.run(BEHIND, (after, upto, limit)).fetchall()
    else:
        rows = connection.run(OF_STREAM, (key, after, upto, limit)).fetchall()
    return [*map(CommittedRow._make, rows)]


def committed_at(connection: LogConnection, notifications: Sequence[int]) -> list[CommittedRow]:
    """Return the existing entries with these notification ids."""
    return [*map(CommittedRow._make, connection.run(AT, (list(notifications),)).fetchall())]


def bound(connection: LogConnection) -> int:
    """Return a notification id below all entries still to come."""
    (mark,) = connection.run(MARK).fetchone() or (0,)
    return int(mark)


def newest(connection: LogConnection, upto: int = LAST) -> tuple[int, bytes]:
    """Return id and digest of the last entry up to a notification id; 0 if none."""
    found: Any = connection.run(NEWEST, (upto,)).fetchone()
    return found or (0, b"")


def moment(connection: LogConnection, after: int, limit: int) -> LogMoment:
    """Return the log at the moment of a transaction that reads."""
    conversations = [*map(ConversationKey._make, connection.run(CONVERSATIONS).fetchall())]
    # Also where its entry was deleted.
    (deleted,) = connection.run(DELETED).fetchone() or (0,)
    given = max(newest(connection)[0], deleted)
    (digest,) = connection.run(DIGEST, (after,)).fetchone() or (None,)
    return LogMoment(
        conversations, given, digest, committed(connection, after, upto=LAST, key=None, limit=limit)
    )


def notification_bounds(connection: LogConnection, segment: Segment) -> tuple[int, int]:
    """Return the notification ids of a segment's ends; 0 if it is empty."""
    key, after, upto = segment
    first, last = connection.run(ENDS, (key, after, key, upto)).fetchone() or (0, 0)
    return first or 0, last or 0


def select_notifications(
    connection: LogConnection, first: int, last: int | None, topics: Sequence[str], limit: int
) -> list[Notification]:
    """Return the library's notifications in a range."""
    statement = NOTIFIED.replace("{only}", "AND e.topic = ANY(%s)" if topics else "")
    only = (list(topics),) if topics else ()
    values = (first, LAST if last is None else last, *only, limit)
    return [Notification(*row) for row in connection.run(statement, values).fetchall()]


# Nearly all are where they were: that is seen in the rows of the conversations alone. What stands there is
# committed, and a conversation's positions have no gap, so nothing waits for the bound of the whole log.
APPENDED = f"""SELECT {COLUMNS}
    FROM unnest(%s::bigint[], %s::bigint[]) AS asked (stream, position)
    JOIN {{s}}.conversations AS c ON c.stream = asked.stream AND c.head > asked.position
    JOIN {{s}}.stored_events AS e ON e.stream = asked.stream
        AND e.position > asked.position AND e.position <= asked.position + %s
    ORDER BY e.stream, e.position"""


def appended(connection: LogConnection, behind: Mapping[int, int], limit: int) -> list[CommittedRow]:
    """Return the next entries of streams, each after its position."""
    values = ([*behind], [*behind.values()], limit)
    return [*map(CommittedRow._make, connection.run(APPENDED, values).fetchall())]
