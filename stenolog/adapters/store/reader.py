"""Readers of a conversation: all of it in pages, its newest entries, and the ranges that were imported.

Importing notes the range of positions beside the log (`tracking`), since the entries keep their digests. A
second import into the same conversation widens the range, so entries between two imports count as imported.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from stenolog.domain.codec import REGISTRY
from stenolog.domain.entry import EPOCH, GENESIS, MICROSECOND, Entry, Record, to_entry
from stenolog.domain.errors import CorruptLogError, PositionNotFoundError, StoredDataError
from stenolog.domain.events import Event, Unknown
from stenolog.domain.values import PositionRange

from . import conversation_rows, cursors, damage, event_rows
from .conversation_rows import Segment
from .cursors import Cursor
from .database import LogDatastore
from .event_rows import EVENT, LAST, START, WHOLE, Head, Row
from .stream import Stream


def resolve(datastore: LogDatastore, stream: Stream) -> int | None:
    """The stream's key; None while nobody has appended to the conversation."""
    if stream.key is None:
        with datastore.reading() as connection:
            stream.key = conversation_rows.find(connection, stream.name)
    return stream.key


def head(datastore: LogDatastore, stream: Stream) -> Head:
    """Return the head of the conversation."""
    key = resolve(datastore, stream)
    if key is None:
        return START
    with datastore.reading() as connection:
        return event_rows.head(connection, key) or START


def exists(datastore: LogDatastore, key: int) -> bool:
    """Return whether a stream is still there."""
    with datastore.reading() as connection:
        return conversation_rows.name_of(connection, key) is not None


def records(datastore: LogDatastore, stream: Stream, after: int, upto: int | None) -> Iterator[Record]:
    """The stored records with `after` < position <= `at`."""
    for rows in _pages(datastore, stream, WHOLE, after, upto):
        yield from map(Record._make, rows)


def entries(
    datastore: LogDatastore, stream: Stream, after: int, upto: int | None, strict: bool = False
) -> Iterator[Entry]:
    """Yield the entries after a position, each checked against its digest; see `damage.entries`."""
    segments = _segments(datastore, stream, after, upto)
    before: object = None  # then the first entry cannot be checked
    with suppress(PositionNotFoundError, StoredDataError):
        before = digest_at(datastore, stream, max(after, 0))
    known = (before,) if isinstance(before, bytes) else ()
    return damage.entries(datastore, stream.name, segments, known, DECODERS, strict=strict)


def of_kinds(
    datastore: LogDatastore, stream: Stream, kinds: Collection[type[Event]], after: int, upto: int | None
) -> Iterator[Entry | Head]:
    """The entries of these kinds, and now and then the head of what has been read, also at the end.

    Others are neither decoded nor read, but for their place: where one is missing, this raises
    `CorruptLogError` as `entries` does. (With `Unknown` among the kinds all are read: nobody can list the
    topics of others.)
    """
    topics = () if Unknown in kinds else REGISTRY.topics(kinds)
    for key, position, last in _segments(datastore, stream, after, upto):
        while position < last:
            with datastore.reading() as connection:
                found = event_rows.stretch(connection, key, position, last)
            if found is None:
                break
            count, head = found
            if position + count != head.position:
                raise CorruptLogError(
                    f"{stream.name!r}: expected the positions {position + 1} to {head.position}, "
                    f"found {count} of them"
                )
            yield from _of_topics(datastore, stream.name, key, topics, position, head.position)
            yield head
            position = head.position
        _check_inherited(stream, key, position, last)


def _of_topics(
    datastore: LogDatastore, name: str, key: int, topics: Sequence[str], after: int, upto: int
) -> Iterator[Entry]:
    rows: list[Row] = []
    while after < upto:
        with datastore.reading() as connection:
            rows = event_rows.page(connection, EVENT, key, after, upto, topics)
        if not rows:
            return
        after = rows[-1][0]
        yield from _decoded(name, rows)


