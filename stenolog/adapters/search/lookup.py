"""Full-text search over the entries of a log."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from stenolog.adapters.store import arguments, conversation_rows, search_index
from stenolog.adapters.store.conversation_rows import Segment
from stenolog.adapters.store.event_rows import EVENT, LAST, Row
from stenolog.adapters.store.handle import LogHandle
from stenolog.adapters.store.search_index import Filter, Scope
from stenolog.domain.entry import EPOCH, MICROSECOND, Entry
from stenolog.projections.describe import describe

from .indexing import Source, catch_up, decoded, newest, words_of
from .query import expression
from .snippets import Snippet, snippets

PAGE = 100
BY_ID = f"""SELECT e.rowid, c.name, {EVENT}
    FROM stored_events e JOIN conversations c ON c.stream = e.originator_id
    WHERE e.erased IS NULL AND e.rowid IN """
ENDS = """SELECT
    (SELECT rowid FROM stored_events WHERE originator_id = ? AND originator_version > ?
        ORDER BY originator_version LIMIT 1),
    (SELECT rowid FROM stored_events WHERE originator_id = ? AND originator_version <= ?
        ORDER BY originator_version DESC LIMIT 1)"""


class Hit(NamedTuple):
    """An entry that says the words. `at` is aware UTC; `who` said it, and to whom; `snippet` is a line of
    the text around them, and `marks` tell where in it they stand: first character, and the one behind."""

    conversation: str
    position: int
    time: datetime
    kind: str
    who: str
    snippet: str
    marks: tuple[tuple[int, int], ...]


def search(
    log: LogHandle,
    query: str,
    *,
    conversation: str | None = None,
    agent: str | None = None,
    kinds: str | Sequence[str] = (),
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int,
    by_age: bool,
    progress: Callable[[int], object],
) -> Iterator[Hit]:
    """The hits; see `Log.search`."""
    match, source = expression(arguments.text("search", query)), Source(log.datastore, log.blobs)
    chosen = arguments.some_of("kinds", kinds, search_index.KINDS)
    times = arguments.instant("since", since), arguments.instant("until", until)
    speaker = None if agent is None else conversation_rows.clean_text(arguments.text("agent", agent))
    end = newest(source)
    wanted = Filter(_scope(log, conversation), speaker, chosen, *times)

    def look(connection: sqlite3.Connection) -> list[int]:
        catch_up(source, connection, end, progress)
        return search_index.matches(connection, match, wanted, limit, by_age=by_age)

    ids = log.index.use(look)
    size = min(limit, PAGE)
    for first in range(0, len(ids), size):
        page = ids[first : first + size]
        entries = _entries(source, page)
        said = [(id, words_of(entry.event, source.blobs)) for id, entry in entries.items()]
        shown = snippets(query, said)
        yield from (_hit(entries[id], shown[id], conversation) for id in page if id in shown)


def _scope(log: LogHandle, conversation: str | None) -> Scope | None:
    """Return the scope of a search: a conversation with all that it inherits; None for the whole log."""
    if conversation is None:
        return None
    with log.datastore.reading() as connection:
        key = conversation_rows.find(connection, arguments.text("conversation", conversation))
        if key is None:
            raise arguments.missing(conversation, log.path)
        segments = conversation_rows.lineage(connection, key, LAST)
        ends = [id for segment in segments for id in _ends(connection, segment) if id]
    return Scope(segments, min(ends, default=0), max(ends, default=0))


def _ends(connection: sqlite3.Connection, segment: Segment) -> Row:
    """The notification ids of the first entry and of the last; None where there is none."""
    stream, after, at = segment
    row: Row = connection.execute(ENDS, (stream, after, stream, at)).fetchone()
    return row


def _entries(source: Source, ids: Sequence[int]) -> dict[int, Entry]:
    """Those of the entries that are still there, by their notification ids."""
    with source.datastore.reading() as connection:
        rows = connection.execute(f"{BY_ID} ({', '.join('?' * len(ids))})", ids).fetchall()
    found = {}
    for id, name, position, entry_id, at, digest, topic, payload in rows:
        if event := decoded(topic, payload):
            found[id] = Entry(name, position, entry_id, EPOCH + at * MICROSECOND, digest.hex(), event)
    return found


def _hit(entry: Entry, shown: Snippet, conversation: str | None) -> Hit:
    """Make a hit. A search within a conversation names that conversation, also for an inherited entry."""
    where = conversation or entry.conversation
    return Hit(where, entry.position, entry.time, entry.event.kind, describe(entry).who, *shown)
