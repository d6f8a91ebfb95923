"""The content blocks of dsh's messages, as parts of events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stenolog.events import Usage
from stenolog.importers import (
    Blobs,
    Json,
    JsonObject,
    as_dict,
    as_int,
    as_list,
    as_str,
    compact_json,
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

SYSTEM = "deepseek-harness"


def blocks_in(content: Json) -> list[JsonObject]:
    """Return the blocks of a content, which may be a text."""
    found = content if isinstance(content, list) else [content]
    return [
        {"type": "text", "text": each} if isinstance(each, str) else as_dict(each) for each in found if each
    ]


def text_in(content: Json) -> str:
    """Return the words of a content."""
    return "\n".join(as_str(block.get("text")) for block in blocks_in(content) if block.get("type") == "text")


def user_part(block: JsonObject, blobs: Blobs) -> UserPart:
    """Return a block of a user's message or of a tool's output; an attachment stands beside the session."""
    match block:
        case {"type": "text", "text": str(text)}:
            return TextPart(text=text)
        case {"type": "image" | "file", "attachment": {"attachmentId": str(id), **about}}:
            media_type = as_str(about.get("mediaType")) or "application/octet-stream"
            return FilePart(name=as_str(about.get("name")), media_type=media_type, provider=SYSTEM, id=id)
        case {"type": "image", "data": str(data)} if (blob := keep_base64(data, blobs)) is not None:
            return ImagePart(media_type=as_str(block.get("mediaType")) or "image/png", blob=blob)
        case _:
            return ProviderPart(provider=SYSTEM, raw=compact_json(block))


def assistant_part(block: JsonObject, provider: str, model: str, id: str) -> AssistantPart:
    """Return a block of an answer; a call without an id of its own gets this one."""
    match block:
        case {"type": "text", "text": str(text)}:
            return TextPart(text=text)
        case {"type": "reasoning", "text": str(text)}:
            return ReasoningPart(text=text, provider=provider, signature=as_str(block.get("signature")))
        case {"type": "tool-call", "name": str(name)}:
            given = block.get("arguments")
            raw = given if isinstance(given, str) else compact_json(given or {})
            return ToolCall(id=as_str(block.get("id")) or id, name=name, arguments=raw)
        case _:
            return ProviderPart(provider=SYSTEM, model=model, raw=compact_json(block))


def assistant_parts(blocks: Iterable[JsonObject], provider: str, model: str, key: str) -> list[AssistantPart]:
    """Return the blocks of an answer as parts."""
    return [assistant_part(block, provider, model, f"{key}-{nth}") for nth, block in enumerate(blocks)]


class Outcome(NamedTuple):
    """The result of a call, as one of the versions holds it."""

    call_id: str
    content: Json
    is_error: bool


def outcome_of(data: JsonObject) -> Outcome:
    """Return the result of a call: in `data` itself, in a block of its message, or in the message."""
    message = as_dict(data.get("message"))
    wrapper = next((b for b in blocks_in(message.get("content")) if b.get("type") == "tool-result"), None)
    found = wrapper or message or data
    ids = (found.get("toolCallId"), data.get("callId"), as_dict(message.get("source")).get("callId"))
    call_id = next(filter(None, map(as_str, ids)), "")
    is_error = found.get("isError") is True or bool(data.get("error"))
    return Outcome(call_id, found.get("content"), is_error)


def usage_of(told: Json) -> Usage | None:
    """Return the tokens of a call: dsh counts those from the cache beside the others, a log within them."""
    names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")
    plain, output, read, written, reasoning = (as_int(as_dict(told).get(name)) for name in names)
    if not (plain or output or read or written):
        return None
    return Usage(
        input=plain + read + written,
        output=output,
        cache_read=read,
        cache_write=written,
        reasoning=reasoning,
    )


def tools_in(header: JsonObject) -> list[JsonObject]:
    """Return the tools that a request's header names."""
    return [tool for tool in map(as_dict, as_list(header.get("tools"))) if as_str(tool.get("name"))]
