"""The page that finds which entry turned a request, or the kept answers to it; no model is called."""

from __future__ import annotations

from typing import Any

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
"""The seconds after which the page is sent without what kept answers say."""


def _case(query: Query) -> Case:
    return case_at(query.conversation, query.agent, query.at if query.word("at") else None)


def _axis(query: Query, case: Case) -> Axis:
    ends = default_ends(query.conversation, case)
    first, last = (query.number(name, end) for name, end in zip(ENDS, ends, strict=True))
    return of_entries(query.conversation, case, first, last)


def _kept(query: Query, case: Case) -> Judged | None:
    """Return what kept answers say, if there are any."""
    version = version_beside(query.log)
    if not version or not is_answered(case):
        return None
    key = ("bisect", query.conversation.key, case.lane.address, case.view, *map(query.word, ENDS))

    def work() -> tuple[Judged | None]:
        return (AnswerSearch(_axis(query, case), MOST, CONFIDENCE).so_far(query.log),)

    found = query.later(key, (query.head, version), work, PATIENCE_S)
    return found[0] if found else None


def view(query: Query) -> dict[str, Any]:
    """Return the entry from which on the request, or its answer, is otherwise; and those that were tried."""
    case, found, kept, problem = _case(query), None, None, ""
    try:
        found = by_text(_axis(query, case), query.word("holds")) if query.word("holds") else None
        kept = _kept(query, case)
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
        "results": [(each, sentence(each), _tried(each)) for each in (found, kept) if each],
    }


def _tried(found: Judged) -> list[Tried]:
    return [each for each in tried(found) if each.passed.of]


def twin(query: Query) -> Answer:
    """Return the data of `bisect --json`."""
    found = by_text(_axis(query, _case(query)), query.word("holds"))
    return Answer(judged_data(found), (), not found.is_found)


page = Page("bisect", view, twin, link="Find a turn", rank=9, is_more=True, applies=has_request)
