"""Upkeep of the search index: a search adds new entries, deletions remove, and checks compare."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from stenolog._version import __version__
from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import LAST, CommittedRow
from stenolog.adapters.store.reading import reader
from stenolog.adapters.store.reading.handle import LogHandle
from stenolog.adapters.store.sidecar import index_checks, search_index
from stenolog.adapters.store.sidecar.index_checks import Indexed
from stenolog.adapters.store.sidecar.search_index import (
    End,
    Index,
    IndexConnection,
    IndexMark,
    IndexPlace,
    Stale,
    folded,
)
from stenolog.adapters.store.sqlite.errors import RAISED
from stenolog.domain.errors import StenologError, StoredDataError
from stenolog.domain.events import Event, ToolResult
from stenolog.projections.views.lines import agent_of, searchable_text

LONGEST = 1_000_000
"""Characters: of a longer entry only the beginning is indexed."""
BATCH_ROWS = 4_000
"""The most entries indexed at once, so that other writers get their turn and an interruption costs little."""


class Source(NamedTuple):
    """Sources of an index: a log, and blobs with whole long outputs."""

    recorder: LogRecorder
    blobs: Mapping[str, bytes]


def version() -> str:
    """Return the version that an index must have: another release may index more words."""
    return __version__


def catch_up(
    source: Source, connection: IndexConnection, end: End, progress: Callable[[int], object]
) -> None:
    """Index the entries since the last time, up to a recent `newest`.

    `progress` is called with notification ids.
    """
    mark = search_index.index_position(connection)
    if mark.sheds:
        search_index.shed(connection, mark.sheds)
    if (mark.end, mark.version) == (end, version()):
        return
    while come := _next(source, connection):
        progress(come)
        if come >= end[0]:
            return


def _next(source: Source, connection: IndexConnection) -> int:
    with search_index.changing(connection):
        mark = _checked(source, connection)
        rows = source.recorder.committed(mark.end.id, limit=BATCH_ROWS)
        if not rows:
            return 0
        search_index.add(connection, *worded(source, rows))
        end = End(rows[-1].notification, rows[-1].digest, mark.end.deletions)
        search_index.advance(connection, IndexMark(end, version(), mark.sheds))
    return rows[-1].notification


def _checked(source: Source, connection: IndexConnection) -> IndexMark:
    """Return the mark if it belongs to this log.

    The last indexed entry must exist with its digest, and no earlier one be deleted since, or restored from a
    backup.
    """
    mark = search_index.index_position(connection)
    end = newest(source, mark.end.id)
    if mark.version and (mark.end, mark.version) != (end, version()):
        raise Stale("made from another log, or by another release")
    return mark._replace(end=end)


def newest(source: Source, at: int = LAST) -> End:
    """Return the last entry up to a notification id, and the log's count of deletions."""
    return End(*source.recorder.last_committed(at), source.recorder.deletions())


def worded(source: Source, rows: Iterable[CommittedRow]) -> tuple[list[tuple[int, str]], list[IndexPlace]]:
    """Return the entries' words and places, without empty ones."""
    words: list[tuple[int, str]] = []
    places: list[IndexPlace] = []
    for row in rows:
        event = decoded(row.topic, row.payload)
        if event is not None and (text := words_of(event, source.blobs)):
            words.append((row.notification, text))
            place = row.notification, row.key, row.position, row.time
            places.append(IndexPlace(*place, search_index.KINDS[event.kind], agent_of(event)))
    return words, places


def decoded(topic: str, payload: bytes | None) -> Event | None:
    """Return the event; None if erased, or damaged."""
    if payload is None:
        return None
    try:
        return reader.DECODERS[topic](payload)
    except (StoredDataError, TypeError, ValueError):
        return None


def words_of(event: Event, blobs: Mapping[str, bytes]) -> str:
    """Return an event's words to index; of a long output the whole text."""
    text = searchable_text(event)
    if isinstance(event, ToolResult) and event.blob:
        text = f"{text}\n{_text(blobs, event.blob)}"
    return folded(text[:LONGEST])


def _text(blobs: Mapping[str, bytes], sha: str) -> str:
    try:
        return blobs[sha].decode()
    except (KeyError, UnicodeDecodeError):
        return ""


@contextmanager
def forgetting(found: Index, source: Source, key: int) -> Iterator[None]:
    """Remove a conversation from the index, with its bytes, if the block deletes it.

    If that fails, the next search does it.
    """
    if not found.is_there:
        yield
        return
    with found.guard:
        connection = _without(found, source, key)
        try:
            yield
        except BaseException:
            if connection is not None:
                search_index.roll_back(connection)
            raise
        if connection is not None:
            _end(found, source, connection)
            _shed(found)


def _without(found: Index, source: Source, key: int) -> IndexConnection | None:
    try:
        connection = found.open()
        search_index.begin(connection)
        last, position = _checked(source, connection).end.id, 0
        while rows := source.recorder.committed(position, upto=last, key=key, limit=BATCH_ROWS):
            search_index.remove(connection, worded(source, rows)[0])
            position = rows[-1].position
        return connection
    except RAISED:
        found.delete()
        return None


def _shed(found: Index) -> None:
    try:
        connection = found.open()
        search_index.shed(connection, search_index.index_position(connection).sheds)
    except RAISED as error:
        found.give_up(error)


def _end(found: Index, source: Source, connection: IndexConnection) -> None:
    """Commit. If the entry last indexed was deleted, the previous one is the mark."""
    try:
        mark = search_index.index_position(connection)
        search_index.advance(connection, IndexMark(newest(source, mark.end.id), version(), mark.sheds + 1))
        search_index.commit(connection)
    except RAISED:
        found.delete()


def check_index(log: LogHandle) -> bool:
    """Return whether the index agrees with the log; a wrong one is deleted, and rebuilt by a search.

    True also without an index, or if it cannot be read now.
    """
    found = log.index
    if not found.is_there:
        return True
    source = Source(log.recorder, log.blobs)

    def agrees(connection: IndexConnection) -> bool:
        mark = search_index.index_position(connection)
        if mark.version != version():  # new, or another release's: the next search makes it anew
            return True
        return index_checks.holds_just(connection, _batches(source, mark.end.id))

    with found.guard:
        try:
            return index_checks.is_sound(found, agrees)
        except StenologError:  # the log cannot be read: there is nothing to compare with
            return True


def _batches(source: Source, upto: int) -> Iterator[Indexed]:
    last = 0
    while rows := source.recorder.committed(last, upto=upto, limit=BATCH_ROWS):
        last = rows[-1].notification
        yield last, *worded(source, rows)
