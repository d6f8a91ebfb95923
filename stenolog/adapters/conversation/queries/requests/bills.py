"""The provider's bill for a request of a stored conversation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from stenolog.adapters.store.reading.handle import StreamHandle
from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage
from stenolog.projections.analysis import provider_bill
from stenolog.projections.requests import LaneId, Request

from .building import request as build_request
from .rates import as_billed


def bill_at(conversation: StreamHandle, agent: str, task: str, at: int | None) -> provider_bill.Bill:
    """See `Conversation.bill`."""
    request = as_billed(conversation, build_request(conversation, agent, task, at, None, None))
    return bill_of(conversation, request, list(conversation.entries()))


def missing_of(conversation: StreamHandle, request: Request) -> str:
    """Say what the log lacks of a request, if another program sent it; else ""."""
    entries = list(conversation.entries())
    if not provider_bill.program_of(reversed(entries), LaneId(request.agent, request.task)):
        return ""
    return bill_of(conversation, as_billed(conversation, request), entries).missing


class Answers(NamedTuple):
    """The answers that show a request's bill.

    `own` answers it; `last` is the last billed one before it, `first` the lane's first billed one, `program`
    the one that answers come from. `is_whole`: something was asked before the first.
    """

    own: Entry | None
    last: Entry | None
    first: Entry | None
    program: str
    is_whole: bool


def bill_of(conversation: StreamHandle, request: Request, entries: Sequence[Entry]) -> provider_bill.Bill:
    """Return the bill of a request, else of the last one before it that has one.

    `entries` are the whole conversation.
    """
    lane = LaneId(request.agent, request.task)

    def rebuilt(at: int) -> int:
        api = request.api.partition("@")[0]
        return build_request(conversation, *lane, at, api, None).at_rate(request.rate).tokens

    first = provider_bill.first_answer(entries, lane)
    answers = Answers(
        provider_bill.answer_to(entries, lane, request.at),
        provider_bill.last_answer(entries, lane, request.at),
        first,
        provider_bill.program_of(reversed(entries), lane),
        first is None or provider_bill.is_asked_before(entries, first.position),
    )
    return bill_by(request, answers, rebuilt)


def bill_by(request: Request, answers: Answers, rebuilt: Callable[[int], int]) -> provider_bill.Bill:
    """Return a request's bill from its answers.

    `rebuilt` returns the tokens of the lane's request at an earlier position, at the request's rate.
    """
    answer = answers.own
    has_prompt = any(part.rule == "persona" for part in request.parts)
    has_tools = any(part.role == "tools" and part.rule != "tool-stub" for part in request.parts)
    found = _bill(request, answers, rebuilt)._replace(has_prompt=has_prompt, has_tools=has_tools)
    is_unnamed = request.ready and not request.sendable
    if (
        is_unnamed
        and answer is not None
        and isinstance(answer.event, AssistantMessage)
        and answer.event.model
    ):
        return found._replace(answer=answer.position, model=answer.event.model)
    return found


def _bill(request: Request, answers: Answers, rebuilt: Callable[[int], int]) -> provider_bill.Bill:
    if answers.own is not None and provider_bill.states_input(answers.own.event):
        found = provider_bill.bill(answers.own, request.at, request.size.tokens, is_its_own=True)
    elif answers.last is None:
        return provider_bill.Bill(answers.program)
    else:
        at = answers.last.position - 1
        found = provider_bill.bill(answers.last, at, rebuilt(at), is_its_own=False)
    found, first = found._replace(is_whole=answers.is_whole), answers.first
    if not found.is_short or first is None:
        return found
    if first.position == found.position:
        return found._replace(first=found.tokens - found.rebuilt)
    at = first.position - 1
    then = provider_bill.bill(first, at, rebuilt(at), is_its_own=False)
    return found._replace(first=then.tokens - then.rebuilt)
