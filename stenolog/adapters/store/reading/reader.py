"""Readers of a conversation: in pages, its newest entries, its imported ranges.

A second import widens the range in the history: entries between two imports count as imported.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from math import inf
from typing import Any, TypeAlias

from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import LAST, CommittedRow, Head, Row, Stream
from stenolog.domain.codec import REGISTRY
from stenolog.domain.entry import EPOCH, MICROSECOND, Entry, Record, to_entry
from stenolog.domain.erasure import ERASED, WITHHELD
from stenolog.domain.errors import CorruptLogError, PositionNotFoundError, StoredDataError, StoreError
from stenolog.domain.events import Event, Unknown
from stenolog.domain.values import PositionRange

from . import checked_reading


def records(recorder: LogRecorder, stream: Stream, after: int, upto: int | None) -> Iterator[Record]:
    """Yield the stored records with `after` < position <= `upto`, unchecked."""
    position, last = max(after, 0), LAST if upto is None else upto
    while position < last and (found := recorder.select_records(stream, position, last)):
        position = _checked(stream, position, len(found), found[0].position, found[-1].position)
        yield from found
    _check_inherited(recorder, stream, position, last)


def entries(
    recorder: LogRecorder, stream: Stream, after: int, upto: int | None, strict: bool = False
) -> Iterator[Entry]:
    """Yield entries after a position as `checked_reading.entries`."""
    position, last = max(after, 0), LAST if upto is None else upto
    # Without the digest before it, the first entry cannot be checked, but is still read.
    before: object = None
    with suppress(PositionNotFoundError, StoredDataError):
        before = digest_at(recorder, stream, position)
    known = (before,) if isinstance(before, bytes) else ()
    return checked_reading.entries(recorder, stream, position, last, known, DECODERS, strict=strict)


def entries_since(recorder: LogRecorder, stream: Stream, position: int) -> Iterator[Entry]:
    """Yield entries after one; raise `PositionNotFoundError` if that is gone, as after a deletion."""
    known = (digest_at(recorder, stream, position),)
    yield from checked_reading.entries(recorder, stream, position, LAST, known, DECODERS, strict=False)


def of_kinds(
    recorder: LogRecorder, stream: Stream, kinds: Collection[type[Event]], after: int, upto: int | None
) -> Iterator[Entry | Head]:
    """Yield the entries of these kinds, and at times the reading's head, also at the end.

    Others are neither decoded nor read. Raises `CorruptLogError` if one is missing, or one of these kinds is
    damaged.
    """
    # With `Unknown` among the kinds all are read, as the topics of unknown kinds cannot be listed.
    topics = () if Unknown in kinds else REGISTRY.topics(kinds)
    position, last = max(after, 0), LAST if upto is None else upto
    while position < last and (found := recorder.stretch(stream, position, last)):
        count, head = found
        # Counted in the index alone, which is enough to see a gap.
        if position + count != head.position:
            raise CorruptLogError(
                f"{stream.name!r}: expected the positions {position + 1} to {head.position}, "
                f"found {count} of them"
            )
        while rows := recorder.select_events(
            stream, gt=position, lte=head.position, page=True, topics=topics
        ).rows:
            position = rows[-1][0]
            for row in rows:
                if checked_reading.is_checked(recorder, stream, row[0]):
                    continue
                # Each with the digest before it, as the entries between were not read.
                checked_reading.check_row(recorder, stream, row, recorder.digest_at(stream, row[0] - 1))
            yield from _decoded(stream.name, rows)
        yield head
        position = head.position
    _check_inherited(recorder, stream, position, last)


def _checked(stream: Stream, before: int, count: int, first: int, last: int) -> int:
    """Return a page's last position. Raises `CorruptLogError` if one is missing."""
    if (first, last) != (before + 1, before + count):
        raise CorruptLogError(
            f"{stream.name!r}: expected the positions {before + 1} to {before + count}, "
            f"found {first} to {last}"
        )
    return last


def _check_inherited(recorder: LogRecorder, stream: Stream, position: int, last: int) -> None:
    """Raise `CorruptLogError` if inherited positions are missing before the fork."""
    if stream.alone or stream.key is None or position >= last:
        return
    segments = recorder.lineage(stream, last)
    if segments and position < segments[-1].after:
        raise CorruptLogError(f"{stream.name!r}: expected position {position + 1}, found none (inherited)")


def find(recorder: LogRecorder, stream: Stream, id: str) -> Entry | None:
    """Find as `StreamHandle.entry_by_id`."""
    record = recorder.record_by_id(stream, id)
    return None if record is None else to_entry(stream.name, record)


def everything(recorder: LogRecorder, after: int) -> Iterator[tuple[int, Entry]]:
    """Yield all conversations' entries in commit order, after notification id `after`."""
    while found := recorder.committed(after):
        for row in found:
            after = row.notification
            yield after, decoded(row)


