"""The page of runs side by side: `run=` names them, two or more, in the order of the address."""

from __future__ import annotations

from typing import Any

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.conversation.queries.overviews import title_of
from stenolog.apps.inspect.page import Page
from stenolog.apps.inspect.query import Query
from stenolog.apps.views.envelope import Answer
from stenolog.apps.views.runs import How, TwoRuns, many_runs, many_runs_data, two_runs, two_runs_data
from stenolog.domain.errors import ConversationNotFoundError
from stenolog.projections.requests import lanes

from .diff import WIDTH, bars, shown_changes

LISTED = 200
"""The newest conversations, of which one may choose."""


def asked_runs(query: Query) -> list[Conversation]:
    """Return the conversations that the address names. Raises `ConversationNotFoundError`."""
    found = [query.log[name] for name in query.values("run")]
    for talk in found:
        if not talk.position:
            raise ConversationNotFoundError(f"{talk.name!r}: no such conversation")
    return found


def _how(query: Query) -> How:
    return How(query.word("agent"), bool(query.word("calls")), bool(query.word("loosely")))


def view(query: Query) -> dict[str, Any]:
    """Return the runs that are compared, and those to choose from."""
    runs, how = asked_runs(query), _how(query)
    known = [talk.name for talk in runs]
    choices = [*known, *(name for name in query.log.names(limit=LISTED, order="latest") if name not in known)]
    agents = sorted({lane.agent for talk in runs for lane in lanes(talk.entries())})
    shown: dict[str, Any] = {
        "runs": known,
        "choices": [(name, title_of(query.log[name])) for name in choices],
        "agents": agents,
        "how": how,
        "two": None,
        "many": None,
    }
    if len(runs) > 2:
        return shown | {"many": many_runs(runs, how)}
    if len(runs) < 2:
        return shown
    two = two_runs(runs[0], runs[1], how)
    return shown | {"two": two, **_requests(two, runs)}


def _requests(two: TwoRuns, runs: list[Conversation]) -> dict[str, Any]:
    if two.requests is None:
        return {}
    return {
        "width": WIDTH,
        "bars": bars(two.requests),
        "lines": shown_changes(two.requests, runs[0], runs[1]),
    }


def twin(query: Query) -> Answer:
    """Return the data of `compare --json`."""
    runs, how = asked_runs(query), _how(query)
    if len(runs) == 2:
        return Answer(two_runs_data(two_runs(runs[0], runs[1], how)))
    return Answer(many_runs_data(many_runs(runs, how)) if runs else None)


page = Page("compare", view, twin, of_conversation=False)
