"""A LangChain message as an event. The checkpoint is exact, and keeps what an event has no place for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from stenolog.adapters.transcripts.fields import compact, obj, text, whole
from stenolog.adapters.transcripts.media import Blobs, keep_base64
from stenolog.domain.events import AssistantMessage, ToolResult, UserMessage
from stenolog.domain.parts import AssistantPart, File, Image, Opaque, Reasoning, Text, ToolCall, UserPart
from stenolog.domain.values import CallRef, Source, Usage

Spoken = UserMessage | AssistantMessage | ToolResult
PERSON = ("human", "user")
SYSTEM = ("system", "developer")
MEDIA = {"image": "image/png", "audio": "audio/wav", "video": "video/mp4", "file": "application/octet-stream"}


def event_of(message: BaseMessage, agent: str, calls: Mapping[str, CallRef], blobs: Blobs) -> Spoken:
    """The message as it is told; `calls` are the calls that may be answered, by the provider's id.

    `agent` said it, where the message names nobody. Bytes within it are put among the blobs.
    """
    source = Source(system="langchain", id=clean(message.id or ""), role=message.type)
    blocks = [obj(block) for block in message.content_blocks]
    match message:
        case AIMessage():
            said = _answer(message, name_of(message.name or agent))
            return replace(said, source=source)
        case ToolMessage():
            return ToolResult(
                call_id=clean(message.tool_call_id),
                call=calls.get(message.tool_call_id),
                name=clean(message.name or ""),
                parts=tuple(_heard(block, blobs) for block in blocks),
                is_error=message.status == "error",
                source=source,
            )
        case _:
            role = text(getattr(message, "role", "")) or message.type
            named = "" if role in (*PERSON, *SYSTEM) else role
            return UserMessage(
                parts=tuple(_heard(block, blobs) for block in blocks),
                author=clean(message.name or named),
                author_kind="person" if role in PERSON else "system",
                source=source,
            )


def name_of(agent: str) -> str:
    """The name as one of an agent may be: not empty, and without a slash."""
    return clean(agent).replace("/", "-") or "assistant"


def clean(said: str) -> str:
    """The text as it can be written: half of a surrogate pair becomes a question mark."""
    return said.encode("utf-8", "replace").decode()


def _answer(message: AIMessage, agent: str) -> AssistantMessage:
    told = obj(message.response_metadata)
    return AssistantMessage(
        agent=agent,
        parts=tuple(_said(message)),
        model=clean(text(told.get("model_name")) or text(told.get("model"))),
        finish_reason=clean(text(told.get("finish_reason")) or text(told.get("stop_reason"))),
        usage=_usage(obj(message.usage_metadata)),
    )


def _said(message: AIMessage) -> Iterator[AssistantPart]:
    provider = clean(text(obj(message.response_metadata).get("model_provider")))
    for block in message.content_blocks:
        yield _said_part(obj(block), provider or "langchain")
    for bad in message.invalid_tool_calls:
        id, name = clean(bad["id"] or ""), clean(bad["name"] or "")
        yield ToolCall(id=id, name=name, arguments=clean(bad["args"] or ""))


def _said_part(block: dict[str, Any], provider: str) -> AssistantPart:
    match block:
        case {"type": "text", "text": str(words)}:
            return Text(text=clean(words))
        case {"type": "reasoning"}:
            signature = text(obj(block.get("extras")).get("signature"))
            thought = clean(text(block.get("reasoning")))
            return Reasoning(text=thought, provider=provider, id=text(block.get("id")), signature=signature)
        case {"type": "tool_call", "args": args}:
            id, name = text(block.get("id")), text(block.get("name"))
            return ToolCall(id=clean(id), name=clean(name), arguments=clean(compact(args)))
        case _:
            return Opaque(provider=provider, raw=_raw(block))


def _heard(block: dict[str, Any], blobs: Blobs) -> UserPart:
    match block:
        case {"type": "text", "text": str(words)}:
            return Text(text=clean(words))
        case {"type": "image" | "audio" | "video" | "file" as kind}:
            return _file(block, kind, blobs) or Text(text=_raw(block))
        case _:
            return Text(text=_raw(block))


def _file(block: dict[str, Any], kind: str, blobs: Blobs) -> UserPart | None:
    """Its bytes as a blob, or its address; None where it has neither."""
    media_type = clean(text(block.get("mime_type"))) or MEDIA[kind]
    blob = keep_base64(text(block.get("base64")), blobs) or ""
    url = clean(text(block.get("url")) or text(block.get("file_id")))
    if not (blob or url):
        return None
    if kind == "image":
        return Image(media_type=media_type, blob=blob, url=url)
    return File(name=clean(text(block.get("filename"))), media_type=media_type, blob=blob, url=url)


def _raw(block: dict[str, Any]) -> str:
    """The block as JSON; what JSON has no place for, as Python writes it."""
    value = block.get("value", block) if block.get("type") == "non_standard" else block
    try:
        return clean(compact(value))
    except (TypeError, ValueError):
        return clean(repr(value))


def _usage(counted: dict[str, Any]) -> Usage | None:
    if not counted:
        return None
    read, made = obj(counted.get("input_token_details")), obj(counted.get("output_token_details"))
    return Usage(
        input=whole(counted.get("input_tokens")),
        output=whole(counted.get("output_tokens")),
        cache_read=whole(read.get("cache_read")),
        cache_write=whole(read.get("cache_creation")),
        reasoning=whole(made.get("reasoning")),
    )