def decoded(row: CommittedRow) -> Entry:
    """Return the entry of a row. Raises `CorruptLogError`, naming conversation and position."""
    topic, payload = row.topic, row.payload
    if payload is None:
        topic, payload = WITHHELD if topic == WITHHELD else ERASED, b""
    shown = (row.position, row.id, row.time, row.digest, topic, payload, b"", 0, None)
    (entry,) = _decoded(row.name, [shown])
    return entry


def _decoded(name: str, rows: list[Row]) -> Iterator[Entry]:
    # This loop is the cost of reading: it makes the tuple and calls the decoder with no function between.
    # The codec is asked for the reason of a failure only after it.
    new = tuple.__new__
    position = 0
    try:
        for position, id, at, digest, topic, payload, _, _, erased in rows:
            event = DECODERS[topic](payload) if erased is None or payload else DECODERS[ERASED](b"")
            yield new(Entry, (name, position, id, EPOCH + at * MICROSECOND, digest.hex(), event))
    except (StoredDataError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise _undecodable(name, position, topic, payload, error) from None


def _undecodable(name: str, position: int, topic: str, payload: bytes, error: Exception) -> CorruptLogError:
    """Return the error for a row that cannot be decoded, without its payload."""
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


def ancestor_streams(recorder: LogRecorder, stream: Stream, last: int) -> Iterator[tuple[Stream, int]]:
    """Yield the streams of positions up to `last`, each with its last one; the conversation's own first."""
    for segment in reversed(recorder.lineage(stream, last)):
        own = segment.key == stream.key
        yield stream if own else Stream(stream.name, segment.key), segment.upto


def digest_at(recorder: LogRecorder, stream: Stream, position: int) -> bytes:
    """Return the 32 bytes of the digest at a position; empty before the first.

    Raises `PositionNotFoundError`.
    """
    digest = recorder.digest_at(stream, position) if position >= 0 else None
    if digest is None:
        raise PositionNotFoundError(f"{stream.name!r}: no entry at position {position}")
    return digest


SOME = 32
"""The number of entries that a peek reads."""


def peek(recorder: LogRecorder, stream: Stream, position: int, digest: str) -> list[Entry] | None:
    """Return at most `SOME` of the stream's own entries after a position with this digest.

    None if it has another, or one of them is damaged.
    """
    if recorder.resolve(stream) is None:
        return None
    rows = recorder.recent(stream, position, SOME + 1)
    # The conversation is gone, or the position is one that it inherits.
    if not rows or (rows[0][0], rows[0][3]) != (position, bytes.fromhex(digest)):
        return None
    if len(rows) == 1:
        return []
    return checked_reading.following(recorder, stream, position, rows[0][3], rows[1:], DECODERS)


def imported_spans(recorder: LogRecorder, stream: Stream) -> tuple[PositionRange, ...]:
    """Return imported positions, inherited ones too."""
    found = []
    for segment in recorder.lineage(stream):
        first, last = recorder.imported(segment.key)
        first, last = max(first, segment.after + 1), min(last, segment.upto)
        if first <= last:
            found.append(PositionRange(first=first, last=last))
    return tuple(found)


Unread: TypeAlias = Callable[[int], Iterator[tuple[int, Entry]]]
"""The entries after a mark, each with the mark to go on from."""


class Tail:
    """The unread entries of a log, and the wait for the next: `timeout` seconds, for ever if None."""

    def __init__(self, recorder: LogRecorder, unread: Unread, mark: int, timeout: float | None) -> None:
        self.recorder = recorder
        self._unread = unread
        self._mark = mark
        self._timeout = timeout
        self.restart()

    def read(self) -> Iterator[Entry]:
        """Yield the unread entries."""
        for mark, entry in self._unread(self._mark):
            self._mark = mark
            yield entry

    @contextmanager
    def until_closed(self) -> Iterator[None]:
        """Suppress `StoreError` if the log was closed: that ends a reading like any other close."""
        try:
            yield
        except StoreError:
            if not self.recorder.closed:
                raise

    def restart(self) -> None:
        """Begin the wait anew, as an entry came."""
        self._quiet_until = inf if self._timeout is None else time.monotonic() + self._timeout

    @property
    def patience(self) -> float:
        """The seconds left to wait."""
        # `wait` refuses longer times, and infinity.
        return min(self._quiet_until - time.monotonic(), threading.TIMEOUT_MAX)


def follow(recorder: LogRecorder, unread: Unread, mark: int, timeout: float | None) -> Iterator[Entry]:
    """Yield the entries after `mark`, without end.

    Ends after `timeout` seconds without a new one (None: never), and when the log is closed.
    """
    woken = threading.Event()
    with recorder.listening(woken.set):
        tail = Tail(recorder, unread, mark, timeout)
        while not recorder.closed:
            # Before reading: an entry that comes after the read wakes us again.
            woken.clear()
            with tail.until_closed():
                for entry in tail.read():
                    yield entry
                    tail.restart()
            if tail.patience <= 0 or not woken.wait(tail.patience):
                return
