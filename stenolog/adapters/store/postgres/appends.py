"""Appends in PostgreSQL: strict or commuting, all or nothing, idempotent by id.

After the head known to this process, an append is one statement: it takes the conversation's turn, moves its
row to the new head, settles the claim, and inserts the rows. Appends of tasks that wait at the same time
share a statement. If it moves nothing, another process was first; then it is repeated after reading the log,
with the turn taken first.

An append whose connection was lost may have been committed. It is repeated after reading, too, and finds its
entries by id.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from psycopg import errors as pg

from stenolog.adapters.store.contract import appends
from stenolog.adapters.store.contract.appends import Append, Appended, ExactAppend
from stenolog.adapters.store.contract.shared_writes import SharedWriter
from stenolog.adapters.store.contract.values import START, BlobContent, Head, Stream
from stenolog.adapters.store.postgres.statements.dialect import shared
from stenolog.domain.entry import Record
from stenolog.domain.erasure import is_receipt
from stenolog.domain.errors import (
    ConversationNotFoundError,
    InvalidEventError,
    VersionConflictError,
)

from .connection.datastore import HISTORY, TURNS, LogConnection, PostgresLogDatastore, locks_of, take_turns
from .connection.errors import RAISED, is_lost, to_store_error
from .connection.schema import MARK_BITS, MOST_MARKS
from .statements import blob_rows, claim_rows, conversation_rows, erasure_rows, event_rows

TURN = "turn AS MATERIALIZED (SELECT pg_advisory_xact_lock({class}, %(turn)s))"
# The claim is locked before the head is moved: whoever moves it has the claim to settle.
CLAIM = """claim AS MATERIALIZED (
    SELECT fence FROM {s}.claims, turn WHERE fence = %(fence)s FOR UPDATE OF claims)"""
MOVED = """moved AS (UPDATE {{s}}.conversations SET head = %(last)s, digest = %(digest)s,
        last_at = coalesce(%(at)s, last_at)
    {source} WHERE stream = %(key)s AND head = %(before)s {turn} RETURNING stream)"""
# Looked at last: a head that has been moved already keeps nobody waiting. The lock is there before the row is
# changed, which is the first write.
WITH_TURN = "AND pg_advisory_xact_lock({class}, %(turn)s) IS NOT NULL"
SETTLED = """settled AS (DELETE FROM {s}.claims USING moved WHERE fence = %(fence)s RETURNING fence),
    said AS (DELETE FROM {s}.drafts USING moved WHERE fence = %(fence)s)"""
# `place`: the number of entries that the transaction has written before these.
MARK = f"(SELECT base FROM {{s}}.meta) + (pg_current_xact_id()::text::bigint << {MARK_BITS}) + %(place)s"
INTO = """INSERT INTO {s}.stored_events
        (notification, stream, position, entry_id, at, topic, salt, digest, size, erased, state)"""
# Faster than arrays of one, for the server and for the driver.
INSERT_ONE = f"""{INTO} SELECT {MARK} + 1, %(key)s, %(before)s + 1, %(id)s::text, %(time)s::bigint,
    %(topic)s::text, %(salt)s::bytea, %(digest)s, %(size)s::bigint, %(erased)s::bytea, %(state)s::bytea"""
INSERT = f"""{INTO} SELECT {MARK} + n, r.stream, r.position,
        r.id, r.at, r.topic, r.salt, r.digest, r.size, r.erased, r.state
    FROM {{from}} unnest(%(streams)s::bigint[], %(positions)s::bigint[], %(ids)s::text[], %(ats)s::bigint[],
        %(topics)s::text[], %(salts)s::bytea[], %(digests)s::bytea[], %(sizes)s::bigint[],
        %(erased)s::bytea[], %(states)s::bytea[])
        WITH ORDINALITY AS r (stream, position, id, at, topic, salt, digest, size, erased, state, n)
    {{where}}"""
APPEND_ONE = f"WITH {MOVED.format(source='', turn=WITH_TURN)} {INSERT_ONE} FROM moved"
SETTLING = f"WITH {TURN}, {CLAIM}, {MOVED.format(source='FROM claim', turn='')}, {SETTLED}"
SETTLE = f"{SETTLING} {INSERT.replace('{from}', 'settled,').replace('{where}', '')}"
SETTLE_ONE = f"{SETTLING} {INSERT_ONE} FROM settled"
MOVE = """UPDATE {s}.conversations SET head = %(last)s, digest = %(digest)s,
    last_at = coalesce(%(at)s, last_at) WHERE stream = %(key)s"""
ROWS = INSERT.replace("{from}", "").replace("{where}", "")
# Asked once, before the first row is changed.
WITH_TURNS = "(SELECT count(*) FROM turns) > 0 AND"
TOGETHER = f"""WITH turns AS MATERIALIZED ({TURNS}),
    moved AS (UPDATE {{s}}.conversations AS c
        SET head = m.last, digest = m.digest, last_at = coalesce(m.at, c.last_at)
        FROM unnest(%(keys)s::bigint[], %(befores)s::bigint[], %(lasts)s::bigint[], %(ends)s::bytea[],
            %(moments)s::bigint[]) AS m (key, before, last, digest, at)
        WHERE {WITH_TURNS} c.stream = m.key AND c.head = m.before
        RETURNING c.stream AS key)
    {INSERT.replace("{from}", "moved,").replace("{where}", "WHERE r.stream = moved.key RETURNING stream")}"""
CROWDED = 0.2
"""Seconds for which a conversation counts as crowded after another process was first."""


class Crowds:
    """Conversations with recent appends of other processes, whose known heads are not tried."""

    def __init__(self) -> None:
        self._until: dict[int, float] = {}

    def note(self, key: int) -> None:
        """Note that another process was first."""
        if len(self._until) > 1000:
            self._until.clear()
        self._until[key] = time.monotonic() + CROWDED

    def __contains__(self, key: int) -> bool:
        return self._until.get(key, 0.0) > time.monotonic()


def append(
    store: PostgresLogDatastore, crowds: Crowds, asked: Append, *, again: bool = False
) -> list[Record]:
    """Append the items durably; return their records.

    `again`: an earlier attempt may have committed them. Raises as `LogRecorder.append`; then nothing is
    written.
    """
    stream, is_lost_answer = asked.stream, again
    if stream.head is None and asked.items and not again:
        read_heads(store, [stream])
    key, head = stream.key, stream.head
    if key is not None and head is not None and not again and may_follow(asked, key, head, crowds):
        records = appends.make_records(head, asked.items)
        try:
            if store.once(lambda connection: _write_fast(connection, key, records, asked)):
                stream.head = appends.last_head(records)
                return records
            crowds.note(key)
        except RAISED as error:
            is_lost_answer = is_lost(error)
            # An id that stands there already is found by the look below.
            if not is_lost_answer and not isinstance(error, pg.UniqueViolation):
                raise to_store_error(error, store.path) from error
    done = store.repeat(
        lambda connection, again: append_checked(connection, asked, again=again), again=is_lost_answer
    )
    stream.key, stream.head = done.key, done.head
    return done.records


def _write_fast(connection: LogConnection, key: int, records: Sequence[Record], asked: Append) -> bool:
    if asked.also is None:
        return write_behind(connection, key, records, asked.fence)
    with connection.transaction():
        if is_written := write_behind(connection, key, records, asked.fence):
            asked.also(connection, key)
        return is_written


def read_heads(store: PostgresLogDatastore, streams: Iterable[Stream]) -> None:
    """Read the heads of conversations that this process has not appended to."""
    unknown = {key: stream for stream in streams if (key := stream.key) is not None and stream.head is None}
    if unknown:
        for key, head in store.read(lambda connection: event_rows.heads(connection, unknown)).items():
            unknown[key].head = head


def may_follow(asked: Append, key: int, head: Head, crowds: Crowds) -> bool:
    """Return whether an append after a known head needs no reading."""
    if not asked.items or key in crowds:
        return False
    # A switch without `expected` is refused, but not one that repeats an earlier append.
    if asked.expected is None:
        return not appends.switches(asked.items)
    return asked.expected == head.position


def write_behind(connection: LogConnection, key: int, records: Sequence[Record], fence: int | None) -> bool:
    """Write records by one statement if the stream is before them and has the claim; return whether."""
    if fence is None and len(records) > 1:
        return bool(write_together(connection, {key: records}))
    values = {**_values(connection, key, records), "turn": key & 0x7FFFFFFF, "fence": fence}
    statement = APPEND_ONE if fence is None else SETTLE_ONE if len(records) == 1 else SETTLE
    return connection.run(statement, values).rowcount > 0


def write_together(connection: LogConnection, written: Mapping[int, Sequence[Record]]) -> set[int]:
    """Write records of several streams by one statement; return the streams that were before them."""
    rows = [(key, record) for key, records in written.items() for record in records]
    values = {
        **_rows(connection, rows),
        "turns": locks_of(written),
        "keys": [*written],
        "befores": [records[0].position - 1 for records in written.values()],
        "lasts": [records[-1].position for records in written.values()],
        "ends": [records[-1].digest for records in written.values()],
        "moments": [*map(_moment, written.values())],
    }
    return {stream for (stream,) in connection.run(TOGETHER, values).fetchall()}


def write_rows(connection: LogConnection, key: int, records: Sequence[Record]) -> None:
    """Write records after the last one, in a transaction that has the stream's turn or created it."""
    values = _values(connection, key, records)
    connection.run(INSERT_ONE if len(records) == 1 else ROWS, values)
    connection.run(MOVE, values)
    connection.placed += len(records)


