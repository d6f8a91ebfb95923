"""Parts of pydantic-ai's messages, as JSON, to events and back.

Each part of a request is an event; a response is one. A plain form is what an event implies; times, ids and
other fields of pydantic-ai are a difference to it.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from stenolog.adapters.importers.door.times import as_time
from stenolog.domain.entry import NewEntry
from stenolog.domain.events import AssistantMessage, ToolResult, UserMessage
from stenolog.domain.parts import (
    AssistantPart,
    FilePart,
    ImagePart,
    Part,
    ProviderPart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCall,
    UserPart,
)
from stenolog.domain.values import Origin, Usage
from stenolog.projections.messages import json_fields

Json: TypeAlias = dict[str, Any]
SYSTEM = "pydantic-ai"
"""The `source` of events from pydantic-ai, and the provider of parts that only it understands."""
USAGE = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_tokens",
    "cache_write": "cache_write_tokens",
    "reasoning": "output_reasoning_tokens",
}
FINISHED = {
    **{reason: reason for reason in ("stop", "length", "content_filter", "tool_call", "error")},
    **dict.fromkeys(("end_turn", "stop_sequence", "STOP", "completed"), "stop"),
    **dict.fromkeys(("max_tokens", "MAX_TOKENS", "max_output_tokens"), "length"),
    **dict.fromkeys(("tool_calls", "tool_use"), "tool_call"),
    **dict.fromkeys(("refusal", "SAFETY"), "content_filter"),
}
"""pydantic-ai's words for why a model stopped, by those of the providers."""
FAILED = ("failed", "denied", "interrupted", "retried")


def request_events(message: Json, blobs: json_fields.Blobs) -> Iterator[NewEntry]:
    """Yield the events of a request, part by part."""
    for part in json_fields.as_list(message.get("parts")):
        yield NewEntry(
            _input_event(part, blobs), None, _time(part.get("timestamp") or message.get("timestamp"))
        )


def _input_event(part: Json, blobs: json_fields.Blobs) -> UserMessage | ToolResult:
    """Return the event of a request's part.

    Parts that no model reads, such as tool lists, are out of context.
    """
    kind = json_fields.as_str(part.get("part_kind"))
    source = Origin(system=SYSTEM, role=kind)
    content = contents(part.get("content"), blobs)
    match kind:
        case "user-prompt":
            asked = part.get("content")
            content = tuple(_content(each, blobs) for each in asked) if isinstance(asked, list) else content
            return UserMessage(parts=content, source=source)
        case "retry-prompt" if part.get("tool_name"):  # the earlier form of a tool's failure
            return ToolResult(
                call_id=json_fields.as_str(part.get("tool_call_id")),
                name=json_fields.as_str(part.get("tool_name")),
                parts=content,
                is_error=True,
                source=source,
            )
        case "system-prompt" | "retry-feedback" | "retry-prompt":
            return UserMessage(parts=content, author_kind="system", source=source)
        case "tool-return":
            return ToolResult(
                call_id=json_fields.as_str(part.get("tool_call_id")),
                name=json_fields.as_str(part.get("tool_name")),
                parts=content,
                is_error=part.get("outcome") in FAILED,
                source=source,
            )
        case _:
            kept = (TextPart(text=json_fields.compact_json(part)),)
            return UserMessage(parts=kept, author_kind="system", in_context=False, source=source)


def plain_part(
    event: UserMessage | ToolResult, time: datetime, name: str, blobs: Mapping[str, bytes]
) -> Json:
    """Return the part that an event implies; `name` is the tool's, if the result lacks it."""
    content, written = content_of_parts(event.parts, blobs), {"timestamp": timestamp(time)}
    match event:
        case ToolResult():
            outcome = "failed" if event.is_error else "success"
            called = {"tool_name": event.name or name, "tool_call_id": event.call_id, "outcome": outcome}
            return {"part_kind": "tool-return", **called, "content": content, **written}
        case UserMessage():
            kind = "system-prompt" if event.author_kind == "system" else "user-prompt"
            return {"part_kind": kind, "content": content, **written}


def contents(content: Any, blobs: json_fields.Blobs) -> tuple[UserPart, ...]:
    """Return a result's parts: a text, a list with media, or JSON as text."""
    if content is None:
        return ()
    is_told = isinstance(content, list) and any(json_fields.as_dict(part).get("kind") for part in content)
    return tuple(_content(part, blobs) for part in (content if is_told else [content]))


def _content(part: Any, blobs: json_fields.Blobs) -> UserPart:
    match part:
        case str():
            return TextPart(text=part)
        case {"kind": "binary", "data": str(data), "media_type": str(media)}:
            return _binary(data, media, blobs) or TextPart(text=json_fields.compact_json(part))
        case {"kind": "image-url", "url": str(url)}:
            return ImagePart(url=url, media_type=json_fields.as_str(part.get("media_type")) or "image/png")
        case {"kind": "document-url" | "audio-url" | "video-url", "url": str(url)}:
            return FilePart(
                url=url, media_type=json_fields.as_str(part.get("media_type")) or "application/octet-stream"
            )
        case {"kind": "text-content" | "structured-content", "content": str(words)}:
            return TextPart(text=words)
        case {"kind": "cache-point"}:
            return TextPart(text="")  # it keeps its place among the others, and says nothing
        case _:
            return TextPart(text=json_fields.compact_json(part))


