"""The page that finds which entry brought a text into a request, or took it; no model is called."""

from __future__ import annotations

from typing import Any

from stenolog.apps.inspect.page import Page, has_request
from stenolog.apps.inspect.query import Query
from stenolog.apps.views.axes import case_at, of_entries
from stenolog.apps.views.bisections import Judged, by_text, judged_data, sentence, tried
from stenolog.apps.views.envelope import Answer
from stenolog.domain.errors import CallerError
from stenolog.projections.analysis.retry import Case

ENDS = ("first", "last")


def _case(query: Query) -> Case:
    return case_at(query.conversation, query.agent, query.at if query.word("at") else None)


def _found(query: Query, case: Case) -> Judged:
    first, last = (
        query.number(name, default) for name, default in zip(ENDS, (1, case.view - 1), strict=True)
    )
    return by_text(of_entries(query.conversation, case, first, last), query.word("holds"))


def view(query: Query) -> dict[str, Any]:
    """Return the entry from which on the request holds the text, or no longer; and those that were tried."""
    case, found, problem = _case(query), None, ""
    if query.word("holds"):
        try:
            found = _found(query, case)
        except CallerError as error:
            problem = str(error)
    return {
        "name": query.conversation.name,
        "at": query.at,
        "agent": query.agent,
        "agents": list(query.index.agents),
        "view": case.view,
        "asked": {name: query.word(name) for name in ("holds", *ENDS)},
        "found": found,
        "problem": problem,
        "sentence": sentence(found) if found else "",
        "tried": [each for each in tried(found) if each.passed.of] if found else [],
    }


def twin(query: Query) -> Answer:
    """Return the data of `bisect --json`."""
    found = _found(query, _case(query))
    return Answer(judged_data(found), (), not found.is_found)


page = Page("bisect", view, twin, link="Find a turn", rank=9, is_more=True, applies=has_request)