def _values(connection: LogConnection, key: int, records: Sequence[Record]) -> dict[str, Any]:
    values = {
        "key": key,
        "before": records[0].position - 1,
        "last": records[-1].position,
        "digest": records[-1].digest,
        "at": _moment(records),
    }
    if len(records) > 1:
        return {**values, **_rows(connection, [(key, record) for record in records])}
    (one,) = records
    size = None if one.erased is None else one.size
    placed = _placed(connection, 1)
    return {**one._asdict(), **values, "place": placed, "state": one.payload, "size": size}


def _rows(connection: LogConnection, rows: Sequence[tuple[int, Record]]) -> dict[str, Any]:
    """Return the columns of records, each with its stream."""
    records = [record for _, record in rows]
    return {
        "place": _placed(connection, len(rows)),
        "streams": [key for key, _ in rows],
        "positions": [record.position for record in records],
        "ids": [record.id for record in records],
        "ats": [record.time for record in records],
        "topics": [record.topic for record in records],
        "salts": [record.salt for record in records],
        "digests": [record.digest for record in records],
        "sizes": [None if record.erased is None else record.size for record in records],
        "erased": [record.erased for record in records],
        "states": [record.payload for record in records],
    }


def _moment(records: Sequence[Record]) -> int | None:
    times = [record.time for record in records if not is_receipt(record.payload)]
    return times[-1] if times else None


