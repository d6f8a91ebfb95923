"""Anthropic content blocks, as Claude Code writes them, to parts."""

from __future__ import annotations

from typing import Any

from stenolog.domain.parts import (
    AssistantPart,
    File,
    Image,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    UserPart,
)
from stenolog.domain.values import Usage

from ..fields import Json, arguments, compact, items, obj, text, whole
from ..media import Blobs, keep, keep_base64

PROVIDER = "anthropic"


def blocks(content: Json) -> list[dict[str, Any]]:
    """The blocks of a message; a string is one block of text."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [
        block if isinstance(block, dict) else {"type": "text", "text": compact(block)}
        for block in items(content)
    ]


def assistant_part(block: dict[str, Any], model: str, call_id: str) -> AssistantPart:
    """One block of an answer; `call_id` stands in for the id of a call that has none."""
    match block.get("type"):
        case "text" if isinstance(block.get("text"), str):
            return Text(text=block["text"])
        case "thinking" if isinstance(block.get("thinking"), str):
            return Reasoning(
                text=block["thinking"], provider=PROVIDER, signature=text(block.get("signature"))
            )
        case "redacted_thinking":
            return Reasoning(provider=PROVIDER, encrypted=text(block.get("data")))
        case "tool_use":
            return ToolCall(
                id=text(block.get("id")) or call_id,
                name=text(block.get("name")),
                arguments=arguments(block.get("input")),
            )
        case _:
            return Opaque(provider=PROVIDER, model=model, raw=compact(block))


def user_part(block: dict[str, Any], blobs: Blobs) -> UserPart:
    """One block of a user message or a tool result; what is unknown becomes its JSON text."""
    source = obj(block.get("source"))
    match block.get("type"):
        case "text" if isinstance(block.get("text"), str):
            return Text(text=block["text"])
        case "image":
            return _image(block, source, blobs)
        case "document":
            return _document(block, source, blobs)
        case _:
            return Text(text=compact(block))


def _image(block: dict[str, Any], source: dict[str, Any], blobs: Blobs) -> UserPart:
    media_type = text(source.get("media_type")) or "image/png"
    if (blob := _bytes(source, blobs)) is not None:
        return Image(media_type=media_type, blob=blob)
    if url := text(source.get("url")):
        return Image(media_type=media_type, url=url)
    return Text(text=compact(block))


def _document(block: dict[str, Any], source: dict[str, Any], blobs: Blobs) -> UserPart:
    name = text(block.get("title"))
    if source.get("type") == "text" and isinstance(source.get("data"), str):
        blob = keep(source["data"].encode(), blobs)
        return File(name=name, media_type=text(source.get("media_type")) or "text/plain", blob=blob)
    media_type = text(source.get("media_type")) or "application/pdf"
    if (found := _bytes(source, blobs)) is not None:
        return File(name=name, media_type=media_type, blob=found)
    if url := text(source.get("url")):
        return File(name=name, media_type=media_type, url=url)
    return Text(text=compact(block))


def _bytes(source: dict[str, Any], blobs: Blobs) -> str | None:
    data = source.get("data")
    return keep_base64(data, blobs) if isinstance(data, str) else None


def usage(counted: Json) -> Usage | None:
    """Tokens; Anthropic counts what comes from and goes to the cache beside the input, not in it."""
    if not isinstance(counted, dict):
        return None
    read, write = (
        whole(counted.get("cache_read_input_tokens")),
        whole(counted.get("cache_creation_input_tokens")),
    )
    return Usage(
        input=whole(counted.get("input_tokens")) + read + write,
        output=whole(counted.get("output_tokens")),
        cache_read=read,
        cache_write=write,
        reasoning=whole(obj(counted.get("output_tokens_details")).get("thinking_tokens")),
    )
