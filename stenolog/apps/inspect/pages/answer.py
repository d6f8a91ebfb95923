"""The page of an answer: the parts that it can depend on, and what kept answers say; no model is called."""

from __future__ import annotations

from typing import Any

from stenolog.apps.inspect.page import Page
from stenolog.apps.inspect.query import Query
from stenolog.apps.views.answer_causes import (
    AnswerCauses,
    answer_in_parts,
    causes_data,
    causes_so_far,
    effects,
    last_answer,
)
from stenolog.apps.views.envelope import Answer
from stenolog.apps.views.lanes import unrecorded
from stenolog.projections.analysis.retry.halving import Terms, most_requests
from stenolog.projections.analysis.retry.leaving_out import in_words

LONGEST = 300
"""The most characters that are shown of a part."""
PATIENCE_S = 5.0
"""The seconds after which the page is sent without what kept answers say."""


def view(query: Query) -> dict[str, Any]:
    """Return the parts of an answer's request, and the effect of leaving some out."""
    at, terms = _answered(query), Terms()
    whole = answer_in_parts(query.conversation, at)
    key = ("answer", query.conversation.key, at)
    causes = query.later(key, query.head, lambda: _causes(query), PATIENCE_S)
    requests = most_requests(len(whole.parts))
    return {
        "name": query.conversation.name,
        "at": at,
        "agent": whole.case.lane.address,
        "whole": whole,
        "causes": causes,
        "found": causes and causes.found,
        "effects": [(one, in_words(one.parts)) for one in effects(causes, terms.confidence)]
        if causes
        else [],
        "longest": LONGEST,
        "requests": requests,
        "samples": terms.samples,
        "calls": requests * terms.samples,
    }


def _answered(query: Query) -> int:
    """Return the position of the answer that is asked about: the last one up to there, else the first."""
    return last_answer(query.conversation, None, query.at)


def _causes(query: Query) -> AnswerCauses:
    return causes_so_far(query.conversation, answer_in_parts(query.conversation, _answered(query)))


def twin(query: Query) -> Answer:
    """Return the data of `explain answer --json`."""
    causes = _causes(query)
    notes = unrecorded(query.conversation, causes.whole.case.lane.address)
    return Answer(causes_data(query.conversation, causes, Terms()), notes)


page = Page("answer", view, twin)
