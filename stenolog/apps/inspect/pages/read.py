"""The page on which a conversation is read: turns, the words of both sides, an answer's request."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import UTC, datetime, timedelta
from typing import Any

from stenolog.adapters.conversation.queries.backwards import backwards
from stenolog.adapters.conversation.queries.overviews import title_of
from stenolog.apps.inspect.entries.rows import place_of
from stenolog.apps.inspect.page import File, Page, TextPage
from stenolog.apps.inspect.query import Query
from stenolog.apps.inspect.reading import markup
from stenolog.apps.inspect.reading.items import LONGEST, LONGEST_OUTPUT, picture_in, reader_of
from stenolog.apps.inspect.reading.turns import marked, marks_in, turn_rows
from stenolog.apps.inspect.request_view.lines import read
from stenolog.apps.views.envelope import Answer
from stenolog.domain.erasure import erasure_of
from stenolog.domain.errors import PositionNotFoundError
from stenolog.domain.events import AssistantMessage
from stenolog.domain.parts import ImagePart
from stenolog.projections.analysis.explain import described, why
from stenolog.projections.analysis.origins import Origin, origins

PIECE = 12
"""Items that the page holds at first, and that its script asks for at once."""
MOST = 60
"""Items that are given at once."""
ROWS = 80
"""Rows of the outline that the page holds at first."""
MOST_ROWS = 500
"""Rows of the outline that are given at once."""
HITS = 200
"""The most entries with some words that are listed."""
LIVE = timedelta(minutes=10)
"""A conversation is read from its end for so long after its last entry, else from its beginning."""


def view(query: Query) -> dict[str, Any]:
    """Return the conversation around a position: the outline, some items, and the marks."""
    talk, index, at = query.conversation, query.index, _start_of(query)
    of = query.word("of") or (index.worker_at(at) if query.word("at") else "")
    listed = index.readable(of)
    at = index.shown_in(at, of) or (listed[place_of(listed, at)] if listed else at)
    words = query.word("q").strip()
    rows = index.outline.rows
    row = max(0, bisect_right(rows, at, key=lambda each: each.position) - 1)
    hits = talk.search(words, limit=HITS) if words else []
    return {
        "title": title_of(talk),
        "head": query.head,
        **_items(query, of, at, at),
        "called_at": index.shown_in(at, "") or at,
        "worker_at": index.worker_at,
        "files": index.files(),
        "is_file": False,
        "row": rows[row].position if rows else 0,
        "hits": hits,
        "words": words,
        **_outline(query, max(0, row - ROWS // 2), ROWS),
        **_marks(query, of, at),
        **_origins(query, at),
    }


def _start_of(query: Query) -> int:
    """Return where to read from: a named place, the end of a live conversation, or its first turn."""
    if turn := query.number("turn", 0):
        turns = query.index.turns[query.index.untold :]
        if turn > len(turns):
            raise PositionNotFoundError(f"turn: expected one up to {len(turns)}, found {turn}")
        return turns[turn - 1].position
    if query.word("at"):
        return query.at
    listed = query.index.readable(query.word("of"))
    if not listed:
        return query.head
    talk = query.conversation
    last = next(each.time for each in backwards(talk, query.head) if erasure_of(each.event) is None)
    first = next((row.position for row in query.index.turns), listed[0])
    # The clock of the machine that wrote it may be some minutes ahead.
    return listed[-1] if abs(datetime.now(UTC) - last) < LIVE else first


def _items(query: Query, of: str, at: int, first: int, count: int = PIECE) -> dict[str, Any]:
    """Return so many items from the one that shows a position on, or from the one before it."""
    listed = query.index.readable(of)
    place = place_of(listed, query.index.shown_in(first, of) or first) if listed else 0
    end = min(len(listed), place + count)
    items = [*reader_of(query).items(listed[place:end])]
    return {
        "name": query.conversation.name,
        "agent": next((item.lane for item in items if item.position == at), query.word("agent")),
        "at": at,
        "of": of,
        "items": items,
        "earlier": listed[max(0, place - count)] if place else 0,
        "later": listed[end] if end < len(listed) else 0,
        "markdown": markup.markdown,
        "code": markup.code,
        "longest": LONGEST,
        "longest_output": LONGEST_OUTPUT,
    }


def items_from(query: Query) -> dict[str, Any]:
    """Return some items: from a position (`first`), or the last ones before one (`until`)."""
    count = min(query.number("count", PIECE), MOST)
    first = query.number("first", 1)
    if query.word("until"):
        listed = query.index.readable(query.word("of"))
        place = bisect_left(listed, query.number("until", 1))
        count = min(count, place)
        first = listed[place - count] if count else 1
    return _items(query, query.word("of"), query.number("at", 1), first, count)


def _outline(query: Query, first: int, count: int) -> dict[str, Any]:
    kinds = marked(query.index, query.open_calls)
    rows = turn_rows(query.index, kinds, first, min(count, MOST_ROWS))
    return {"rows": rows, "total": len(query.index.outline.rows), "name": query.conversation.name}


def outline(query: Query) -> dict[str, Any]:
    """Return some rows of the outline: from an index, or around a position."""
    rows, count = query.index.outline.rows, query.number("count", ROWS)
    first = query.number("index", 0)
    if query.word("around"):
        row = bisect_right(rows, query.number("around", 1), key=lambda each: each.position) - 1
        first = max(0, row - count // 2)
    return {**_outline(query, first, count), "row": 0}


def _marks(query: Query, of: str, at: int) -> dict[str, Any]:
    marks, _ = marks_in(query.index, marked(query.index, query.open_calls), of, at)
    return {"marks": marks, "at": at, "of": of, "name": query.conversation.name}


def marks(query: Query) -> dict[str, Any]:
    """Return the marks, with those nearest to a position."""
    return _marks(query, query.word("of"), query.at)


def _origins(query: Query, at: int) -> dict[str, Any]:
    wanted = query.word("words").strip()
    # They are the model's if they were written after the request.
    is_after = query.at > query.number("view", query.at)
    is_own = is_after and isinstance(query.conversation.entry(query.at).event, AssistantMessage)
    found = _found(query, wanted) if wanted else []
    return {"wanted": wanted, "origins": found, "is_own": is_own, "at": at}


def _found(query: Query, wanted: str) -> list[tuple[Origin, Any]]:
    """Return where words are in the request at `view`, each with the reason for its part."""
    asked = query.asked_request._replace(at=query.number("view", query.at))
    request = asked.request()
    reasons = why(request, read(query.conversation, described(request.parts, ())))
    return [(one, reasons[one.text]) for one in origins(wanted, [reason.text for reason in reasons])]


def where_from(query: Query) -> dict[str, Any]:
    """Return the parts of a request that have some words, with their entries."""
    return {**_origins(query, query.at), "name": query.conversation.name}


def twin(query: Query) -> Answer:
    """Return the data of `timeline --json`."""
    talk = query.conversation
    return Answer({"conversation": talk.name, "items": talk.timeline(at=query.at)})


def picture(query: Query) -> File:
    """Return a picture of an entry: the part with that index. Raises `PositionNotFoundError`."""
    parts = getattr(query.conversation.entry(query.at).event, "parts", ())
    number = query.number("part", 0)
    found = parts[number] if number < len(parts) else None
    content = picture_in(found, query.log.blobs)
    if content and isinstance(found, ImagePart):
        return File(content, type=found.media_type)
    raise PositionNotFoundError(f"part: expected a picture at {query.at}, found none")


page = Page("read", view, twin, link="Read", rank=0)
# Parts of the page, for which its script asks.
piece_fragment = Page("piece", items_from, template="read_items.html")
outline_fragment = Page("outline", outline, template="outline_fragment.html")
marks_fragment = Page("marks", marks, template="read_marks.html")
origins_fragment = Page("origins", where_from, template="origins.html")
pictures = TextPage("picture", picture)
