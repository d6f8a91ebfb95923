"""The content of goose's messages, a list of items with a type, as parts of events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stenolog.events import ErrorCategory
from stenolog.importers import (
    Blobs,
    BlockContext,
    Json,
    JsonObject,
    PartTable,
    arguments,
    as_dict,
    as_list,
    as_str,
    compact_json,
    error_category,
    media_maker,
    reasoning_maker,
    text_maker,
)
from stenolog.parts import AssistantPart, TextPart, ToolCall, UserPart

SYSTEM = "goose"
CALLS = ("toolRequest", "frontendToolRequest")
NOTES = ("contextLengthExceeded", "conversationCompacted", "summarizationRequested", "systemNotification")
"""The types of items that goose shows to people and never sends to a model."""
UNREADABLE = "unreadable_call"
"""The name of a tool that stands in a call whose name and arguments goose could not read."""
ASIDE = ("actionRequired", "toolConfirmationRequest")
"""The types of items with which goose asks a person for leave."""


class CallResult(NamedTuple):
    """The result of a call: the call's id, the parts of the output, and whether it is an error."""

    call_id: str
    parts: tuple[UserPart, ...]
    is_error: bool


class Failure(NamedTuple):
    """A model call that failed: the kind of failure, and the words that goose shows."""

    category: ErrorCategory
    message: str


_FAILURES: dict[str, ErrorCategory] = {
    "authentication": "unauthorized",
    "contextLengthExceeded": "context_length",
    "creditsExhausted": "budget",
}


def _call(item: JsonObject, _: BlockContext) -> ToolCall | None:
    id, call = item.get("id"), item.get("toolCall")
    if not (isinstance(id, str) and isinstance(call, dict)):
        return None
    value = as_dict(call.get("value")) or call  # a stream has the call without its status
    name = as_str(value.get("name")) or UNREADABLE
    return ToolCall(id=id, name=name, arguments=arguments(value.get("arguments")))


def _resource(item: JsonObject, _: BlockContext) -> TextPart | None:
    text = as_dict(item.get("resource")).get("text")
    return TextPart(text=text) if isinstance(text, str) else None


_text = text_maker()
ANSWERS = PartTable[AssistantPart](
    SYSTEM,
    {
        "text": _text,
        "thinking": reasoning_maker(text="thinking", signature="signature"),
        "reasoning": reasoning_maker(text="text"),
        "redactedThinking": reasoning_maker(encrypted="data"),
        **dict.fromkeys(CALLS, _call),
    },
)
INPUTS = PartTable[UserPart](
    SYSTEM, {**dict.fromkeys(("image", "audio", "document"), media_maker()), "resource": _resource}, _text
)
"""Makers of what a person said, and of a tool's output."""


def failed_call(item: JsonObject) -> CallResult | None:
    """Return what goose answers to a call that it could not read; None for any other item."""
    call = as_dict(item.get("toolCall"))
    if call.get("status") != "error":
        return None
    return CallResult(as_str(item.get("id")), (TextPart(text=as_str(call.get("error"))),), True)


def response(item: JsonObject, blobs: Blobs) -> CallResult:
    """Return the result that a `toolResponse` holds; before MCP's form it was the bare list of contents."""
    result = as_dict(item.get("toolResult"))
    if result.get("status") == "error":
        return CallResult(as_str(item.get("id")), (TextPart(text=_as_text(result.get("error"))),), True)
    value = result.get("value", item.get("toolResult"))
    contents = as_list(value if isinstance(value, list) else as_dict(value).get("content"))
    parts = tuple(INPUTS.parts(contents, blobs))
    structured = as_dict(value).get("structuredContent")
    if not parts and structured is not None:
        parts = (TextPart(text=compact_json(structured)),)
    return CallResult(as_str(item.get("id")), parts, as_dict(value).get("isError") is True)


def failure_in(items: Iterable[JsonObject]) -> Failure | None:
    """Return the failure that goose shows in the place of an answer; None for an answer."""
    for item in items:
        if item.get("type") == "error" and (words := as_str(item.get("message"))):
            return Failure(_FAILURES.get(as_str(item.get("kind"))) or error_category(words), words)
    return None


def note_in(item: JsonObject) -> str:
    """Return the words of an item that goose shows to people alone; empty for any other item."""
    return as_str(item.get("msg")) if item.get("type") in NOTES else ""


def _as_text(value: Json) -> str:
    return value if isinstance(value, str) else compact_json(value)
