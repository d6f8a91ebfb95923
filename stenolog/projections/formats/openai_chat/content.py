"""Answers, results and their parts as chat messages: as they were said, for exports."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

from stenolog.domain.events import AssistantMessage, ToolResult
from stenolog.domain.parts import (
    FilePart,
    ImagePart,
    Part,
    ProviderPart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCall,
)
from stenolog.projections.messages.json_fields import Json, as_dict, data_url


def openai_content(parts: Iterable[Part], blobs: Mapping[str, bytes]) -> Json:
    """Return parts as content: a string for one text, None for no part, else a list."""
    shown = [part for part in parts if isinstance(part, TextPart | ImagePart | FilePart | ProviderPart)]
    if not shown:
        return None
    if len(shown) == 1 and isinstance(shown[0], TextPart):
        return shown[0].text
    return [_content_part(part, blobs) for part in shown]


def _content_part(
    part: TextPart | ImagePart | FilePart | ProviderPart, blobs: Mapping[str, bytes]
) -> dict[str, Any]:
    match part:
        case TextPart(text=words):
            return {"type": "text", "text": words}
        case ProviderPart(raw=raw):
            return as_dict(json.loads(raw))
        case ImagePart():
            url = data_url(part.media_type, part.blob, blobs) if part.blob else part.url
            return {"type": "image_url", "image_url": {"url": url}}
        case FilePart():
            named = {"filename": part.name} if part.name else {}
            if part.blob and part.media_type.startswith("audio/"):
                sound = base64.b64encode(blobs[part.blob]).decode()
                named_so = part.media_type.removeprefix("audio/")
                return {"type": "input_audio", "input_audio": {"data": sound, "format": named_so}}
            if part.blob:
                return {
                    "type": "file",
                    "file": {**named, "file_data": data_url(part.media_type, part.blob, blobs)},
                }
            return {"type": "file", "file": {**named, "file_id": part.id or part.url}}


def openai_answer_message(message: AssistantMessage, blobs: Mapping[str, bytes]) -> dict[str, Any]:
    """Return an answer as a message: content (or None), reasoning, refusal, calls."""
    thought = "\n\n".join(
        part.text for part in message.parts if isinstance(part, ReasoningPart) and part.text
    )
    refused = "\n".join(part.text for part in message.parts if isinstance(part, RefusalPart))
    made: dict[str, Any] = {"role": "assistant", "content": openai_content(message.parts, blobs)}
    if thought:
        made["reasoning_content"] = thought
    if refused:
        made["refusal"] = refused
    if calls := message.tool_calls:
        made["tool_calls"] = [_call(call) for call in calls]
    return made


def _call(call: ToolCall) -> dict[str, Any]:
    if call.form == "custom":
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}}
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def result_message(result: ToolResult, blobs: Mapping[str, bytes]) -> dict[str, Any]:
    """Return a result as a message."""
    named = {"name": result.name} if result.name else {}
    said = openai_content(result.parts, blobs)
    return {"role": "tool", "tool_call_id": result.call_id, **named, "content": "" if said is None else said}
