"""OpenAI chat content to parts and back."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

from stenolog.domain.parts import FilePart, ImagePart, Part, ProviderPart, TextPart, ToolCall, UserPart
from stenolog.projections.messages.json_fields import (
    Blobs,
    Json,
    arguments,
    as_dict,
    as_str,
    compact_json,
    data_url,
    keep_base64,
    keep_data_url,
)

PDF = "application/pdf"
PROVIDER = "openai"


def openai_user_parts(content: Json, blobs: Blobs) -> tuple[UserPart, ...]:
    """Return a message's content, a string or a list of parts; a part of unknown type is kept as JSON."""
    if isinstance(content, str):
        return (TextPart(text=content),)
    if content is None:
        return ()
    return tuple(
        _user_part(as_dict(part), part, blobs)
        for part in (content if isinstance(content, list) else [content])
    )


def _user_part(part: dict[str, Any], raw: Json, blobs: Blobs) -> UserPart:
    match part.get("type"):
        case "text" if isinstance(part.get("text"), str):
            return TextPart(text=part["text"])
        case "image_url" if isinstance(url := as_dict(part.get("image_url")).get("url"), str):
            kept = keep_data_url(url, blobs)
            return ImagePart(url=url) if kept is None else ImagePart(media_type=kept[0], blob=kept[1])
        case "file" if part.get("file"):
            file = as_dict(part.get("file"))
            name, url = as_str(file.get("filename")), as_str(file.get("file_data"))
            kept = keep_data_url(url, blobs)
            if kept is not None:
                return FilePart(name=name, media_type=kept[0], blob=kept[1])
            id = "" if url else as_str(file.get("file_id"))
            return FilePart(name=name, url=url, provider=PROVIDER if id else "", id=id)
        case "input_audio" if (sound := _sound(as_dict(part.get("input_audio")), blobs)) is not None:
            return sound
        case _:
            return (
                TextPart(text=raw)
                if isinstance(raw, str)
                else ProviderPart(provider=PROVIDER, raw=compact_json(raw))
            )


def _sound(audio: dict[str, Any], blobs: Blobs) -> FilePart | None:
    """Return a recording as a file; None where it is not base64."""
    blob = keep_base64(as_str(audio.get("data")), blobs)
    return None if blob is None else FilePart(media_type=f"audio/{as_str(audio.get('format'))}", blob=blob)


def openai_tool_call(call: Json, stand_in: str) -> ToolCall:
    """Return a tool call; `stand_in` is its id where it has none."""
    custom = as_dict(as_dict(call).get("custom"))
    function = as_dict(as_dict(call).get("function")) or custom
    given = function.get("arguments", function.get("input"))
    id = as_dict(call).get("id")
    return ToolCall(
        id=id if isinstance(id, str) else stand_in,
        name=as_str(function.get("name")),
        arguments=arguments(given),
        form="custom" if function and function is custom else "",
    )


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