def _binary(data: str, media: str, blobs: json_fields.Blobs) -> UserPart | None:
    """Return a picture or file as a part; pydantic writes URL-safe base64."""
    try:
        blob = json_fields.keep(base64.b64decode(data, b"-_", validate=True), blobs)
    except (binascii.Error, ValueError):
        return None
    return (ImagePart if media.startswith("image/") else FilePart)(media_type=media, blob=blob)


def content_of_parts(parts: Sequence[UserPart], blobs: Mapping[str, bytes]) -> Any:
    """Return no or one text as a string, anything else as a list."""
    if not parts:
        return ""
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].text
    shown = (part for part in parts if not isinstance(part, ProviderPart))
    return [part.text if isinstance(part, TextPart) else _sent_content(part, blobs) for part in shown]


def _sent_content(part: ImagePart | FilePart, blobs: Mapping[str, bytes]) -> Json:
    if part.blob:
        data = base64.urlsafe_b64encode(blobs[part.blob]).decode()
        return {"kind": "binary", "data": data, "media_type": part.media_type}
    medium = part.media_type.partition("/")[0]
    kind = f"{medium if medium in ('image', 'audio', 'video') else 'document'}-url"
    return {"kind": kind, "url": part.url, "media_type": part.media_type}


def response_event(message: Json, agent: str) -> NewEntry:
    """Return the event of a response."""
    usage = json_fields.as_dict(message.get("usage"))
    counted: Json = {ours: json_fields.as_int(usage.get(theirs)) for ours, theirs in USAGE.items()}
    counted["cache_write_hour"] = json_fields.as_int(
        json_fields.as_dict(usage.get("details")).get("ephemeral_1h_input_tokens")
    )
    event = AssistantMessage(
        agent=agent,
        parts=[_answer_part(part) for part in json_fields.as_list(message.get("parts"))],
        model=json_fields.as_str(message.get("model_name")),
        finish_reason=json_fields.as_str(message.get("finish_reason")),
        usage=Usage(**counted) if any(counted.values()) else None,
        source=Origin(
            system=SYSTEM, id=json_fields.as_str(message.get("provider_response_id")), role="response"
        ),
    )
    return NewEntry(event, None, _time(message.get("timestamp")))


def _answer_part(part: Json) -> AssistantPart:
    match part:
        case {"part_kind": "text", "content": str(words)}:
            return TextPart(text=words)
        case {"part_kind": "thinking", "content": str(words)}:
            provider, proof = (
                json_fields.as_str(part.get("provider_name")),
                json_fields.as_str(part.get("signature")),
            )
            signed, encrypted = ("", proof) if provider == "openai" else (proof, "")
            id = json_fields.as_str(part.get("id"))
            return ReasoningPart(text=words, provider=provider, id=id, signature=signed, encrypted=encrypted)
        case {"part_kind": "tool-call", "tool_call_id": str(id), "tool_name": str(name)}:
            return ToolCall(id=id, name=name, arguments=json_fields.arguments(part.get("args")))
        case _:
            return ProviderPart(provider=SYSTEM, raw=json_fields.compact_json(part))


def plain_response(event: AssistantMessage, time: datetime) -> Json:
    """Return the response that an event is by itself."""
    message: Json = {
        "kind": "response",
        "parts": [part for said in event.parts if (part := _plain(said)) is not None],
        "timestamp": timestamp(time),
        "model_name": event.model,
        "finish_reason": FINISHED.get(event.finish_reason, ""),
        "provider_response_id": event.source.id if event.source and event.source.system == SYSTEM else "",
    }
    if event.usage is not None:
        counted = {theirs: getattr(event.usage, ours) for ours, theirs in USAGE.items()}
        message["usage"] = {name: tokens for name, tokens in counted.items() if tokens}
    return {name: value for name, value in message.items() if value or name == "parts"}


def _plain(part: Part) -> Json | None:
    match part:
        case TextPart() | RefusalPart():
            return {"part_kind": "text", "content": part.text}
        case ReasoningPart():
            known = {
                "id": part.id,
                "signature": part.signature or part.encrypted,
                "provider_name": part.provider,
            }
            thought = {"part_kind": "thinking", "content": part.text}
            return thought | {name: value for name, value in known.items() if value}
        case ToolCall():
            called = {"tool_name": part.name, "tool_call_id": part.id, "args": part.arguments}
            return {"part_kind": "tool-call", **called}
        case ProviderPart() if part.provider == SYSTEM:
            kept: Json = json.loads(part.raw)
            return kept
        case _:
            return None


def lean(message: Json) -> Json:
    """Return the message without defaults, nulls and unused usage."""
    slim = {name: value for name, value in message.items() if value is not None}
    if "parts" in slim:
        slim["parts"] = [
            {k: v for k, v in p.items() if v is not None or k == "content"} for p in slim["parts"]
        ]
    if used := {name: value for name, value in slim.pop("usage", {}).items() if value}:
        slim["usage"] = used
    return slim


def _time(given: Any) -> datetime | None:
    return as_time(given) if given else None


def timestamp(time: datetime) -> str:
    """Return the time as pydantic writes it."""
    return time.isoformat().replace("+00:00", "Z")
