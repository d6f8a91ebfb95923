"""The provider's bill for a request of a stored conversation."""

from __future__ import annotations

from collections.abc import Sequence

from stenolog.adapters.store.handle import StreamHandle
from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage
from stenolog.projections.analysis.provider_bill import (
    Bill,
    answer_to,
    bill,
    last_answer,
    program_of,
    states_input,
    usual_api,
)
from stenolog.projections.requests import LaneId, Request

from .requests import request as build_request


def bill_at(conversation: StreamHandle, agent: str, task: str, at: int | None) -> Bill:
    """See `Conversation.bill`."""
    entries = list(conversation.entries())
    api = usual_api(reversed(entries), LaneId(agent, task))
    return bill_of(conversation, build_request(conversation, agent, task, at, api, None), entries)


def bill_of(conversation: StreamHandle, request: Request, entries: Sequence[Entry]) -> Bill:
    """Return the bill for a request, else for the last one before it that has a bill.

    `entries` are all of the conversation.
    """
    lane = LaneId(request.agent, request.task)
    answer = answer_to(entries, lane, request.at)
    has_prompt = any(part.rule == "persona" for part in request.parts)
    has_tools = any(part.role == "tools" and part.rule != "tool-stub" for part in request.parts)
    found = _bill(conversation, request, entries, answer)._replace(has_prompt=has_prompt, has_tools=has_tools)
    is_unnamed = request.ready and not request.sendable
    if (
        is_unnamed
        and answer is not None
        and isinstance(answer.event, AssistantMessage)
        and answer.event.model
    ):
        return found._replace(answer=answer.position, model=answer.event.model)
    return found


def _bill(
    conversation: StreamHandle, request: Request, entries: Sequence[Entry], answer: Entry | None
) -> Bill:
    lane = LaneId(request.agent, request.task)
    if answer is not None and states_input(answer.event):
        return bill(answer, request.at, request.size.tokens, is_its_own=True)
    billed = last_answer(entries, lane, request.at)
    if billed is None:
        return Bill(program_of(reversed(entries), lane))
    at = billed.position - 1
    before = build_request(conversation, lane.agent, lane.task, at, request.api.partition("@")[0], None)
    return bill(billed, at, before.size.tokens, is_its_own=False)
