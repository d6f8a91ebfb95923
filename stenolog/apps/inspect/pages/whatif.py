"""The what-if bar: an agent's request under another budget, policy or mode, or with entries hidden or edited.

No model is called, and nothing is written.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlencode

from stenolog.apps.inspect.page import Page, has_request
from stenolog.apps.inspect.query import Query
from stenolog.apps.views.asked_request import AskedRequest, policy_asked, whatif_data
from stenolog.apps.views.envelope import Answer
from stenolog.apps.views.lanes import slip, unrecorded
from stenolog.domain.errors import CallerError
from stenolog.projections.analysis.cache.changes import changes, counted
from stenolog.projections.messages.rules import RULES
from stenolog.projections.requests import Request

MOST = 12
"""The most rows of changes that are shown."""
SHARES = (5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100)
"""The notches of the budget, in percent of the tokens of the real request."""


class Side(NamedTuple):
    """One of the two requests in numbers."""

    tokens: int
    messages: int
    bytes: int
    sendable: bool
    reason: str


def _side(request: Request) -> Side:
    messages = max((part.message for part in request.parts), default=-1) + 1
    return Side(request.tokens, messages, len(request.bytes), request.sendable, request.reason)


def notches(tokens: int) -> list[int]:
    """Return the budgets that the bar has, in two digits each."""
    digits = max(1, 10 ** (len(str(tokens)) - 2))
    return sorted({max(round(tokens * share / 100 / digits), 1) * digits for share in SHARES})


def _expect_notches(query: Query, asked: AskedRequest, real: Request) -> None:
    """Schedule the requests under the budgets of the bar, the largest first."""

    def under(budget: int) -> Request:
        policy = policy_asked(asked.conversation, asked.agent, asked.at, None, str(budget))
        return asked._replace(policy=policy).request()

    steps = (partial(under, budget) for budget in reversed(notches(real.tokens)))
    query.expect(("notches", asked.conversation.key, asked.agent, real.sha256), steps)


def view(query: Query) -> dict[str, Any]:
    """Return both requests in numbers, and what changed, counted by rule."""
    place = {
        "name": query.conversation.name,
        "at": query.at,
        "agent": query.agent,
        "wanted": query.conditions,
        "parameters": urlencode(query.conditions, doseq=True),
    }
    if not query.agent:
        return {**place, "real": None, "problem": "No agent has a request here."}
    try:
        asked = query.asked_request
        real = asked.real().request()
        other = asked.request() if asked.is_changed else real
    except (CallerError, LookupError) as error:  # on its way to what is meant, a field says many things
        return {**place, "real": None, "problem": str(error)}
    _expect_notches(query, asked.real(), real)
    changed = counted(changes(real, other)) if asked.is_changed else []
    return {
        **place,
        "problem": "",
        "real": _side(real),
        "other": _side(other),
        "is_changed": asked.is_changed,
        "same": real is other or (real.bytes == other.bytes and real.ready == other.ready),
        "changed": [(each, RULES.get(each.rule or each.was, "")) for each in changed[:MOST]],
        "more": max(0, len(changed) - MOST),
        "notches": notches(real.tokens),
    }


def twin(query: Query) -> Answer:
    """Return the data of `request --json` with conditions."""
    asked = query.asked_request
    notes = (*slip(asked.conversation, asked.agent), *unrecorded(asked.conversation, asked.agent))
    return Answer(whatif_data(asked, asked.whatif()), notes)


page = Page("whatif", view, twin, link="What if", rank=7, is_more=True, applies=has_request)
fragment = Page("part-whatif", view, template="whatif_sums.html")
