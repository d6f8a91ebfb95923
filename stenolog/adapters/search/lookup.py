"""Full-text search over the entries of a log, with a snippet around each hit."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from itertools import takewhile
from typing import Any, NamedTuple
from unicodedata import category

from stenolog.adapters.store import arguments, conversation_rows, search_index
from stenolog.adapters.store.conversation_rows import Segment
from stenolog.adapters.store.event_rows import EVENT, LAST, Row
from stenolog.adapters.store.handle import LogHandle
from stenolog.adapters.store.search_index import (
    BEGIN,
    END,
    TOKENIZER,
    Filter,
    Scope,
    any_word,
    expression,
    unfolded,
)
from stenolog.domain.entry import EPOCH, MICROSECOND, Entry
from stenolog.projections.describe import describe

from .indexing import Source, catch_up, decoded, newest, words_of

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


WORDS = 20
LONGEST = 240
"""Characters: a snippet of longer words is cut."""
CUT = "…"
LONG = 4_000
"""Characters: `snippet()` and `highlight()` of FTS5 take the square of the hits, so no text is longer."""
OVERLAP = 500
"""Characters that two windows of a long text share, so that a phrase is whole in one of them."""
FIRST_BLANK = re.compile(r"\s")
LAST_BLANK = re.compile(r"\s\S*\Z")
MATCHES = "SELECT rowid FROM shown WHERE shown MATCH ?"
SNIPPET = (
    f"SELECT rowid, snippet(shown, 0, '{BEGIN}', '{END}', '{CUT}', {WORDS}) FROM shown WHERE shown MATCH ?"
)


class Snippet(NamedTuple):
    """A few words on one line. `marks`: the first character of each hit, and the one behind it."""

    text: str
    marks: tuple[tuple[int, int], ...]


def snippets(query: str, said: Iterable[tuple[int, str]]) -> dict[int, Snippet]:
    """The snippets of those folded texts that match, by their numbers: what does not match has none."""
    match, found = expression(query), {}
    short: list[tuple[int, str]] = []
    for number, text in said:
        if len(text) <= LONG:
            short.append((number, text))
        elif _select(MATCHES, match, [(number, text)]):
            found[number] = _of_long(text, match, any_word(query))
    return found | {number: _snippet(text) for number, text in _select(SNIPPET, match, short)}


def _select(statement: str, match: str, said: Sequence[tuple[int, str]]) -> list[tuple[Any, ...]]:
    """Return the rows of a statement over a table of these texts."""
    if not said:
        return []
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE VIRTUAL TABLE shown USING fts5 (said, {TOKENIZER})")
        connection.executemany("INSERT INTO shown (rowid, said) VALUES (?, ?)", said)
        return connection.execute(statement, (match,)).fetchall()


def _of_long(text: str, match: str, any_word: str) -> Snippet:
    """Return the snippet of the first window that matches; else of the first that has one of the words.

    A window that is cut has an ellipsis, though its snippet may begin or end where the window does.
    """
    windows = dict(enumerate(_windows(text)))
    for wanted in (match, any_word):
        if found := _select(f"{MATCHES} ORDER BY rowid LIMIT 1", wanted, [*windows.items()]):
            (at,) = found[0]
            ((_, marked),) = _select(SNIPPET, wanted, [(at, windows[at])])
            left = CUT if at and not marked.startswith(CUT) else ""
            right = CUT if at < len(windows) - 1 and not marked.endswith(CUT) else ""
            return _snippet(f"{left}{marked}{right}")
    return Snippet(f"{unfolded(' '.join(text[:LONGEST].split()))}{CUT}", ())  # one word longer than a window


def _windows(text: str) -> Iterator[str]:
    """Yield overlapping pieces of at most `LONG` characters, cut at blanks where there are any near."""
    begin = 0
    while begin < len(text):
        end = begin + LONG
        if end < len(text) and (blank := LAST_BLANK.search(text, end - OVERLAP, end)):
            end = blank.start() + 1
        yield text[begin:end]
        if end >= len(text):
            return
        again = FIRST_BLANK.search(text, end - OVERLAP, end - OVERLAP // 2)
        begin = again.end() if again else end - OVERLAP


def _snippet(marked: str) -> Snippet:
    """The snippet, its marks counted in characters instead of standing in it."""
    before, *hits = _cut(" ".join(marked.split())).split(BEGIN)
    text, marks = unfolded(before), []
    for hit in hits:
        words, _, rest = hit.partition(END)
        accents = len(list(takewhile(lambda letter: category(letter)[0] == "M", rest)))  # no part of a token
        word = unfolded(words + rest[:accents])
        marks.append((len(text), len(text) + len(word)))
        text += word + unfolded(rest[accents:])
    return Snippet(text, tuple(marks))


def _cut(marked: str) -> str:
    """The marked text, where it is too long for a line only what stands around its first hit."""
    if len(marked) <= LONGEST:
        return marked
    first = max(0, marked.index(BEGIN) - LONGEST // 4)
    cut = marked[first : first + LONGEST]
    return f"{CUT if first else ''}{cut}{CUT}"
