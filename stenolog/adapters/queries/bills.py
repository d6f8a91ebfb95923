"""The provider's bill for a request of a stored conversation."""

from __future__ import annotations

from collections.abc import Sequence

from stenolog.adapters.store.handle import StreamHandle
from stenolog.domain.entry import Entry
from stenolog.projections.analysis.provider_bill import Bill, answer_to, bill, last_answer, program_of
from stenolog.projections.requests import LaneId, Request

from .requests import request as build_request


def bill_of(conversation: StreamHandle, request: Request, entries: Sequence[Entry]) -> Bill:
    """Return the bill for a request, else for the last one before it that has a bill.

    `entries` are all of the conversation.
    """
    lane = LaneId(request.agent, request.task)
    answer = answer_to(entries, lane, request.at)
    if answer is not None:
        return bill(answer, request.at, request.size.tokens, is_its_own=True)
    answer = last_answer(entries, lane, request.at)
    if answer is None:
        return Bill(program_of(entries, lane))
    at = answer.position - 1
    before = build_request(conversation, lane.agent, lane.task, at, request.api.partition("@")[0], None)
    return bill(answer, at, before.size.tokens, is_its_own=False)
