"""Upkeep of the search index: entries go in with the next search, deleted ones go, and all can be checked."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import NamedTuple, TypeAlias

from stenolog._version import __version__
from stenolog.adapters.store import conversation_rows, cursors, event_rows, reader, search_index
from stenolog.adapters.store.database import LogDatastore
from stenolog.adapters.store.errors import RAISED
from stenolog.adapters.store.handle import LogHandle
from stenolog.adapters.store.search_index import TOKENIZER, End, Index, IndexMark, IndexPlace, Stale, folded
from stenolog.adapters.store.sidecar import UNUSABLE
from stenolog.domain.errors import StenologError, StoredDataError
from stenolog.domain.events import Event, ToolResult
from stenolog.projections.describe import agent_of, searchable_text

LONGEST = 1_000_000
"""Characters: of a longer entry only the beginning is indexed."""
BATCH_ROWS = 4_000
BATCH_BYTES = 4_000_000
"""The most bytes indexed at once, so that other writers get their turn and an interruption costs little."""
COLUMNS = """rowid, originator_id, originator_version, at, digest, topic,
    CASE WHEN erased IS NULL THEN state END"""
BEHIND = f"SELECT {COLUMNS} FROM stored_events WHERE rowid > ? ORDER BY rowid"
OF_STREAM = f"""SELECT {COLUMNS} FROM stored_events
    WHERE originator_id = ? AND originator_version > ? AND rowid <= ? ORDER BY originator_version"""
NEWEST = "SELECT rowid, digest FROM stored_events WHERE rowid <= ? ORDER BY rowid DESC LIMIT 1"


class Source(NamedTuple):
    """The sources of an index: a log, and the blobs with the full text of its long outputs."""

    datastore: LogDatastore
    blobs: Mapping[str, bytes]


class Stored(NamedTuple):
    """An entry on its way into the index; `payload` is None once it was erased."""

    id: int
    stream: int
    position: int
    at: int
    digest: bytes
    topic: str
    payload: bytes | None


def version() -> str:
    """Return the version that an index must have: another release may index more words."""
    return __version__


def catch_up(
    source: Source, connection: sqlite3.Connection, end: End, progress: Callable[[int], object]
) -> None:
    """Index what was appended since the last time, up to what was the `newest` entry a moment ago.

    `progress` is told the notification ids come to.
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


def _next(source: Source, connection: sqlite3.Connection) -> int:
    """Index the next batch; the notification id come to, 0 where nothing was left."""
    with search_index.changing(connection):
        mark = _checked(source, connection)
        rows = page(source, BEHIND, mark.end.id)
        if not rows:
            return 0
        search_index.add(connection, *worded(source, rows))
        end = End(rows[-1].id, rows[-1].digest, mark.end.deletions)
        search_index.advance(connection, IndexMark(end, version(), mark.sheds))
    return rows[-1].id


def _checked(source: Source, connection: sqlite3.Connection) -> IndexMark:
    """The mark, if it is one on this log: the entry that was indexed last stands there with its digest, and
    nothing that came before it was deleted since, or came back with a backup."""
    mark = search_index.index_position(connection)
    end = newest(source, mark.end.id)
    if mark.version and (mark.end, mark.version) != (end, version()):
        raise Stale("made from another log, or by another release")
    return mark._replace(end=end)


def newest(source: Source, at: int = event_rows.LAST) -> End:
    """The log's last entry up to a notification id, and what the log's deletions have come to."""
    with source.datastore.reading() as connection:
        id, digest = connection.execute(NEWEST, (at,)).fetchone() or (0, b"")
        return End(id, digest, cursors.load_cursor(connection, conversation_rows.DELETIONS).position)


def page(source: Source, statement: str, *values: int) -> list[Stored]:
    """The next rows: at most 4,000, fewer where they are long."""
    rows: list[Stored] = []
    size = 0
    with source.datastore.reading() as connection:
        cursor = connection.execute(statement, values)
        while size < BATCH_BYTES and len(rows) < BATCH_ROWS:
            chunk = cursor.fetchmany(event_rows.CHUNK_ROWS)
            if not chunk:
                break
            rows += map(Stored._make, chunk)
            size += sum(len(row.payload or b"") for row in rows[-len(chunk) :])
        cursor.close()
    return rows


def worded(source: Source, rows: Iterable[Stored]) -> tuple[list[tuple[int, str]], list[IndexPlace]]:
    """The words of the entries and their places; those that have none are left out."""
    words: list[tuple[int, str]] = []
    places: list[IndexPlace] = []
    for row in rows:
        event = decoded(row.topic, row.payload)
        if event is not None and (text := words_of(event, source.blobs)):
            words.append((row.id, text))
            places.append(IndexPlace(*row[:4], search_index.KINDS[event.kind], agent_of(event)))
    return words, places


