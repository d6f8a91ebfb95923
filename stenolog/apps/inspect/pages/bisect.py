"""The page that finds which entry turned a request, or the kept answers to it; no model is called."""

from __future__ import annotations

from typing import Any, NamedTuple

from stenolog.adapters.asking.answers import version_beside
from stenolog.apps.inspect.page import Page, has_request
from stenolog.apps.inspect.query import Query
from stenolog.apps.views.axes import Axis, case_at, default_ends, is_answered, of_entries
from stenolog.apps.views.bisections import (
    AnswerSearch,
    Judged,
    Tried,
    by_text,
    judged_data,
    sentence,
    tried,
)
from stenolog.apps.views.envelope import Answer
from stenolog.domain.errors import CallerError
from stenolog.projections.analysis.retry import Case

ENDS = ("first", "last")
MOST, CONFIDENCE = 1_000, 0.95
"""The answers to a request that are read at most, and the confidence of what they say."""
PATIENCE_S = 5.0
"""The seconds after which the page is sent without the results."""


def _case(query: Query) -> Case:
    return case_at(query.conversation, query.agent, query.at if query.word("at") else None)


def _axis(query: Query, case: Case) -> Axis:
    ends = default_ends(query.conversation, case)
    first, last = (query.number(name, end) for name, end in zip(ENDS, ends, strict=True))
    return of_entries(query.conversation, case, first, last)


class ShownBisection(NamedTuple):
    """The part of a result that the page shows, without the requests that it was made of."""

    sentence: str
    tried: list[Tried]
    is_found: bool
    is_by_answers: bool


def _for_page(judged: Judged) -> ShownBisection:
    points = [each for each in tried(judged) if each.passed.of]
    return ShownBisection(sentence(judged), points, judged.is_found, judged.confidence is not None)


def _results(query: Query, case: Case) -> list[ShownBisection] | None:
    """Return the result for the text, and what kept answers say; None if that takes too long."""
    holds, version = query.word("holds"), version_beside(query.log)

    def work() -> list[ShownBisection]:
        found = [by_text(_axis(query, case), holds)] if holds else []
        if version and is_answered(case):
            found += filter(None, [AnswerSearch(_axis(query, case), MOST, CONFIDENCE).so_far(query.log)])
        return [*map(_for_page, found)]

    key = ("bisect", query.conversation.key, case.lane.address, case.view, holds, *map(query.word, ENDS))
    found: list[ShownBisection] | None = query.later(key, (query.head, version), work, PATIENCE_S)
    return found


def view(query: Query) -> dict[str, Any]:
    """Return the entry from which on the request, or its answer, is otherwise; and those that were tried."""
    case, found, problem = _case(query), None, ""
    try:
        found = _results(query, case)
    except CallerError as error:
        problem = str(error)
    return {
        "name": query.conversation.name,
        "at": query.at,
        "agent": query.agent,
        "agents": list(query.index.agents),
        "view": case.view,
        "asked": {name: query.word(name) for name in ("holds", *ENDS)},
        "problem": problem,
        "is_waiting": found is None and not problem,
        "results": found or (),
    }


def twin(query: Query) -> Answer:
    """Return the data of `bisect --json`."""
    found = by_text(_axis(query, _case(query)), query.word("holds"))
    return Answer(judged_data(found), (), not found.is_found)


page = Page("bisect", view, twin, link="Find a turn", rank=9, is_more=True, applies=has_request)
