"""The page of recorded calls under another policy or other instructions; no model is called."""

from __future__ import annotations

from typing import Any

from stenolog.apps.inspect.page import Page
from stenolog.apps.inspect.query import Query
from stenolog.apps.views.envelope import Answer
from stenolog.apps.views.retries import Results, effect_in_words, results_data, results_in_words, results_of
from stenolog.domain.errors import CallerError
from stenolog.domain.policy_text import policy_of
from stenolog.projections.analysis.retry import Change

MOST = 200
"""The most calls that are listed."""
PATIENCE_S = 5.0
"""The seconds after which the page is sent without the results."""


def _change(query: Query) -> Change:
    persona, agent = query.word("persona"), query.word("agent")
    card = {"persona": persona} if persona else {}
    return Change(policy_of(query.word("policy") or None), card, agent.partition("/")[0] if card else "")


def view(query: Query) -> dict[str, Any]:
    """Return the calls that would not be the same, and all in numbers."""
    asked = {name: query.word(name) for name in ("policy", "persona", "agent")}
    found, problem = None, ""
    try:
        found = _found(query)
    except CallerError as error:  # on its way to what is meant, a field says many things
        problem = str(error)
    listed = found.listed[:MOST] if found else ()
    return {
        "name": query.conversation.name,
        "at": query.at,
        "agent": query.word("agent"),
        "agents": list(query.index.agents),
        "asked": asked,
        "found": found,
        "problem": problem,
        "words": results_in_words(found) if found else "",
        "lines": [(one, effect_in_words(one)) for one in listed],
        "more": len(found.listed) - len(listed) if found else 0,
    }


def _found(query: Query) -> Results | None:
    change, agent = _change(query), query.word("agent")
    key = ("retry", query.conversation.key, agent, change.in_words, query.word("persona"))
    found: Results | None = query.later(
        key, query.head, lambda: results_of(query.conversation, change, agent), PATIENCE_S
    )
    return found


def twin(query: Query) -> Answer:
    """Return the data of `retry --json`."""
    found = results_of(query.conversation, _change(query), query.word("agent"))
    return Answer(results_data(found), (), found.failed)


def _has_calls(query: Query) -> bool:
    return bool(query.index.agents)


page = Page("retry", view, twin, link="Try a change", rank=8, is_more=True, applies=_has_calls)
