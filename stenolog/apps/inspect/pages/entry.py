"""The page of an entry: who asked for it, its requests, what it changed, what it refers to, its fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic_core import to_json

from stenolog.adapters.conversation.queries.plain_json import entry_data
from stenolog.apps.inspect.entries.rows import row
from stenolog.apps.inspect.page import Page
from stenolog.apps.inspect.query import Query
from stenolog.apps.views.entries import bill_of_answer, explained, explanation_data, rebuilt_notes
from stenolog.apps.views.envelope import Answer
from stenolog.domain.errors import StenologError
from stenolog.domain.events import AssistantMessage
from stenolog.projections.analysis.blame import Blame, blame
from stenolog.projections.analysis.explain import Explanation
from stenolog.projections.analysis.provider_bill import NO_BILL, Bill
from stenolog.projections.messages.rules import RULES
from stenolog.projections.views.lines import describe

LONGEST = 50_000
"""The most letters of an entry that the page holds."""
AHEAD = 2_000
"""So many entries after it are looked at for requests that it is in, unless `upto` says how far."""


class EntryHistory(NamedTuple):
    """History of an entry; `error` says why there is none.

    `bill` is that of the request that it answers, if another program sent it.
    """

    explanation: Explanation | None
    error: str = ""
    asked: Blame = Blame(())
    bill: Bill = NO_BILL


def view(query: Query) -> dict[str, Any]:
    """Return one entry and its history, which comes last: it may take a while."""
    talk, at = query.conversation, query.at
    entry = talk.entry(at)
    data = entry_data(entry)
    upto = min(query.head, max(at, query.number("upto", at + AHEAD)))
    return {
        "name": talk.name,
        "at": at,
        "agent": query.word("agent"),
        "head": query.head,
        "upto": upto,
        "row": row(entry),
        "is_answer": isinstance(entry.event, AssistantMessage) and entry.event.purpose == "answer",
        "words": describe(entry).what,
        "entry": data,
        "event": written(data["event"]),
        "longest": LONGEST,
        "histories": _histories(query, upto),
        "rules": RULES,
    }


def _histories(query: Query, upto: int) -> Iterator[EntryHistory]:
    talk = query.conversation
    try:
        explanation = explained(talk, talk.entries(at=upto), query.at)
        yield EntryHistory(explanation, "", _chain_of(query), bill_of_answer(talk, explanation.entry))
    except StenologError as error:
        yield EntryHistory(None, str(error))


def _chain_of(query: Query) -> Blame:
    return blame(query.conversation.entries(at=query.head), query.at)


def asked_view(query: Query) -> dict[str, Any]:
    """Return the chain from an entry's calls back to a person."""
    return {"name": query.conversation.name, "at": query.at, "asked": _chain_of(query)}


def written(value: object) -> str:
    """Return JSON as people read it."""
    return to_json(value, indent=2).decode()


def twin(query: Query) -> Answer:
    """Return the data of `explain entry --json`."""
    talk = query.conversation
    explanation = explained(talk, talk.entries(at=query.head), query.at)
    billed = bill_of_answer(talk, explanation.entry)
    data = explanation_data(talk, query.head, explanation, _chain_of(query), billed)
    return Answer(data, rebuilt_notes(talk, explanation))


page = Page("entry", view, twin, streams=True)
asked_fragment = Page("asked", asked_view)
