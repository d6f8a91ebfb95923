"""The page of recorded calls under another policy or other instructions; no model is called."""

from __future__ import annotations

from typing import Any

from stenolog.adapters.asking.answers import version_beside
from stenolog.adapters.providers.prices import usd
from stenolog.apps.inspect.page import Page, has_request
from stenolog.apps.inspect.query import Query
from stenolog.apps.views.asked_again import AskedAgain, kept_again, rows, verdict_in_words, worst
from stenolog.apps.views.envelope import Answer
from stenolog.apps.views.retries import (
    Results,
    corpus_of,
    effect_in_words,
    results_data,
    results_in_words,
    results_of,
)
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
    found, again, problem = None, None, ""
    try:
        if (done := _found(query)) is not None:
            found, again = done
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
        "again": again,
        "verdict": verdict_in_words(again) if again else "",
        "rows": rows(again.judged) if again and again.judged else [],
        "worst": worst(again) if again else [],
        "spent": usd(again.micro_usd) if again else "",
        "more": len(found.listed) - len(listed) if found else 0,
    }


def _found(query: Query) -> tuple[Results, AskedAgain | None] | None:
    change, agent = _change(query), query.word("agent")

    def work() -> tuple[Results, AskedAgain | None]:
        corpus = corpus_of(query.conversation, agent)
        return results_of(corpus, change), kept_again(corpus, change)

    key = ("retry", query.conversation.key, agent, change.in_words, query.word("persona"))
    version = (query.head, version_beside(query.log))
    found: tuple[Results, AskedAgain | None] | None = query.later(key, version, work, PATIENCE_S)
    return found


def twin(query: Query) -> Answer:
    """Return the data of `retry --json`."""
    found = results_of(corpus_of(query.conversation, query.word("agent")), _change(query))
    return Answer(results_data(found), (), found.failed)


page = Page("retry", view, twin, link="Try a change", rank=8, is_more=True, applies=has_request)
