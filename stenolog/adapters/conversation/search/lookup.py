"""Full-text search of a log's entries, with a snippet for each hit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import takewhile
from typing import NamedTuple
from unicodedata import category

from stenolog.adapters.store.contract.values import Stream
from stenolog.adapters.store.reading import arguments
from stenolog.adapters.store.reading.handle import LogHandle
from stenolog.adapters.store.sidecar import index_checks, search_index
from stenolog.adapters.store.sidecar.search_index import (
    BEGIN,
    END,
    Filter,
    IndexConnection,
    Scope,
    any_word,
    expression,
    unfolded,
)
from stenolog.domain.entry import EPOCH, MICROSECOND, Entry
from stenolog.projections.views.lines import describe

from .indexing import Source, catch_up, decoded, newest, words_of

PAGE = 100


class Hit(NamedTuple):
    """An entry with the words.

    `time` is aware UTC; `who` wrote it, and to whom; `snippet` is the line of text around them, `marks` their
    ranges in it, ends exclusive.
    """

    conversation: str
    position: int
    time: datetime
    kind: str
    who: str
    snippet: str
    marks: tuple[tuple[int, int], ...]


class Hits(list[Hit]):
    """Hits: a list, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        from stenolog.projections.html_table import table  # late: few programs show one

        def some(first: int, end: int) -> Iterator[tuple[object, ...]]:
            for each in self[first:end]:
                yield each.conversation, each.position, f"{each.time:%Y-%m-%d %H:%M:%S}", *each[3:6]

        columns = ("conversation", "", "time", "kind", "who", "words")
        return table(f"{len(self):,} hits", columns, len(self), some)


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
    """Yield the hits; see `Log.search`."""
    match, source = expression(arguments.text("search", query)), Source(log.recorder, log.blobs)
    chosen = arguments.some_of("kinds", kinds, search_index.KINDS)
    times = arguments.instant("since", since), arguments.instant("until", until)
    speaker = None if agent is None else search_index.clean_text(arguments.text("agent", agent))
    end = newest(source)
    wanted = Filter(_scope(log, conversation), speaker, chosen, *times)

    def look(connection: IndexConnection) -> list[int]:
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
    if conversation is None:
        return None
    stream = Stream(arguments.text("conversation", conversation))
    segments = log.recorder.lineage(stream)
    if not segments:
        raise arguments.missing(conversation, log.path)
    ends = [id for segment in segments for id in log.recorder.notification_bounds(segment) if id]
    return Scope(segments, min(ends, default=0), max(ends, default=0))


def _entries(source: Source, ids: Sequence[int]) -> dict[int, Entry]:
    found = {}
    for row in source.recorder.committed_at(ids):
        if event := decoded(row.topic, row.payload):
            at = EPOCH + row.time * MICROSECOND
            found[row.notification] = Entry(row.name, row.position, row.id, at, row.digest.hex(), event)
    return found


def _hit(entry: Entry, shown: Snippet, conversation: str | None) -> Hit:
    """Return a hit. A search in a conversation names it, also for an inherited entry."""
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
    """Some words on one line. `marks`: the ranges of hits, ends exclusive."""

    text: str
    marks: tuple[tuple[int, int], ...]


def snippets(query: str, said: Iterable[tuple[int, str]]) -> dict[int, Snippet]:
    """Return snippets of the folded texts that match, by number."""
    match, found = expression(query), {}
    short: list[tuple[int, str]] = []
    for number, text in said:
        if len(text) <= LONG:
            short.append((number, text))
        elif index_checks.of_texts(MATCHES, match, [(number, text)]):
            found[number] = _of_long(text, match, any_word(query))
    return found | {number: _snippet(text) for number, text in index_checks.of_texts(SNIPPET, match, short)}


def _of_long(text: str, match: str, any_word: str) -> Snippet:
    """Return the first matching window's snippet, else the first with one of the words.

    A cut window has an ellipsis, even if the snippet ends with it.
    """
    windows = dict(enumerate(_windows(text)))
    for wanted in (match, any_word):
        if found := index_checks.of_texts(f"{MATCHES} ORDER BY rowid LIMIT 1", wanted, [*windows.items()]):
            (at,) = found[0]
            ((_, marked),) = index_checks.of_texts(SNIPPET, wanted, [(at, windows[at])])
            left = CUT if at and not marked.startswith(CUT) else ""
            right = CUT if at < len(windows) - 1 and not marked.endswith(CUT) else ""
            return _snippet(f"{left}{marked}{right}")
    return Snippet(f"{unfolded(' '.join(text[:LONGEST].split()))}{CUT}", ())  # one word longer than a window


def _windows(text: str) -> Iterator[str]:
    """Yield overlapping pieces of at most `LONG` characters, cut at nearby blanks."""
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
    """Return the marked text around its first hit if too long for a line."""
    if len(marked) <= LONGEST:
        return marked
    first = max(0, marked.index(BEGIN) - LONGEST // 4)
    cut = marked[first : first + LONGEST]
    return f"{CUT if first else ''}{cut}{CUT}"