def _placed(connection: LogConnection, count: int) -> int:
    """Return the number of entries written before. Raises `InvalidEventError` if these are too many."""
    if connection.placed + count > MOST_MARKS:
        raise InvalidEventError(f"expected at most {MOST_MARKS} entries in one transaction, found more")
    return connection.placed


def append_checked(connection: LogConnection, asked: Append, *, again: bool = False) -> Appended:
    """Append after reading the head, and ids that may exist.

    `again`: an earlier attempt may have committed these items.
    """
    stream = asked.stream
    head: Head | None = START
    if (key := _key(connection, stream)) is None:
        # Nobody else sees it before the commit, so the history's turn is enough.
        key = conversation_rows.create(connection, stream.name)
    else:
        take_turns(connection, [key])
        head = event_rows.head(connection, key)
    if head is None:
        raise ConversationNotFoundError(f"{stream.name!r}: the conversation was deleted")
    done = PostgresWriter(connection).append(asked, key, head, again=again)
    is_written = done.head != head
    if is_written and asked.also is not None:
        asked.also(connection, key)
    if asked.fence is not None and (is_written or not again):
        settle(connection, asked.fence)
    return done


def settle(connection: LogConnection, fence: int) -> None:
    """Remove a claim in its result's transaction. Raises `ClaimLostError`."""
    # In the same transaction as the result: a process killed in between leaves both or neither.
    if not claim_rows.delete(connection, fence):
        raise appends.claim_lost(fence)


