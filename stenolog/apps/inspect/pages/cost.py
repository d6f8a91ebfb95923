"""The page of what a conversation cost: sums, the curve with cache misses, the dearest requests."""

from __future__ import annotations

from functools import partial
from typing import Any

from markupsafe import Markup

from stenolog.adapters.providers.prices import listed, source, usd
from stenolog.apps.inspect.page import Page
from stenolog.apps.inspect.query import Query
from stenolog.apps.views.caches import calls_of, cause_words
from stenolog.apps.views.costs import cost_report, report_data
from stenolog.apps.views.envelope import Answer
from stenolog.apps.views.figures import known_usd, short_folder
from stenolog.apps.views.stats import Stats, has_calls, stats
from stenolog.projections.analysis.cache.calls import CacheCall
from stenolog.projections.context_curve.plot import Note
from stenolog.projections.views.spending import Spending

from .context import request_link

PATIENCE = 0.4
"""Seconds that a look works; the page asks again for the rest."""
ROWS = 12
"""The rows that are shown of each axis, unless all are asked for."""


def view(query: Query) -> dict[str, Any]:
    """Return the costs of a conversation up to its end."""
    talk, prices = query.conversation, listed()
    place = {"name": talk.name, "at": query.at, **table_means(query)}
    found = query.later(("spending", talk.key), query.head, partial(_spending, query), PATIENCE)
    # A conversation may grow faster than it is counted.
    found = found or query.last(("spending", talk.key))
    if found is None:
        return {**place, "agent": query.agent, "total": None, "is_waiting": True}
    numbers = stats(talk, _agent(query), query.head, PATIENCE) if has_calls(talk) else None
    work = partial(calls_of, talk)
    calls: list[CacheCall] | None = query.later(("cache", talk.key), query.head, work, PATIENCE)
    is_old = calls is None or found.position < query.head
    calls = query.last(("cache", talk.key)) if calls is None else calls
    data = report_data(talk.name, found, calls or [], numbers, prices)
    misses = sorted(
        (call for call in calls or [] if call.is_miss), key=lambda call: -(call.cost(prices) or 0)
    )
    return {
        **data,
        **place,
        "agent": data["agent"],
        "agents": [row["name"] for row in data["by"]["agent"]],
        "picture": _picture(query, numbers, misses),
        "causes": {
            call.position: cause_words(call.cause).partition("; `stenolog tap`")[0] for call in misses
        },
        "misses": sorted(data["misses"], key=lambda miss: -(miss["cost_micro_usd"] or 0)),
        "counted": found.position if found.position < query.head else 0,
        "is_waiting": is_old or bool(numbers and numbers.curve.waiting),
        "gone": numbers.unexplained if numbers else None,
    }


def table_means(query: Query) -> dict[str, Any]:
    """Return what tables of costs are drawn with."""
    return {
        "by_all": query.word("by"),
        "most": ROWS,
        "usd": usd,
        "known_usd": known_usd,
        "folder": short_folder,
        "prices": source(),
    }


def _spending(query: Query) -> Spending:
    """Return the sums of a conversation; update the fold that the rest of the page reads."""
    has_calls(query.conversation)
    return query.costs.spending(query.conversation)


def _agent(query: Query) -> str:
    return query.agent if query.word("agent") else ""


def _picture(query: Query, numbers: Stats | None, misses: list[CacheCall]) -> Markup | None:
    """Return the curve with the misses of its agent; None without a call."""
    if numbers is None or not numbers.curve.samples:
        return None
    agent = numbers.agent
    notes = [_note(call) for call in misses if call.lane == agent]

    link = partial(request_link, query, agent)
    # Made of numbers and escaped words.
    return Markup(numbers.curve.svg(link=link, standalone=False, notes=notes))


def _note(call: CacheCall) -> Note:
    cost = call.cost(listed())
    price = f"{call.missed:,} tokens" if cost is None else f"{usd(cost)} USD"
    return Note(call.position, price, call.cause.kind.removesuffix(" from this log"))


def twin(query: Query) -> Answer:
    """Return the data of `cost --report --json`."""
    return Answer(cost_report(query.conversation, listed(), _agent(query)))


page = Page("cost", view, twin, link="Cost", rank=2, applies=lambda query: bool(query.index.of_kind("ase")))
