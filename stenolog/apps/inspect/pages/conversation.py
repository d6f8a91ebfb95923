"""The page of a conversation: its entries, and beside them one entry and one agent's request."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from functools import partial
from typing import Any

from stenolog.adapters.conversation.queries.folds import SPACING
from stenolog.adapters.conversation.queries.overviews import title_of
from stenolog.adapters.conversation.queries.requests.building import keep_past
from stenolog.apps.inspect.conversation_index import KINDS, nearest
from stenolog.apps.inspect.entries.listing import Listing, forks_of, lanes_of, listing
from stenolog.apps.inspect.entries.rows import MOST, place_of, rows
from stenolog.apps.inspect.entries.ticks import COLUMNS, MOST_POSITIONS, band, drawn, runs_written
from stenolog.apps.inspect.page import Page
from stenolog.apps.inspect.query import Query
from stenolog.apps.inspect.reading import markup
from stenolog.apps.inspect.reading.items import LONGEST, reader_of
from stenolog.apps.views.envelope import Answer
from stenolog.apps.views.lanes import lane
from stenolog.domain.errors import StenologError

from .request import ExplainedRequest, explained_request, fields_of

PAGE = 60
"""Rows of the list that the page holds at first."""
INLINE = 100
"""Up to so many entries the page holds the request itself; beyond them its script asks for it."""
LONG = 1000
"""Entries from which on snapshots of the past are made in advance."""
STRIDE = 256
"""Entries that are taken in at once for that."""
TWIN = 200
"""The entries that the twin gives."""


def view(query: Query) -> dict[str, Any]:
    """Return a conversation at a position: rows around it, the entry, the agents, one agent's request."""
    talk, listed = query.conversation, listing(query)
    is_later = query.at > INLINE
    found, problem = (None, "") if is_later else _request(query)
    marks: Mapping[int, str] = found.marks if found else {}
    place = place_of(listed.positions, query.at)
    first = max(0, min(place - PAGE // 2, len(listed.positions) - PAGE))
    parent = talk.settings().parent
    return {
        "title": title_of(talk),
        "is_later": is_later,
        "parent": parent,
        "lanes": lanes_of(query.index),
        "kinds": list(KINDS),
        "filters": listed.filters,
        **_rows(query, listed, first, PAGE, marks),
        "earlier": listed.positions[max(0, first - PAGE // 2)] if first else 0,
        "later": _later(listed, first + PAGE),
        **ticks_view(query),
        **_card(query),
        **_panel(query, found, problem),
    }


def _later(listed: Listing, place: int) -> int:
    last = len(listed.positions) - 1
    return listed.positions[min(last, place + PAGE // 2)] if place <= last else 0


def _rows(
    query: Query, listed: Listing, first: int, count: int, marks: Mapping[int, str] | None = None
) -> dict[str, Any]:
    talk = query.conversation
    return {
        "name": talk.name,
        "agent": query.agent,
        "at": query.at,
        "total": len(listed.positions),
        "filters": listed.filters,
        "rows": rows(query, listed.positions, first, count, forks_of(talk), marks),
    }


def rows_view(query: Query) -> dict[str, Any]:
    """Return some rows of the list: from an index (`index`), from a position (`first`), or around one."""
    listed, count = listing(query), min(query.number("count", PAGE), MOST)
    if query.word("around"):
        first = place_of(listed.positions, query.number("around", 1)) - count // 2
        first = max(0, min(first, len(listed.positions) - count))
    elif query.word("index"):
        first = query.number("index", 0)
    else:
        first = place_of(listed.positions, max(1, query.number("first", 1)))
    return _rows(query, listed, first, count)


def ticks_view(query: Query) -> dict[str, Any]:
    """Return the marks below the slider, and the positions of the errors."""
    ticks = query.index.ticks(query.open_calls)
    errors = ticks["errors"]
    before, after = nearest(errors, query.at)
    return {
        "name": query.conversation.name,
        "head": query.head,
        "ticks": drawn(ticks, query.head),
        "columns": COLUMNS,
        "errors": errors[:MOST_POSITIONS],
        "error_before": before,
        "error_after": after,
    }


def card_view(query: Query) -> dict[str, Any]:
    """Return one entry whole, with what belongs to it."""
    return {"name": query.conversation.name, "agent": query.agent, "at": query.at, **_card(query)}


def _card(query: Query) -> dict[str, Any]:
    item = reader_of(query).item(query.conversation.entry(query.at))
    return {"item": item, "markdown": markup.markdown, "code": markup.code, "longest": LONGEST}


def _request(query: Query) -> tuple[ExplainedRequest | None, str]:
    try:
        found = explained_request(query), ""
        _expect_steps(query)
        return found
    except StenologError as error:
        return None, str(error)


def _expect_steps(query: Query) -> None:
    """Schedule snapshots for the steps of the slider, from here to the end and then before."""
    talk, agent = query.conversation, query.agent
    if query.head < LONG or not agent:
        return
    places = range(STRIDE, query.head, STRIDE)
    begin = bisect_right(places, query.at - query.at % SPACING)
    steps = (partial(keep_past, talk, *lane(agent), at) for at in (*places[begin:], *places[:begin]))
    query.expect(("past", talk.key, agent, query.head // LONG), steps)


def _panel(query: Query, found: ExplainedRequest | None, problem: str) -> dict[str, Any]:
    marks: Mapping[int, str] = found.marks if found else {}
    return {
        "agents": list(query.index.agents),
        "problem": problem,
        "band": band(marks, query.head),
        "columns": COLUMNS,
        "runs": runs_written(marks),
        **fields_of(query, found),
    }


def panel_view(query: Query) -> dict[str, Any]:
    """Return the request of an agent at a position, and what it makes of each entry."""
    return _panel(query, *_request(query))


def twin(query: Query) -> Answer:
    """Return the data of `log --json`: the last entries up to the position."""
    talk = query.conversation
    entries = list(talk.entries(after=max(0, query.at - TWIN), at=query.at))
    return Answer({"conversation": talk.name, "entries": entries})


page = Page("c", view, twin, template="conversation.html", link="Entries", rank=2)
# Parts of the page, for which its script asks.
rows_fragment = Page("rows", rows_view, template="rows_fragment.html")
ticks_fragment = Page("ticks", ticks_view, template="ticks.html")
card_fragment = Page("card", card_view, template="card.html")
panel_fragment = Page("panel", panel_view, template="panel.html")
