"""Outcomes of model and tool calls, as other programs send them, made into events."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import to_json

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.conversation.queries import folds
from stenolog.adapters.conversation.queries.plain_json import event_from_json
from stenolog.adapters.engine.handoff import absent, handoff_message
from stenolog.adapters.engine.model_calls.model_call import CATEGORIES, classify_error
from stenolog.adapters.engine.model_calls.retries import RetryPolicy
from stenolog.adapters.models.by_hand import answer_from, recording, with_own_names
from stenolog.adapters.providers.errors import provider_error, retry_after
from stenolog.adapters.tools.base import ToolOutput
from stenolog.adapters.tools.calls import with_metadata
from stenolog.adapters.tools.results import redacted_output, result_of
from stenolog.domain.base.model import first_error
from stenolog.domain.entry import NewEntry
from stenolog.domain.errors import InvalidEventError, ModelError
from stenolog.domain.events import AssistantMessage, Event, LlmError, ToolResult, UserMessage
from stenolog.domain.lanes.handoffs import result_mark
from stenolog.domain.lanes.limits import Limits
from stenolog.domain.lanes.state import OpenCall
from stenolog.domain.parts import ToolCall
from stenolog.domain.values import CallRef, Control, Receipt, Tool, ToolQuestion
from stenolog.projections.messages.identifiers import renamed_tools

from .messages import NewEvent
from .runner_messages import AskedQuestion, CallOutput, Failure, Outcome

RECEIPT = folds.Json(Receipt)
RETRIES = RetryPolicy()
KINDS = ("response", "chunks", "failure", "output", "question", "events")


class ModelCall(NamedTuple):
    """A model call whose outcome is told: whose it was, what it answers (`cause`), and its attempt.

    `retried`: the retry policy sets the next attempt's time. `model` and `tools` are the card's.
    """

    agent: str
    task: str = ""
    receipt: Receipt | None = None
    cause: int | None = None
    attempt: int = 1
    retried: bool = True
    model: str = ""
    tools: Sequence[Tool] = ()


def new_entries(events: Sequence[NewEvent]) -> list[NewEntry]:
    """Return events as new entries. Raises `InvalidEventError`, with the place."""
    entries = []
    for index, each in enumerate(events):
        try:
            entries.append(NewEntry(event_from_json(each.kind, each.event), each.id, each.time))
        except InvalidEventError as error:
            raise InvalidEventError(f"/events/{index}: {error}") from None
    return entries


def given_fields(outcome: Outcome) -> frozenset[str]:
    """Return an outcome's fields. Raises `InvalidEventError` if they do not go together."""
    found = frozenset(name for name in KINDS if getattr(outcome, name) is not None)
    if len(found) != 1 and found != {"chunks", "failure"}:
        named = ", ".join(sorted(found)) or "none"
        raise InvalidEventError(f"/outcome: expected one of {', '.join(KINDS)}, found {named}")
    return found


def question_event(asked: AskedQuestion, lane: str, call: CallRef, cause: int) -> UserMessage:
    """Return the message by which a tool asks a person. Raises `InvalidEventError`."""
    if not asked.text.strip():
        raise InvalidEventError("/outcome/question/text: expected a question, found none")
    question = ToolQuestion(text=asked.text, choices=tuple(asked.choices), expects=asked.expects)
    control = Control(action="ask", call=call, question=question)
    return UserMessage(author=lane, author_kind="agent", control=control, cause=cause)


def receipt_from(fields: Mapping[str, Any] | None) -> Receipt | None:
    """Return a request's receipt. Raises `InvalidEventError`."""
    if fields is None:
        return None
    try:
        return RECEIPT.load(to_json(dict(fields)))
    except ValidationError as error:
        raise InvalidEventError(f"/receipt: {first_error(error, Receipt)}") from None


def limits_from(fields: Mapping[str, Any] | None) -> Limits:
    """Return the limits of a runner. Raises `InvalidEventError`."""
    try:
        return Limits(**fields or {})
    except TypeError as error:
        raise InvalidEventError(f"/limits: {error}") from None


