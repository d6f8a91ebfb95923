"""An event as a message: the fields that the old app reads, always all of them, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from stenolog.events import EPOCH, AssistantMessage, Known, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.importers import Json, openai_answer_message, openai_content
from stenolog.parts import says_something

from .schema import MAIN, SYSTEM, Message

Blobs = Mapping[str, bytes]


class WritePlace(NamedTuple):
    """The place of a message: its id, its time, its mode, and whether it is sent to models."""

    id: str
    time: datetime
    mode: str
    in_context: bool


def written(event: Known, place: WritePlace, blobs: Blobs) -> Message:
    """The message that an event gives by itself. Raises `BlobNotFoundError` where a picture or a text is
    gone."""
    return {
        "id": place.id,
        "timestamp": iso(place.time),
        **_answer_message(event, place, blobs),
        "includeInContext": place.in_context,
        "partType": _part_type(event),
        "mode": place.mode,
        **({"runId": event.run} if event.run else {}),
        **({"nodeId": event.node} if event.node else {}),
    }


def is_sent(event: Known) -> bool:
    """Return whether the event is for the model, and has content for it."""
    match event:
        case ModeSwitch():
            return persona_of(event) is not None
        case UserMessage(parts=parts):
            return event.in_context and bool(parts)
        case AssistantMessage(parts=parts):
            return event.in_context and says_something(parts)
        case _:
            return event.in_context


def persona_of(switch: ModeSwitch) -> str | None:
    """The text of the stored system message that the switch was made of; None where it was made of none."""
    source = switch.source
    if source is None or source.system != SYSTEM or source.role not in ("system", "developer"):
        return None
    return next((card.persona for card in switch.cards.values() if card is not None), None)


def iso(time: datetime) -> str:
    """The time in UTC, to the millisecond where that is all there is."""
    precision = "microseconds" if (time - EPOCH).microseconds % 1000 else "milliseconds"
    return time.isoformat(timespec=precision).replace("+00:00", "Z")


def _answer_message(event: Known, place: WritePlace, blobs: Blobs) -> dict[str, Any]:
    match event:
        case UserMessage(parts=parts, author=author):
            told = event.source is not None and event.author_kind == "system"
            role = "system" if told else "user"
            return {"role": role, "content": openai_content(parts, blobs), **_name_fields(author)}
        case AssistantMessage(agent=agent):
            return {**openai_answer_message(event, blobs), **_name_fields(agent if agent != MAIN else "")}
        case ToolResult(call_id=call_id, name=name):
            failed = {"isError": True} if event.is_error else {}
            return {
                "role": "tool",
                "tool_call_id": call_id,
                **_name_fields(name),
                "content": full_output(event, blobs),
                **failed,
            }
        case LlmError(agent=agent, category=category, message=message):
            error = {"category": category, "message": message}
            named = _name_fields(agent if agent != MAIN else "")
            return {"role": "assistant", "content": event.text or None, "error": error, **named}
        case ModeSwitch():
            persona = persona_of(event)
            return {"role": "system", "content": f"mode: {place.mode}" if persona is None else persona}


def full_output(result: ToolResult, blobs: Blobs) -> Json:
    """The whole of what a tool gave back, be it stored apart."""
    if result.blob:
        try:
            return blobs[result.blob].decode()
        except UnicodeDecodeError:
            pass  # no text: what stands for it in the event must do
    return openai_content(result.parts, blobs)


def _name_fields(name: str) -> dict[str, str]:
    return {"name": name} if name else {}


def _part_type(event: Known) -> str:
    match event:
        case AssistantMessage(purpose=purpose) if purpose != "answer":
            return purpose
        case AssistantMessage() if event.tool_calls:
            return "tool_call"
        case ToolResult():
            return "tool_result"
        case LlmError():
            return "llm_error"
        case ModeSwitch() if persona_of(event) is None:
            return "mode_switch"
        case _:
            return "text"
