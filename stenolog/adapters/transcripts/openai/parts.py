"""OpenAI chat content to parts and back."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

from stenolog.domain.parts import File, Image, Opaque, Part, Text, ToolCall, UserPart

from ..fields import Json, arguments, compact, obj, text
from ..media import Blobs, data_url, keep_base64, keep_data_url

PDF = "application/pdf"
PROVIDER = "openai"


def user_parts(content: Json, blobs: Blobs) -> tuple[UserPart, ...]:
    """A message's content: a string, or a list of parts. A part of an unknown type is kept as its JSON."""
    if isinstance(content, str):
        return (Text(text=content),)
    if content is None:
        return ()
    return tuple(
        _user_part(obj(part), part, blobs) for part in (content if isinstance(content, list) else [content])
    )


def _user_part(part: dict[str, Any], raw: Json, blobs: Blobs) -> UserPart:
    match part.get("type"):
        case "text" if isinstance(part.get("text"), str):
            return Text(text=part["text"])
        case "image_url" if isinstance(url := obj(part.get("image_url")).get("url"), str):
            kept = keep_data_url(url, blobs)
            return Image(url=url) if kept is None else Image(media_type=kept[0], blob=kept[1])
        case "file" if part.get("file"):
            file = obj(part.get("file"))
            name, url = text(file.get("filename")), text(file.get("file_data"))
            kept = keep_data_url(url, blobs)
            if kept is not None:
                return File(name=name, media_type=kept[0], blob=kept[1])
            id = "" if url else text(file.get("file_id"))
            return File(name=name, url=url, provider=PROVIDER if id else "", id=id)
        case "input_audio" if (sound := _sound(obj(part.get("input_audio")), blobs)) is not None:
            return sound
        case _:
            return Text(text=raw) if isinstance(raw, str) else Opaque(provider=PROVIDER, raw=compact(raw))


def _sound(audio: dict[str, Any], blobs: Blobs) -> File | None:
    """A recording as a file; None where it is not base64."""
    blob = keep_base64(text(audio.get("data")), blobs)
    return None if blob is None else File(media_type=f"audio/{text(audio.get('format'))}", blob=blob)


def tool_call(call: Json, stand_in: str) -> ToolCall:
    """A tool call; `stand_in` is its id where it has none."""
    custom = obj(obj(call).get("custom"))
    function = obj(obj(call).get("function")) or custom
    given = function.get("arguments", function.get("input"))
    id = obj(call).get("id")
    return ToolCall(
        id=id if isinstance(id, str) else stand_in,
        name=text(function.get("name")),
        arguments=arguments(given),
        form="custom" if function and function is custom else "",
    )


def content(parts: Iterable[Part], blobs: Mapping[str, bytes]) -> Json:
    """Parts as content: a string where it is one text, None where there is nothing, else a list."""
    shown = [part for part in parts if isinstance(part, Text | Image | File | Opaque)]
    if not shown:
        return None
    if len(shown) == 1 and isinstance(shown[0], Text):
        return shown[0].text
    return [_content_part(part, blobs) for part in shown]


def _content_part(part: Text | Image | File | Opaque, blobs: Mapping[str, bytes]) -> dict[str, Any]:
    match part:
        case Text(text=words):
            return {"type": "text", "text": words}
        case Opaque(raw=raw):
            return obj(json.loads(raw))
        case Image():
            url = data_url(part.media_type, part.blob, blobs) if part.blob else part.url
            return {"type": "image_url", "image_url": {"url": url}}
        case File():
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
