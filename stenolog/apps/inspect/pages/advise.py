"""The page of what would have made a conversation cheaper. It simulates, and calls no model."""

from __future__ import annotations

from functools import partial
from typing import Any

from stenolog.adapters.providers.prices import listed, source, usd
from stenolog.apps.inspect.page import Page
from stenolog.apps.inspect.query import Query
from stenolog.apps.views.advices import advice_data, per_cent, verdict
from stenolog.apps.views.envelope import Answer

PATIENCE = 0.4
"""Seconds that a look works; the page asks again for the rest."""


def view(query: Query) -> dict[str, Any]:
    """Return the advice up to the conversation's end."""
    key, work = ("advice", query.conversation.key), partial(_data, query)
    found: dict[str, Any] | None = query.later(key, query.head, work, PATIENCE)
    return {
        "name": query.conversation.name,
        "at": query.at,
        "agent": query.agent,
        "agents": [{**each, "verdict": verdict(each)} for each in found["agents"]] if found else [],
        "unpriced": found["unpriced"] if found else [],
        "is_waiting": found is None,
        "usd": usd,
        "per_cent": per_cent,
        "prices": source(),
    }


def _data(query: Query) -> dict[str, Any]:
    return advice_data(query.log, [query.conversation], listed())


def twin(query: Query) -> Answer:
    """Return the data of `cost --advise --json`."""
    return Answer(_data(query))


page = Page("advise", view, twin)