def append_exactly(connection: LogConnection, asked: ExactAppend, *, again: bool = False) -> list[int]:
    """Write the events; return their notification ids. Raises the library's `IntegrityError`.

    `again` as in `append_checked`.
    """
    take_turns_of(connection, {one.stream.name for one in asked.appends})
    found: list[int] = []
    for one in asked.appends:
        try:
            key, _, records = append_checked(connection, one, again=again)
        except VersionConflictError as error:
            raise appends.version_taken(error) from None
        found += event_rows.notifications(connection, key, records[0].position, records[-1].position)
    # Events that were there came in one transaction with their tracking.
    was_written = again and asked.appends and not connection.placed
    if asked.tracking is not None and not was_written:
        shared.track(connection, asked.tracking)
    return found


def take_turns_of(connection: LogConnection, names: set[str]) -> None:
    """Take several conversations' turns before the first write; for new ones, the history's."""
    keys = conversation_rows.find_all(connection, sorted(names))
    if len(keys) < len(names):
        take_turns(connection, [HISTORY])
        # Others may have begun some of them meanwhile; from now on nobody can.
        keys = conversation_rows.find_all(connection, sorted(names))
    if keys:
        take_turns(connection, keys.values())


def _key(connection: LogConnection, stream: Stream) -> int | None:
    if (key := stream.key) is None and (key := shared.find(connection, stream.name)) is None:
        take_turns(connection, [HISTORY])
        key = shared.find(connection, stream.name)
    return key


class PostgresWriter(SharedWriter[LogConnection]):
    """The shared writer, with PostgreSQL's statements."""

    def __init__(self, connection: LogConnection) -> None:
        super().__init__(shared, connection)

    def has(self, name: str, end: Head) -> bool:
        """Return whether a conversation has an entry with that position and digest."""
        key = shared.find(self._connection, name)
        return key is not None and self.digest_at(key, end.position) == end.digest

    def put_blob(self, blob: BlobContent) -> None:
        blob_rows.insert(self._connection, [blob])

    def named_by(self, key: int) -> set[str]:
        return blob_rows.named_by(self._connection, key)

    def remove_blobs(self, shas: Collection[str]) -> None:
        for sha in shas:
            self._connection.run(blob_rows.REMOVE, (bytes.fromhex(sha),))

    def times(self, key: int, positions: Collection[int] | None) -> list[tuple[int, int]]:
        return event_rows.times(self._connection, key, positions)

    def head(self, key: int) -> Head:
        return event_rows.head(self._connection, key) or START

    def by_ids(self, key: int, ids: Sequence[str]) -> dict[str, Record]:
        return event_rows.by_ids(self._connection, key, ids)

    def digest_at(self, key: int, position: int) -> bytes | None:
        segments = shared.lineage(self._connection, key, position)
        return event_rows.digest_on(self._connection, segments, position)

    def create(self, name: str, parent: int | None, fork: int | None) -> int:
        return conversation_rows.create(self._connection, name, parent=parent, fork=fork)

    def write(self, key: int, records: Sequence[Record]) -> None:
        write_rows(self._connection, key, records)

    def stored(self, key: int, position: int) -> tuple[str, bytes, bytes] | None:
        return erasure_rows.stored(self._connection, key, position)

    def replace(self, key: int, position: int, size: int, erased: bytes, left: bytes) -> None:
        self._connection.run(erasure_rows.ERASE, (size, erased, left, key, position))