def decoded(topic: str, payload: bytes | None) -> Event | None:
    """The event; None where its payload was erased, or is damaged: `verify` says where."""
    if payload is None:
        return None
    try:
        return reader.DECODERS[topic](payload)
    except (StoredDataError, TypeError, ValueError):
        return None


def words_of(event: Event, blobs: Mapping[str, bytes]) -> str:
    """The words of an event as they are indexed; of a long output the whole, where it is text."""
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
def forgetting(found: Index, source: Source, stream: int) -> Iterator[None]:
    """Take a conversation out of the index, if the block deletes it, and shed its bytes.

    Where that fails, the next search sheds them.
    """
    if not found.is_there:
        yield
        return
    with found.turn:
        connection = _without(found, source, stream)
        try:
            yield
        except BaseException:
            if connection is not None:
                connection.execute("ROLLBACK")
            raise
        if connection is not None:
            _end(found, source, connection)
            _shed(found)


def _without(found: Index, source: Source, stream: int) -> sqlite3.Connection | None:
    """The index without the conversation, in a transaction; None where it had to be thrown away."""
    try:
        connection = found.open()
        connection.execute("BEGIN IMMEDIATE")
        last, position = _checked(source, connection).end.id, 0
        while rows := page(source, OF_STREAM, stream, position, last):
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


def _end(found: Index, source: Source, connection: sqlite3.Connection) -> None:
    """Commit that: the entry that was indexed last may be gone, and the one before it is the mark then."""
    try:
        mark = search_index.index_position(connection)
        search_index.advance(connection, IndexMark(newest(source, mark.end.id), version(), mark.sheds + 1))
        connection.execute("COMMIT")
    except RAISED:
        found.delete()


WORDS = "CREATE VIRTUAL TABLE temp.{0} USING fts5vocab({1}, 'instance')"
SUMS = """SELECT term, count(*), sum(doc), sum(doc * (offset + 1)), sum(offset * offset)
    FROM temp.{0} GROUP BY term"""
"""Sums over each word's places, which differ if the word stands anywhere else."""
PLACES = "SELECT id, stream, position, at, kind, agent FROM entries WHERE id > ? AND id <= ? ORDER BY id"
DAMAGED = (*UNUSABLE, sqlite3.SQLITE_ERROR)
"""The last for a table that is missing."""
Sums: TypeAlias = dict[str, tuple[int, ...]]


def check_index(log: LogHandle) -> bool:
    """Return whether the index agrees with the log. One that does not is deleted; the next search makes it.

    True also where there is none, and where it cannot be read just now.
    """
    found = log.index
    if not found.is_there:
        return True
    with found.turn:
        try:
            connection = found.open()
            connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
            connection.execute("BEGIN")  # others may go on with it meanwhile
            try:
                if _agrees(Source(log.datastore, log.blobs), connection):
                    return True
            finally:
                connection.execute("ROLLBACK")
        except StenologError:  # the log cannot be read: there is nothing to compare with
            return True
        except RAISED as error:
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF not in DAMAGED:
                found.let_go()
                return True
        found.delete()
        return False


def _agrees(source: Source, connection: sqlite3.Connection) -> bool:
    mark = search_index.index_position(connection)
    if mark.version != version():  # new, or another release's: the next search makes it anew
        return True
    if connection.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
        return False
    expected: Sums = {}
    last = 0
    while rows := [row for row in page(source, BEHIND, last) if row.id <= mark.end.id]:
        said, places = worded(source, rows)
        if connection.execute(PLACES, (last, rows[-1].id)).fetchall() != [tuple(place) for place in places]:
            return False
        last = rows[-1].id
        _add_sums(expected, _indexed(said))
    if connection.execute("SELECT count(*) FROM entries WHERE id > ?", (last,)).fetchone() != (0,):
        return False
    connection.execute(WORDS.format("stenolog_words", "main, words"))
    try:
        return dict(_sums(connection, "stenolog_words")) == expected
    finally:
        connection.execute("DROP TABLE temp.stenolog_words")


def _indexed(said: list[tuple[int, str]]) -> Sums:
    """Return the sums of some entries' words, indexed afresh."""
    with closing(sqlite3.connect(":memory:")) as fresh:
        fresh.execute(f"CREATE VIRTUAL TABLE words USING fts5 (said, content = '', {TOKENIZER})")
        fresh.executemany(search_index.ADD, said)
        fresh.execute(WORDS.format("stenolog_words", "main, words"))
        return dict(_sums(fresh, "stenolog_words"))


def _sums(connection: sqlite3.Connection, table: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    return ((term, tuple(numbers)) for term, *numbers in connection.execute(SUMS.format(table)))


def _add_sums(to: Sums, more: Sums) -> None:
    for term, numbers in more.items():
        to[term] = tuple(map(sum, zip(to.get(term, (0, 0, 0, 0)), numbers, strict=True)))
