"""The content of goose's messages, a list of items with a type, as parts of events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from stenolog.events import ErrorCategory
from stenolog.importers import (
    Blobs,
    Json,
    JsonObject,
    as_dict,
    as_list,
    as_str,
    compact_json,
    error_category,
    keep_base64,
)
from stenolog.parts import (
    AssistantPart,
    FilePart,
    ImagePart,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCall,
    UserPart,
)

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


def assistant_part(item: JsonObject, provider: str, model: str, blobs: Blobs) -> AssistantPart:
    """Return an item of an answer as a part."""
    match item:
        case {"type": "text", "text": str(text)}:
            return TextPart(text=text)
        case {"type": "thinking", "thinking": str(text)}:
            return ReasoningPart(text=text, provider=provider, signature=as_str(item.get("signature")))
        case {"type": "reasoning", "text": str(text)}:
            return ReasoningPart(text=text, provider=provider)
        case {"type": "redactedThinking", "data": str(data)}:
            return ReasoningPart(provider=provider, encrypted=data)
        case {"type": kind, "id": str(id), "toolCall": dict(call)} if kind in CALLS:
            value = as_dict(call.get("value")) or call  # a stream has the call without its status
            arguments = value.get("arguments")
            raw = arguments if isinstance(arguments, str) else compact_json(arguments or {})
            return ToolCall(id=id, name=as_str(value.get("name")) or UNREADABLE, arguments=raw)
        case _:
            return ProviderPart(provider=SYSTEM, model=model, raw=compact_json(item))


def failed_call(item: JsonObject) -> CallResult | None:
    """Return what goose answers to a call that it could not read; None for any other item."""
    call = as_dict(item.get("toolCall"))
    if call.get("status") != "error":
        return None
    return CallResult(as_str(item.get("id")), (TextPart(text=as_str(call.get("error"))),), True)


def user_part(item: JsonObject, blobs: Blobs) -> UserPart:
    """Return an item of a person's message, or of a tool's output, as a part."""
    match item:
        case {"type": "text", "text": str(text)} | {"text": str(text)}:
            return TextPart(text=text)
        case {"type": "image" | "audio" | "document", "data": str(data)} if (
            blob := keep_base64(data, blobs)
        ) is not None:
            media_type = as_str(item.get("mimeType")) or "image/png"
            if media_type.startswith("image/"):
                return ImagePart(media_type=media_type, blob=blob)
            return FilePart(name=as_str(item.get("name")), media_type=media_type, blob=blob)
        case {"type": "resource", "resource": {"text": str(text)}}:
            return TextPart(text=text)
        case _:
            return ProviderPart(provider=SYSTEM, raw=compact_json(item))


def response(item: JsonObject, blobs: Blobs) -> CallResult:
    """Return the result that a `toolResponse` holds; before MCP's form it was the bare list of contents."""
    result = as_dict(item.get("toolResult"))
    if result.get("status") == "error":
        return CallResult(as_str(item.get("id")), (TextPart(text=_as_text(result.get("error"))),), True)
    value = result.get("value", item.get("toolResult"))
    contents = as_list(value if isinstance(value, list) else as_dict(value).get("content"))
    parts = tuple(user_part(as_dict(each), blobs) for each in contents)
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


def items_in(content: Json) -> Iterator[JsonObject]:
    """Yield the items of a message's content, which in a hand-made file may be a text."""
    for item in [content] if isinstance(content, str) else as_list(content):
        yield {"type": "text", "text": item} if isinstance(item, str) else as_dict(item)


def note_in(item: JsonObject) -> str:
    """Return the words of an item that goose shows to people alone; empty for any other item."""
    return as_str(item.get("msg")) if item.get("type") in NOTES else ""


def _as_text(value: Json) -> str:
    return value if isinstance(value, str) else compact_json(value)