def model_event(outcome: Outcome, call: ModelCall, now: datetime) -> AssistantMessage | LlmError:
    """Return a model call's event: the answer, or the failure with what had arrived.

    An empty answer, or a stream without an end, is a failure. Raises `InvalidEventError` for another outcome,
    and `CallerError` for JSON of no known provider.
    """
    found = given_fields(outcome)
    if not found <= {"response", "chunks", "failure"}:
        raise InvalidEventError(f"/outcome: expected response, chunks or failure, found {min(found)}")
    stream = recording(outcome.chunks or [], agent=call.agent, task=call.task)
    try:
        # An error that the provider sends within its stream is raised here.
        for _ in stream:
            pass
        if outcome.failure is not None:
            raise _model_error(outcome.failure)
        answer = (
            stream.answer()
            if outcome.response is None
            else answer_from(outcome.response, agent=call.agent, task=call.task)
        )
    except ModelError as error:
        failed = stream.error(error, attempt=call.attempt)
        return replace(failed, receipt=call.receipt, cause=call.cause, retry_at=_retry_at(error, call, now))
    answer = with_own_names(answer, renamed_tools(call.tools))
    return replace(answer, receipt=call.receipt, cause=call.cause, model=answer.model or call.model)


def _model_error(failure: Failure) -> ModelError:
    headers = {name.lower(): value for name, value in failure.headers.items()}
    found = provider_error(failure.status, failure.code, failure.message, headers=headers)
    if not failure.category:
        return found
    if failure.category not in CATEGORIES:
        raise InvalidEventError(
            f"/outcome/failure/category: expected one of {', '.join(CATEGORIES)}, "
            f"found {failure.category!r:.60}"
        )
    after, status = retry_after(headers), failure.status
    return ModelError(failure.category, found.message, retry_after=after, status=status)


def _retry_at(error: ModelError, call: ModelCall, now: datetime) -> datetime | None:
    if not call.retried:
        return None
    category, _, after = classify_error(error)
    wait = RETRIES.wait(category, call.attempt, random.random(), after)
    return None if wait is None else now + timedelta(seconds=wait)


def tool_event(
    conversation: Conversation, output: CallOutput, call: ToolCall, where: CallRef, open_call: OpenCall | None
) -> ToolResult:
    """Return the result of a tool call; a very long text becomes a blob. Raises `InvalidEventError`.

    `open_call` is the call in the state, None if closed.
    """
    if output.parts:
        left_out = {"text", "duration_ms", "hands_on_to", "message"}
        fields = output.model_dump(exclude=left_out, exclude_defaults=True)
        named = {"call_id": call.id, "call": {"entry": where.entry, "index": where.index}, "name": call.name}
        event: Event = event_from_json("tool_result", fields | named)
        assert isinstance(event, ToolResult), "made of that kind"
        return replace(event, duration_ms=output.duration_ms)
    result = ToolOutput((output.text,), output.is_error, output.meta)
    if open_call is not None:
        result = with_metadata(result, call, open_call)
    edge, put = conversation.log.edge, conversation.log.blobs.put
    result = redacted_output(result, edge.redact) if edge.redact else result
    return result_of(result, call.id, where, call.name, put, output.duration_ms)


def handing_on(
    conversation: Conversation, output: CallOutput, result: ToolResult, lane: str, position: int
) -> tuple[Event, ...]:
    """Return a result, and the message to the agent that takes over, if any. Raises `InvalidEventError`."""
    if not (to := output.hands_on_to):
        return (result,)
    assert result.call is not None, "results of claims name their calls"
    if wrong := "a call that failed" if result.is_error else absent(conversation, lane.partition("/")[0], to):
        raise InvalidEventError(f"/outcome/output/hands_on_to: expected another agent of the talk: {wrong}")
    marked = replace(result, meta={**result.meta, **result_mark(to)})
    return marked, handoff_message(lane, to, output.message, position, result.call.index)