def find(datastore: LogDatastore, stream: Stream, id: str) -> Entry | None:
    """The entry of that id, the conversation's own before one that it inherits; None where there is none."""
    key = resolve(datastore, stream)
    if key is None:
        return None
    with datastore.reading() as connection:
        for segment in reversed(conversation_rows.lineage(connection, key, LAST)):
            record = event_rows.by_id(connection, segment.stream, id)
            if record is not None and record.position <= segment.upto:
                return to_entry(stream.name, record)
    return None


def everything(datastore: LogDatastore, after: int) -> Iterator[tuple[int, Entry]]:
    """The entries of all conversations in the order of their commits, behind notification id `after`."""
    before = None
    while before != after:
        before = after
        with datastore.reading() as connection:
            found = committed(connection, after)
        for after, _, entry in found:
            yield after, entry


def committed(
    connection: sqlite3.Connection, after: int, limit: int = event_rows.CHUNK_ROWS
) -> Iterator[tuple[int, int, Entry]]:
    """The next entries of all conversations, at most `limit`: notification id, stream, entry."""
    rows = connection.execute(event_rows.EVERYTHING, (after, limit)).fetchall()
    return ((id, stream, next(_decoded(name, [tuple(row)]))) for id, stream, name, *row in rows)


def newest(connection: sqlite3.Connection) -> int:
    """The notification id of the last entry of the log; 0 while there is none."""
    (last,) = connection.execute("SELECT coalesce(max(rowid), 0) FROM stored_events").fetchone()
    return int(last)


