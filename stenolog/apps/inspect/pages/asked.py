"""The page of a call's cause: the chain back to the words of a person."""

from __future__ import annotations

from typing import Any

from stenolog.apps.inspect.page import Page
from stenolog.apps.inspect.query import Query
from stenolog.apps.views.envelope import Answer
from stenolog.projections.analysis.blame import Blame, blame


def _found(query: Query) -> Blame:
    return blame(query.conversation.entries(), query.at)


def view(query: Query) -> dict[str, Any]:
    """Return the chain from an entry's calls back to a person."""
    return {"name": query.conversation.name, "at": query.at, "found": _found(query)}


def twin(query: Query) -> Answer:
    """Return the data of `explain call --json`."""
    return Answer({"conversation": query.conversation.name, **_found(query)._asdict()})


page = Page("asked", view, twin)
