"""Reading a conversation in pages, through its ancestors, checked to be without gaps."""

from __future__ import annotations

from collections.abc import Iterator

from stenolog.domain.entry import GENESIS
from stenolog.domain.errors import CorruptLog, UnknownPosition

from . import events, streams
from .appending import Stream
from .datastore import LogDatastore
from .events import LAST, START, Head, Row
from .streams import Segment


def resolve(datastore: LogDatastore, stream: Stream) -> int | None:
    """The stream's key; None while nobody has appended to the conversation."""
    if stream.key is None:
        with datastore.reading() as connection:
            stream.key = streams.find(connection, stream.name)
    return stream.key


def head(datastore: LogDatastore, stream: Stream) -> Head:
    """Where the conversation stands now."""
    key = resolve(datastore, stream)
    if key is None:
        return START
    with datastore.reading() as connection:
        return events.head(connection, key) or START


def pages(datastore: LogDatastore, stream: Stream, after: int, upto: int | None) -> Iterator[list[Row]]:
    """The rows with `after` < position <= `upto`, as lists of at most 512 rows.

    Raises `CorruptLog` where a position is missing. What is appended meanwhile is read too.
    """
    key = resolve(datastore, stream)
    if key is None:
        return
    last = LAST if upto is None else upto
    with datastore.reading() as connection:
        segments = streams.lineage(connection, key, last)
    position = max(after, 0)
    for segment in segments:
        while position < segment.upto:
            with datastore.reading() as connection:
                rows = events.page(connection, segment.stream, position, segment.upto)
            if not rows:
                break
            _check_contiguous(stream.name, position, rows)
            position += len(rows)
            yield rows
        if segment.stream != key and position < segment.upto:
            raise CorruptLog(f"{stream.name!r}: expected position {position + 1}, found none (inherited)")


def digest_at(datastore: LogDatastore, stream: Stream, position: int) -> bytes:
    """The digest at a position, 32 bytes; that before the first one is empty.

    Raises `UnknownPosition` where the conversation has no such entry.
    """
    if position == 0:
        return GENESIS
    key = resolve(datastore, stream)
    if key is not None and position > 0:
        with datastore.reading() as connection:
            segment = _holding(streams.lineage(connection, key, LAST), position)
            digest = events.digest_at(connection, segment.stream, position)
        if digest is not None:
            return digest
    raise UnknownPosition(f"{stream.name!r}: no entry at position {position}")


def _holding(segments: tuple[Segment, ...], position: int) -> Segment:
    return next(segment for segment in segments if segment.after < position <= segment.upto)


def _check_contiguous(name: str, after: int, rows: list[Row]) -> None:
    for expected, row in enumerate(rows, after + 1):
        if row[0] != expected:
            raise CorruptLog(f"{name!r}: expected position {expected}, found {row[0]}")