def _decoded(name: str, rows: list[Row]) -> Iterator[Entry]:
    """The rows as entries. This loop is what reading costs: it makes the tuple and calls the decoder
    without a function between, and asks the codec what is wrong only once something is."""
    new = tuple.__new__
    position = 0
    try:
        for position, id, at, digest, topic, payload in rows:
            event = DECODERS[topic](payload)
            yield new(Entry, (name, position, id, EPOCH + at * MICROSECOND, digest.hex(), event))
    except (StoredDataError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise _undecodable(name, position, topic, payload, error) from None


def _undecodable(name: str, position: int, topic: str, payload: bytes, error: Exception) -> CorruptLogError:
    """Return the error for a row that cannot be decoded; its message never quotes the payload."""
    try:
        REGISTRY.load(topic, payload)
    except StoredDataError as known:
        error = known
    except (TypeError, ValueError):
        pass
    return CorruptLogError(f"{name!r} at position {position}: {error}")


class _Decoders(dict[str, Callable[[bytes], Event]]):
    """The decoder of each topic, bound when it is first met."""

    def __missing__(self, topic: str) -> Callable[[bytes], Event]:
        known: Any = REGISTRY.events.get(topic)
        decode: Callable[[bytes], Event]
        decode = (
            partial(REGISTRY.load, topic) if known is None else known.__pydantic_validator__.validate_json
        )
        self[topic] = decode
        return decode


DECODERS = _Decoders()


def _pages(
    datastore: LogDatastore, stream: Stream, columns: str, after: int, upto: int | None
) -> Iterator[list[Row]]:
    """The rows as lists of at most 512. Raises `CorruptLogError` where a position is missing.

    What is appended meanwhile is read too.
    """
    for key, position, last in _segments(datastore, stream, after, upto):
        while position < last:
            with datastore.reading() as connection:
                rows = event_rows.page(connection, columns, key, position, last)
            if not rows:
                break
            first, end = rows[0][0], rows[-1][0]
            if (first, end) != (position + 1, position + len(rows)):
                raise CorruptLogError(
                    f"{stream.name!r}: expected the positions {position + 1} to {position + len(rows)}, "
                    f"found {first} to {end}"
                )
            position = end
            yield rows
        _check_inherited(stream, key, position, last)


def _segments(
    datastore: LogDatastore, stream: Stream, after: int, upto: int | None
) -> Iterator[tuple[int, int, int]]:
    """Yield the segments after a position: stream, the position before the first one, and the last one."""
    key = resolve(datastore, stream)
    if key is None:
        return
    for segment in _lineage(datastore, stream, key, LAST if upto is None else upto):
        if segment.upto > after:
            yield segment.stream, max(segment.after, after), segment.upto


def _lineage(datastore: LogDatastore, stream: Stream, key: int, last: int) -> tuple[Segment, ...]:
    """Return the segments that store the positions up to `last`.

    Streams without ancestors are looked up once.
    """
    if stream.alone:
        return (Segment(key, 0, last),)
    with datastore.reading() as connection:
        segments = conversation_rows.lineage(connection, key, last)
    stream.alone = len(segments) == 1
    return segments


def ancestor_streams(datastore: LogDatastore, stream: Stream, last: int) -> Iterator[tuple[Stream, int]]:
    """The streams that hold the positions up to `last`, and up to where: the stream, then its ancestors."""
    key = resolve(datastore, stream)
    if key is not None:
        for segment in reversed(_lineage(datastore, stream, key, last)):
            yield stream if segment.stream == key else Stream(stream.name, segment.stream), segment.upto


def _check_inherited(stream: Stream, key: int, position: int, last: int) -> None:
    """Raise `CorruptLogError` if inherited positions are missing before the fork."""
    if key != stream.key and position < last:
        raise CorruptLogError(f"{stream.name!r}: expected position {position + 1}, found none (inherited)")


def digest_at(datastore: LogDatastore, stream: Stream, position: int) -> bytes:
    """The digest at a position, 32 bytes; that before the first one is empty.

    Raises `PositionNotFoundError` where the conversation has no such entry.
    """
    if position == 0:
        return GENESIS
    key = resolve(datastore, stream)
    if key is not None and position > 0:
        segments = _lineage(datastore, stream, key, position)
        with datastore.reading() as connection:
            digest = digest_on(connection, segments, position)
        if digest is not None:
            return digest
    raise PositionNotFoundError(f"{stream.name!r}: no entry at position {position}")


def digest_on(connection: sqlite3.Connection, segments: Sequence[Segment], position: int) -> bytes | None:
    """The digest at a position of a conversation that is kept there; None where it has no such entry."""
    for segment in segments:
        if segment.after < position <= segment.upto:
            return event_rows.digest_at(connection, segment.stream, position)
    return None


SOME = 32
"""So many entries are read at a peek."""
SINCE = f"""SELECT originator_version, entry_id, at, digest, {event_rows.TOPIC},
        CASE WHEN originator_version > ? THEN {event_rows.STATE} END
    FROM stored_events WHERE originator_id = ? AND originator_version >= ?
    ORDER BY originator_version LIMIT {SOME + 1}"""
"""The columns of `events.EVENT`; the payload of the first is known, and may be long."""


def peek(datastore: LogDatastore, stream: Stream, position: int, digest: str) -> list[Entry] | None:
    """The next entries of the stream itself behind a position that has this digest, at most `SOME`.

    None where it has not: the conversation is gone, or the position is one that it inherits.
    """
    key = resolve(datastore, stream)
    if key is None:
        return None
    with datastore.reading() as connection:
        rows = connection.execute(SINCE, (position, key, position)).fetchall()
    if not rows or (rows[0][0], rows[0][3]) != (position, bytes.fromhex(digest)):
        return None
    return [*_decoded(stream.name, rows[1:])]


IMPORTED_CURSOR = "imported"


def note_import(connection: sqlite3.Connection, stream: int, first: int, last: int) -> None:
    """Record that the positions `first` to `last` of a stream were imported."""
    before = cursors.load_cursor(connection, IMPORTED_CURSOR, stream)
    if before.position:
        first, last = min(first, before.piece), max(last, before.position)
    cursors.advance(connection, IMPORTED_CURSOR, Cursor(last, first), stream)


def imported_spans(datastore: LogDatastore, stream: Stream) -> tuple[PositionRange, ...]:
    """The imported positions of a conversation, also those that it inherits as a fork."""
    key = resolve(datastore, stream)
    if key is None:
        return ()
    found = []
    with datastore.reading() as connection:
        for segment in conversation_rows.lineage(connection, key, LAST):
            mark = cursors.load_cursor(connection, IMPORTED_CURSOR, segment.stream)
            first, last = max(mark.piece, segment.after + 1), min(mark.position, segment.upto)
            if mark.position and first <= last:
                found.append(PositionRange(first=first, last=last))
    return tuple(found)
