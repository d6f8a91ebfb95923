"""Surroundings of a request: the call before it, the answer to it, and the bill."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stenolog.adapters.conversation.queries.requests.bills import Answers, bill_by
from stenolog.apps.inspect.query import Query
from stenolog.apps.views.asked_request import AskedRequest
from stenolog.apps.views.caches import cache_line, read_by
from stenolog.apps.views.differences import call_before
from stenolog.apps.views.lanes import lane
from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.projections.analysis.cache.difference import Shared, shared_beginning
from stenolog.projections.analysis.provider_bill import Bill, answer_to, is_asked_before, program_of
from stenolog.projections.requests import Request

BACK = 64
"""So many calls back is one looked for that states what it was billed."""
AHEAD = 2_000
"""So many entries after a request are searched for its answer."""


class Sent(NamedTuple):
    """Surroundings of a request.

    `before` is the position of the request of the call before, 0 without one; `shared` is their common
    beginning. `answer` is what followed, and `bill` its provider's. `cache` says what it read from the prompt
    cache, and why no more.
    """

    before: int
    shared: Shared | None
    answer: Entry | None
    bill: Bill
    cache: str = ""


def explained_and_sent(query: Query) -> tuple[Request, Sent]:
    """Return the request, and what was sent around it.

    The call before is built first: the request is a few entries further.
    """
    calls = query.index.filtered("model calls", query.agent)
    earlier = calls[: bisect_right(calls, query.at)]
    last = _billed(query, reversed(earlier[-BACK:]))
    first = _billed(query, earlier[:BACK]) if last is not None else _billed(query, calls[:BACK])
    before = call_before(query.conversation, query.agent, earlier[-1]) if earlier else 0
    then = _request_at(query, before) if before else None
    request = query.asked_request.request()
    shared = shared_beginning(then, request) if then is not None and then.api == request.api else None
    is_whole = first is None or is_asked_before(query.conversation.entries(), first.position)
    answers = Answers(_answer(query, calls), last, first, _program(query, calls), is_whole)
    followed = answers.own or _error(query, calls)
    billed = bill_by(request, answers, lambda at: _request_at(query, at).at_rate(request.rate).tokens)
    cache = _cache(query, followed)
    return request, Sent(before, shared, followed, billed, cache)


def _cache(query: Query, followed: Entry | None) -> str:
    found = (
        None if followed is None or query.asked_request.is_changed else read_by(query.conversation, followed)
    )
    return "" if found is None else cache_line(found)


def _request_at(query: Query, at: int) -> Request:
    asked = query.asked_request
    return AskedRequest(query.conversation, query.agent, at, asked.api, None, ()).request()


def _billed(query: Query, positions: Iterable[int]) -> Entry | None:
    found = next((position for position in positions if position in query.index.billed), 0)
    return query.conversation.entry(found) if found else None


def _answer(query: Query, calls: Sequence[int]) -> Entry | None:
    at = query.at
    later = calls[bisect_right(calls, at) :][:8]
    if not later or later[0] - at > AHEAD:
        return None
    return answer_to(query.conversation.entries(after=at, at=later[-1]), lane(query.agent), at)


def _error(query: Query, calls: Sequence[int]) -> Entry | None:
    at = query.at
    for position in calls[bisect_right(calls, at) :][:1]:
        entry = query.conversation.entry(position)
        if isinstance(entry.event, LlmError):
            view = entry.event.receipt.view if entry.event.receipt is not None else position - 1
            return entry if view == at else None
    return None


def _program(query: Query, calls: Sequence[int]) -> str:
    for position in reversed(calls[-BACK:]):
        entry = query.conversation.entry(position)
        if isinstance(entry.event, AssistantMessage):
            return program_of([entry], lane(query.agent))
    return ""
