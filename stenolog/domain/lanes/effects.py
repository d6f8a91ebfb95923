"""Effects: what lanes decided, as work to do, and its results as events.

Pure: the engine does an effect, under a claim of its name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from stenolog.domain.entry import Entry
from stenolog.domain.events import LATE, AssistantMessage, ErrorCategory, LlmError, ToolResult, UserMessage
from stenolog.domain.parts import AssistantPart, TextPart
from stenolog.domain.values import CallRef, Control, Receipt, ToolQuestion

from .state import LaneState, OpenCall, State, address, decision, named_call

MODEL = "model"
UNKNOWN: dict[str, Any] = {"stenolog": {"outcome": "unknown"}}
"""Metadata of a tool result that marks a call of unknown outcome."""


class CallModel(NamedTuple):
    """A lane's model is to answer `cause`, not before `time`."""

    lane: LaneState
    cause: int
    attempt: int = 1
    time: datetime | None = None
    name: str = MODEL


class RunTool(NamedTuple):
    """One call of a lane's last answer is to be run."""

    lane: LaneState
    call: OpenCall

    @property
    def name(self) -> str:
        """The name that the effect is claimed by: the answer's position, and the call's index."""
        # By its place, since a model may give two calls the same id.
        return f"tool {self.call.position}/{self.call.nth}"

    @property
    def cause(self) -> int:
        """The position of the answer that made the call."""
        return self.call.position


Effect: TypeAlias = CallModel | RunTool
EffectResult: TypeAlias = AssistantMessage | LlmError | ToolResult | UserMessage
"""The entry by which an effect ends; a message is a tool's question: once answered, the call runs again."""


def effects(state: State) -> list[Effect]:
    """Return the next effects of every lane; lanes that wait or stop have none."""
    due: list[Effect] = []
    for lane in state.lanes.values():
        next_is = decision(state, lane)
        match next_is.do:
            case "call_model":
                due.append(CallModel(lane, next_is.cause, next_is.attempt, next_is.time))
            # Calls that wait for no person do not wait for the others.
            case "run_tools" | "ask_approval":
                due.extend(RunTool(lane, call) for call in lane.calls if not call.waits)
            case _:
                pass
    return due


def is_still_needed(state: State, effect: Effect) -> bool:
    """Return whether a started effect is still needed: its lane runs, its call is open."""
    if isinstance(effect, RunTool):
        return named_call(state, ref(effect.call)) is not None
    return state.lane(effect.lane.address).status == "awaiting_llm"


def as_recorded(result: EffectResult, *, is_wanted: bool) -> EffectResult:
    """Return an effect's result as it is recorded; `is_wanted`: no entry has stopped the effect since."""
    if is_wanted:
        return result
    match result:
        case UserMessage():
            # For the timeline only: a call that was stopped asks nobody any more.
            asked = result.control.question if result.control else None
            parts = (TextPart(text=asked.text),) if asked else result.parts
            return replace(result, control=None, parts=parts, in_context=False, tags=(*result.tags, LATE))
        case ToolResult():
            return replace(result, tags=(*result.tags, LATE))
        case AssistantMessage():
            # As a cancelled error, so that its tool calls do not run.
            return as_error(result, "cancelled", "the answer came after its lane was stopped")
        case LlmError():
            # The lane waits for this call no longer, so it is not tried again.
            return replace(result, category="cancelled", retry_at=None)


def as_error(answer: AssistantMessage, category: ErrorCategory, message: str) -> LlmError:
    """Return an answer that does not count as the error that says why."""
    return LlmError(
        agent=answer.agent,
        task=answer.task,
        category=category,
        message=message,
        parts=answer.parts,
        cause=answer.cause,
        model=answer.model,
        usage=answer.usage,
        duration_ms=answer.duration_ms,
        session=answer.session,
        receipt=answer.receipt,
        run=answer.run,
        node=answer.node,
    )


def interrupted_call(
    lane: LaneState,
    cause: int,
    attempt: int,
    parts: tuple[AssistantPart, ...],
    receipt: Receipt | None,
    why: str,
    retry_at: datetime | None,
) -> LlmError:
    """Return the error of a model call whose end is unknown, with its streamed text.

    Without `retry_at` a person decides.
    """
    return LlmError(
        agent=lane.agent,
        task=lane.task,
        category="process_exited",
        message=why,
        parts=parts,
        cause=cause,
        attempt=attempt,
        retry_at=retry_at,
        receipt=receipt,
    )


def unknown_outcome(call: OpenCall, why: str) -> ToolResult:
    """Return the result of a call that had begun and may not be run again."""
    return ToolResult(
        call_id=call.id,
        call=ref(call),
        name=call.name,
        text=f"The outcome of this call is unknown: {why}. It may have had its effect. It was not run again.",
        is_error=True,
        meta=UNKNOWN,
    )


def needs_confirmation(lane: LaneState, since: Iterable[Entry]) -> str:
    """Return why a person must be asked before the lane continues; "" if not.

    `since` are the entries from the lane's last answer on. The reason is a call of unknown outcome, until a
    person has answered after the lane was shown it and has asked.
    """
    unknown, answered, shown_at = "", "", 0
    for entry in since:
        answered = entry.id if entry.position == lane.answered else answered
        match entry.event:
            case ToolResult(name=name, meta=meta, call=CallRef(entry=answer)) if meta == UNKNOWN:
                if answer == answered:
                    unknown, shown_at = name, entry.position
            case LlmError(agent=lane.agent, task=lane.task):
                shown_at = entry.position
            case UserMessage() as message if _goes_on(message, lane):
                # A queued message was said when it was put into the queue.
                sent_at = message.replaces or entry.position
                unknown = unknown if sent_at < shown_at else ""
            case _:
                pass
    if not unknown:
        return ""
    return (
        f"nobody knows what came of {unknown!r}: it may have had its effect, and is not run again; "
        "see what it did, then say how to go on, or continue"
    )


def _goes_on(message: UserMessage, lane: LaneState) -> bool:
    if not message.in_context or message.author_kind == "system":
        return False
    if (control := message.control) is None:
        return not message.to or lane.address in message.to
    named = address(control.agent, control.task)
    return control.action == "continue" and (not control.agent or named == lane.address)


def question_message(lane: LaneState, call: OpenCall, question: ToolQuestion) -> UserMessage:
    """Return the message by which a running call asks a person."""
    control = Control(action="ask", call=ref(call), question=question)
    return UserMessage(author=lane.address, author_kind="agent", control=control, cause=call.position)


def ref(call: OpenCall) -> CallRef:
    """Return the call as an event names it."""
    return CallRef(entry=call.entry, index=call.nth)
