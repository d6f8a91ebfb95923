"""The page of what all conversations cost, by project, day, model, agent and tool."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.conversation.queries.overviews import title_of
from stenolog.apps.inspect.page import Page
from stenolog.apps.inspect.query import Query
from stenolog.apps.views.cost_table import reasons_of
from stenolog.apps.views.envelope import Answer

from .cost import table_means

PATIENCE = 0.15
"""Seconds that a look waits for conversations that have grown."""


def is_current(query: Query) -> bool:
    """Return whether all conversations are counted; else that goes on in the background."""
    return query.later("costs", object(), query.costs.update, PATIENCE) is not None


def counted_so_far(query: Query, is_done: bool) -> str:
    """Return how many of the conversations are counted, as "1 of 13"; empty if all are."""
    known, left = len(query.costs.rows), query.costs.due - query.costs.done
    total = max(query.log.count(), known)
    return "" if is_done else f"{min(known, total - left)} of {total}"


def view(query: Query) -> dict[str, Any]:
    """Return the sums of the conversations that are counted, and how many are not yet."""
    is_done = is_current(query)
    waiting: list[str] = []

    def reasons(talk: Conversation) -> Mapping[int, str] | None:
        # One after the other: the page is asked for again until all are there.
        found: Mapping[int, str] | None = None
        if not waiting:
            found = query.later(("reasons", talk.key), talk.position, partial(reasons_of, talk), PATIENCE)
        if found is None:
            waiting.append(talk.name)
        return found

    data = query.costs.data(reasons)
    names = {row["conversation"] for row in data["dearest"]}
    return {
        **data,
        "is_waiting": not is_done or bool(waiting),
        "left": 0 if is_done else query.costs.due - query.costs.done,
        "so_far": counted_so_far(query, is_done),
        "titles": {name: title_of(query.log[name]) for name in names if name in query.log},
        **table_means(query),
    }


def twin(query: Query) -> Answer:
    """Return the data of `cost --report --json`."""
    return Answer(query.costs.update().data())


page = Page("costs", view, twin, of_conversation=False)
