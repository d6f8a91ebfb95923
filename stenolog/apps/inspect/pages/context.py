"""The page of an agent's context over time: a picture, and tables of its largest steps and its cuts."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Any

from markupsafe import Markup

from stenolog.adapters.conversation.queries.requests.curves import read_once, small_curves
from stenolog.apps.inspect.page import Page, has_request
from stenolog.apps.inspect.query import Query
from stenolog.apps.views.envelope import Answer
from stenolog.apps.views.lanes import unrecorded
from stenolog.apps.views.stats import Stats, agent_rows, stats, stats_data
from stenolog.domain.errors import InvalidEventError
from stenolog.projections.context_curve.sparkline import sparkline

PATIENCE = 0.5
"""Seconds that a look measures requests; the page asks again for the rest."""
MOST = 60
"""Rows of marks that the page holds."""


def stats_of(query: Query, at: int, seconds: float = inf) -> Stats:
    """Return the numbers of the conversation up to a position, for the named agent."""
    named = query.agent if query.word("agent") else ""
    return stats(query.conversation, named, at, seconds)


def view(query: Query) -> dict[str, Any]:
    """Return an agent's context up to the end, with the reader's position."""
    talk = query.conversation
    read_once(talk)
    try:
        found = stats_of(query, query.head, PATIENCE)
    except InvalidEventError:
        # Nobody has answered yet: the page of the agent that was asked says so.
        if not query.agent:
            raise
        found = stats(talk, query.agent, query.head, PATIENCE)
    curve = found.curve
    link = partial(request_link, query, found.agent)
    picture = curve.svg(link=link, at=query.at if query.word("at") else 0, standalone=False)
    return {
        "name": talk.name,
        "at": query.at,
        "agent": found.agent,
        "agents": agent_rows(found.used),
        # Made of numbers alone.
        "small": {where: Markup(sparkline(each)) for where, each in small_curves(talk).items()},
        "curve": curve,
        "is_waiting": bool(curve.waiting),
        "largest": curve.largest,
        # Made of numbers and escaped words alone.
        "picture": Markup(picture),
        "measured": len(curve.samples) - curve.waiting,
        "steps": curve.steps(),
        "marks": curve.marks[-MOST:],
        "older_marks": max(0, len(curve.marks) - MOST),
        "notes": [note.message for note in unrecorded(talk, found.agent)],
        "twin": query.link("context.json", agent=found.agent),
    }


def request_link(query: Query, agent: str, at: int) -> str:
    """Return the address of an agent's request."""
    return query.link("request", agent=agent, at=max(at, 1))


def twin(query: Query) -> Answer:
    """Return the data of `cost --context --json`."""
    found = stats_of(query, query.at)
    return Answer(stats_data(found), unrecorded(query.conversation, found.agent))


page = Page("context", view, twin, link="Context", rank=5, applies=has_request)
