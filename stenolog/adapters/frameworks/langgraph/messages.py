"""A LangChain message as an event. The checkpoint is exact, and keeps what an event has no place for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from stenolog.adapters.transcripts.fields import compact, obj, text, whole
from stenolog.adapters.transcripts.media import Blobs, keep_base64
from stenolog.domain.events import AssistantMessage, AuthorKind, ToolResult, UserMessage
from stenolog.domain.parts import AssistantPart, File, Image, Opaque, Reasoning, Text, ToolCall, UserPart
from stenolog.domain.values import CallRef, Source, Usage

Spoken = UserMessage | AssistantMessage | ToolResult
Block: TypeAlias = dict[str, Any]
PERSON = ("human", "user")
SYSTEM = ("system", "developer")
MEDIA = {"image": "image/png", "audio": "audio/wav", "video": "video/mp4", "file": "application/octet-stream"}


def event_of(
    message: BaseMessage, agent: str, call: CallRef | None, blobs: Blobs, brief_of: str = ""
) -> Spoken:
    """The message as it is told; `call` is the call that it answers, where that is known.

    `agent` said it, where the message names nobody; in a subgraph it is `brief_of` who speaks as the human
    does elsewhere. Bytes within it are put among the blobs.
    """
    source = Source(system="langchain", id=clean(message.id or ""), role=message.type)
    blocks = _blocks(message)
    match message:
        case AIMessage():
            said = _answer(message, blocks, name_of(message.name or agent))
            return replace(said, source=source)
        case ToolMessage():
            return ToolResult(
                call_id=clean(message.tool_call_id),
                call=call,
                name=clean(message.name or ""),
                parts=tuple(_heard(block, blobs) for block in blocks),
                is_error=message.status == "error",
                source=source,
            )
        case _:
            role = text(getattr(message, "role", "")) or message.type
            named = "" if role in (*PERSON, *SYSTEM) else role
            human: AuthorKind = "agent" if brief_of else "person"
            return UserMessage(
                parts=tuple(_heard(block, blobs) for block in blocks),
                author=clean(message.name or named or (brief_of if role in PERSON else "")),
                author_kind=human if role in PERSON else "system",
                source=source,
            )


def name_of(agent: str) -> str:
    """The name as one of an agent may be: not empty, and without a slash."""
    return clean(agent).replace("/", "-") or "assistant"


def clean(said: str) -> str:
    """The text as it can be written: half of a surrogate pair becomes a question mark."""
    return said.encode("utf-8", "replace").decode()


def _blocks(message: BaseMessage) -> list[Block]:
    """Its content in LangChain's common form; as it came, where LangChain cannot translate it."""
    try:
        return [obj(block) for block in message.content_blocks]
    except Exception:  # whatever a translator trips over: no checkpoint may fail for it
        content = message.content if isinstance(message.content, list) else [message.content]
        return [{"type": "text", "text": one} if isinstance(one, str) else obj(one) for one in content]


def _answer(message: AIMessage, blocks: list[Block], agent: str) -> AssistantMessage:
    told = obj(message.response_metadata)
    return AssistantMessage(
        agent=agent,
        parts=tuple(_said(message, blocks)),
        model=clean(text(told.get("model_name")) or text(told.get("model"))),
        finish_reason=clean(text(told.get("finish_reason")) or text(told.get("stop_reason"))),
        usage=_usage(obj(message.usage_metadata)),
    )


def _said(message: AIMessage, blocks: list[Block]) -> Iterator[AssistantPart]:
    """Its calls stand where a block names them; those that no block names, at the end."""
    provider = clean(text(obj(message.response_metadata).get("model_provider")))
    calls = list(message.tool_calls)
    for block in blocks:
        if block.get("type") != "tool_call":
            yield _said_part(block, provider or "langchain")
        elif call := next((one for one in calls if one["id"] == block.get("id")), None):
            calls.remove(call)
            yield _call(call["id"], call["name"], _json(call["args"]))
    for call in calls:
        yield _call(call["id"], call["name"], _json(call["args"]))
    for bad in message.invalid_tool_calls:
        yield _call(bad["id"], bad["name"], bad["args"] or "")


def _call(id: str | None, name: str | None, arguments: str) -> ToolCall:
    return ToolCall(id=clean(id or ""), name=clean(name or ""), arguments=clean(arguments))


def _said_part(block: Block, provider: str) -> AssistantPart:
    match block:
        case {"type": "text", "text": str(words)}:
            return Text(text=clean(words))
        case {"type": "reasoning"}:
            extras = obj(block.get("extras"))
            proof = {name: block.get(name) or extras.get(name) for name in ("signature", "encrypted_content")}
            return Reasoning(
                text=clean(text(block.get("reasoning"))),
                provider=provider,
                id=clean(text(block.get("id"))),
                signature=clean(text(proof["signature"])),
                encrypted=clean(text(proof["encrypted_content"])),
            )
        case _:
            return Opaque(provider=provider, raw=_raw(block))


def _heard(block: Block, blobs: Blobs) -> UserPart:
    match block:
        case {"type": "text", "text": str(words)}:
            return Text(text=clean(words))
        case {"type": "image" | "audio" | "video" | "file" as kind}:
            return _file(block, kind, blobs) or Text(text=_raw(block))
        case _:
            return Text(text=_raw(block))


def _file(block: Block, kind: str, blobs: Blobs) -> UserPart | None:
    """Its bytes as a blob, or its address; None where it has neither."""
    media_type = clean(text(block.get("mime_type"))) or MEDIA[kind]
    blob = keep_base64(text(block.get("base64")), blobs) or ""
    url = clean(text(block.get("url")) or text(block.get("file_id")))
    if not (blob or url):
        return None
    if kind == "image":
        return Image(media_type=media_type, blob=blob, url=url)
    return File(name=clean(text(block.get("filename"))), media_type=media_type, blob=blob, url=url)


def _raw(block: Block) -> str:
    return clean(_json(block.get("value", block) if block.get("type") == "non_standard" else block))


def _json(value: object) -> str:
    """The value as JSON; what JSON has no place for, as Python writes it."""
    try:
        return compact(value)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


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
