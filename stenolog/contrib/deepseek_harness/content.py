"""The content blocks of dsh's messages, as parts of events."""

from __future__ import annotations

from typing import NamedTuple

from stenolog.events import Usage
from stenolog.importers import (
    BlockContext,
    Json,
    JsonObject,
    PartTable,
    as_dict,
    as_int,
    as_list,
    as_str,
    blocks_in,
    call_maker,
    media_maker,
    reasoning_maker,
    text_maker,
)
from stenolog.parts import AssistantPart, FilePart, UserPart

SYSTEM = "deepseek-harness"


def text_in(content: Json) -> str:
    """Return the words of a content."""
    return "\n".join(as_str(block.get("text")) for block in blocks_in(content) if block.get("type") == "text")


def _attachment(block: JsonObject, _: BlockContext) -> FilePart | None:
    """Return an attachment, which stands beside the session."""
    about = as_dict(block.get("attachment"))
    media_type = as_str(about.get("mediaType")) or "application/octet-stream"
    if not isinstance(id := about.get("attachmentId"), str):
        return None
    return FilePart(name=as_str(about.get("name")), media_type=media_type, provider=SYSTEM, id=id)


_bytes = media_maker(media_type="mediaType")
INPUTS = PartTable[UserPart](
    SYSTEM,
    {
        "text": text_maker(),
        "file": _attachment,
        "image": lambda block, context: _attachment(block, context) or _bytes(block, context),
    },
)
"""Makers of a user's message, and of a tool's output."""
ANSWERS = PartTable[AssistantPart](
    SYSTEM,
    {
        "text": text_maker(),
        "reasoning": reasoning_maker(text="text", signature="signature"),
        "tool-call": call_maker(),
    },
)


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
