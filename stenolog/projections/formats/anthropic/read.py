"""Messages of Anthropic's API, to parts, calls and results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from stenolog.domain.parts import (
    AssistantPart,
    FilePart,
    ImagePart,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCall,
    UserPart,
)
from stenolog.domain.values import Usage
from stenolog.projections.formats import reading
from stenolog.projections.messages import json_fields
from stenolog.projections.messages.json_fields import arguments

PROVIDER = "anthropic"


def read_message(
    message: Mapping[str, json_fields.Json], model: str, blobs: json_fields.Blobs
) -> Iterator[reading.Item]:
    """Yield what a message says, and a user's results, in order."""
    content = blocks(message.get("content"))
    if message.get("role") == "assistant":
        yield reading.Reply(reading.without_blanks(answer_parts(content, model)))
        return
    role = reading.role_of(message)
    for is_result, run in groupby(content, key=lambda block: block.get("type") == "tool_result"):
        if is_result:
            yield from (result(block, blobs) for block in run)
        else:
            yield reading.Spoken(role, tuple(user_part(block, blobs) for block in run))
    if not content:
        yield reading.Spoken(role, ())


def answer_parts(content: list[dict[str, Any]], model: str) -> list[AssistantPart]:
    """Return an answer's parts."""
    parts: list[AssistantPart] = []
    ids: list[str] = []
    for block in content:
        part = assistant_part(block, model, reading.call_name(ids) if block.get("type") == "tool_use" else "")
        parts.append(part)
        if isinstance(part, ToolCall):
            ids.append(part.id)
    return parts


def in_container(parts: Iterable[AssistantPart], id: str) -> tuple[AssistantPart, ...]:
    """Return an answer whose calls by a program name its waiting container."""
    return tuple(
        replace(part, raw=json_fields.compact_json({**json.loads(part.raw), "container": id}))
        if isinstance(part, ToolCall) and part.raw
        else part
        for part in parts
    )


def result(block: dict[str, Any], blobs: json_fields.Blobs) -> reading.Result:
    """Return the result of a call."""
    parts = tuple(user_part(part, blobs) for part in blocks(block.get("content")))
    return reading.Result(
        json_fields.as_str(block.get("tool_use_id")), parts, is_error=block.get("is_error") is True
    )


def blocks(content: json_fields.Json) -> list[dict[str, Any]]:
    """Return a message's blocks; a string is one block of text."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [
        block if isinstance(block, dict) else {"type": "text", "text": json_fields.compact_json(block)}
        for block in json_fields.as_list(content)
    ]


def assistant_part(block: dict[str, Any], model: str, call_id: str) -> AssistantPart:
    """Return one block of an answer; `call_id` is for a call without an id."""
    match block.get("type"):
        case "text" if isinstance(block.get("text"), str):
            return TextPart(text=block["text"], **json_fields.rest_of(block, PROVIDER, "text"))
        case "thinking" if isinstance(block.get("thinking"), str):
            return ReasoningPart(
                text=block["thinking"],
                provider=PROVIDER,
                signature=json_fields.as_str(block.get("signature")),
            )
        case "redacted_thinking":
            return ReasoningPart(provider=PROVIDER, encrypted=json_fields.as_str(block.get("data")))
        case "tool_use":
            return ToolCall(
                id=json_fields.as_str(block.get("id")) or call_id,
                name=json_fields.as_str(block.get("name")),
                arguments=arguments(block.get("input")),
                **json_fields.rest_of(block, PROVIDER, "id", "name", "input"),
            )
        case _:
            return ProviderPart(provider=PROVIDER, model=model, raw=json_fields.compact_json(block))


def user_part(block: dict[str, Any], blobs: json_fields.Blobs) -> UserPart:
    """Return a block of a user message or result; an unknown one becomes its JSON text.

    A search's result has its words, and beside them the whole block for its provider.
    """
    source = json_fields.as_dict(block.get("source"))
    match block.get("type"):
        case "text" if isinstance(block.get("text"), str):
            return TextPart(text=block["text"])
        case "image":
            return _image(block, source, blobs)
        case "document":
            return _document(block, source, blobs)
        case "search_result":
            texts = (json_fields.as_str(each.get("text")) for each in blocks(block.get("content")))
            said = (json_fields.as_str(block.get("title")), json_fields.as_str(block.get("source")), *texts)
            return TextPart(
                text="\n".join(filter(None, said)), provider=PROVIDER, raw=json_fields.compact_json(block)
            )
        case "tool_reference" | "container_upload":
            return ProviderPart(provider=PROVIDER, raw=json_fields.compact_json(block))
        case _:
            return TextPart(text=json_fields.compact_json(block))


def _image(block: dict[str, Any], source: dict[str, Any], blobs: json_fields.Blobs) -> UserPart:
    media_type = json_fields.as_str(source.get("media_type")) or "image/png"
    if (blob := _bytes(source, blobs)) is not None:
        return ImagePart(media_type=media_type, blob=blob)
    if url := json_fields.as_str(source.get("url")):
        return ImagePart(media_type=media_type, url=url)
    return TextPart(text=json_fields.compact_json(block))


def _document(block: dict[str, Any], source: dict[str, Any], blobs: json_fields.Blobs) -> UserPart:
    name = json_fields.as_str(block.get("title"))
    if source.get("type") == "text" and isinstance(source.get("data"), str):
        blob = json_fields.keep(source["data"].encode(), blobs)
        return FilePart(
            name=name, media_type=json_fields.as_str(source.get("media_type")) or "text/plain", blob=blob
        )
    media_type = json_fields.as_str(source.get("media_type")) or "application/pdf"
    if (found := _bytes(source, blobs)) is not None:
        return FilePart(name=name, media_type=media_type, blob=found)
    if url := json_fields.as_str(source.get("url")):
        return FilePart(name=name, media_type=media_type, url=url)
    return TextPart(text=json_fields.compact_json(block))


def _bytes(source: dict[str, Any], blobs: json_fields.Blobs) -> str | None:
    data = source.get("data")
    return json_fields.keep_base64(data, blobs) if isinstance(data, str) else None


def call_block(
    id: json_fields.Json, name: json_fields.Json, arguments: json_fields.Json
) -> dict[str, json_fields.Json]:
    """Return a call as a block, for programs with calls in another form."""
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def result_block(
    call_id: json_fields.Json, content: json_fields.Json, **about: json_fields.Json
) -> dict[str, json_fields.Json]:
    """Return a call's result as a block, likewise."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **about}


