"""The page of certificates: an agent was never sent an entry or a text, or the requests that show it."""

from __future__ import annotations

from typing import Any

from stenolog.apps.inspect.page import Page, has_request
from stenolog.apps.inspect.query import Query
from stenolog.apps.views.certificates import (
    Certified,
    asked_of,
    certificate_data,
    certified,
    limits,
    reasons,
    statement,
)
from stenolog.apps.views.envelope import Answer
from stenolog.apps.views.positions import is_number
from stenolog.domain.errors import InvalidEventError

MOST = 200
"""Requests that are listed."""
HEADS = ("from", "to")


def _found(query: Query) -> Certified:
    never, first, last = (query.word(name) for name in ("never", *HEADS))
    asked = asked_of(query.conversation, [never], first, last, lambda word: _position(query, word))
    return certified(query.conversation, query.agent, asked)


def _position(query: Query, written: str) -> int:
    if not is_number(written):
        raise InvalidEventError(f"expected entries such as 3 or 5-7, found {written!r:.60}")
    return query.conversation.checked(int(written), least=1)


def view(query: Query) -> dict[str, Any]:
    """Return a certificate, or why there is none; only the question if nothing is asked."""
    found = _found(query) if query.word("never") else None
    shown = [
        (part.conversation, *each) for part in (found.parts if found else ()) for each in reasons(part.found)
    ]
    return {
        "name": query.conversation.name,
        "at": query.at,
        "agent": query.agent,
        "agents": list(query.index.agents),
        "asked": {name: query.word(name) for name in ("never", *HEADS)},
        "found": found,
        "statement": statement(found) if found else "",
        "limits": limits(found) if found else [],
        "shown": shown[:MOST],
        "more": max(0, len(shown) - MOST),
    }


def twin(query: Query) -> Answer:
    """Return the data of `certify --json`."""
    found = _found(query)
    return Answer(certificate_data(found), failed=not found.is_given)


page = Page("certify", view, twin, link="Never sent", rank=10, is_more=True, applies=has_request)