def usage(counted: json_fields.Json, diagnostics: json_fields.Json = None) -> Usage | None:
    """Return the tokens; Anthropic counts cache reads and writes beside the input, not in it.

    `diagnostics` have Anthropic's verdict on its cache.
    """
    if not isinstance(counted, dict):
        return None
    read, write = (
        json_fields.as_int(counted.get("cache_read_input_tokens")),
        json_fields.as_int(counted.get("cache_creation_input_tokens")),
    )
    kept = counted.get("cache_creation")
    used = Usage(
        input=json_fields.as_int(counted.get("input_tokens")) + read + write,
        output=json_fields.as_int(counted.get("output_tokens")),
        cache_read=read,
        cache_write=write,
        reasoning=json_fields.as_int(
            json_fields.as_dict(counted.get("output_tokens_details")).get("thinking_tokens")
        ),
        cache_write_hour=min(
            json_fields.as_int(json_fields.as_dict(kept).get("ephemeral_1h_input_tokens")), write
        )
        if kept
        else 0,
    )
    return _with_verdict(used, diagnostics) if isinstance(diagnostics, dict) else used


def _with_verdict(used: Usage, diagnostics: dict[str, Any]) -> Usage:
    if "cache_miss_reason" not in diagnostics:
        return used
    reason = json_fields.as_dict(diagnostics["cache_miss_reason"])
    # Without a reason the comparison took longer than the answer.
    verdict, missed = (
        json_fields.as_str(reason.get("type")) or "pending",
        reason.get("cache_missed_input_tokens"),
    )
    return replace(used, cache_verdict=verdict, cache_missed=json_fields.as_int(missed))


TYPES = frozenset({"tool_use", "tool_result", "redacted_thinking", "image", "document"})
"""The types of blocks that no other API has."""


def _holds(messages: Sequence[Mapping[str, json_fields.Json]]) -> bool:
    # A thought of Mistral's, on OpenAI's chat, is a list.
    blocks = [block for each in messages for block in reading.objects_in(each.get("content"))]
    is_own = any(
        json_fields.as_str(block.get("type")) in TYPES or json_fields.as_str(block.get("thinking"))
        for block in blocks
    )
    return is_own or any("type" in each for each in messages)


READER = reading.MessageReader(
    message=read_message,
    provider=PROVIDER,
    system=lambda body: reading.texts_in(body.get("system")),
    tools=lambda body: reading.objects_in(body.get("tools")),
    on_card=frozenset(
        {
            "max_tokens",
            "temperature",
            "top_p",
            "top_k",
            "stop_sequences",
            "thinking",
            "output_config",
            "context_management",
        }
    ),
    # Where the marks of the cache are is the client's own doing: see the receipts.
    beside={"cache": False},
    stored=("container",),
    holds=_holds,
)
