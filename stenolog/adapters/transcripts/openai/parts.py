"""OpenAI chat content to parts and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stenolog.domain.parts import File, Image, Part, Text, ToolCall, UserPart

from ..fields import Json, arguments, compact, obj, text
from ..media import Blobs, data_url, keep_data_url

PDF = "application/pdf"


def user_parts(content: Json, blobs: Blobs) -> tuple[UserPart, ...]:
    """A message's content: a string, or a list of parts. What is unknown becomes its JSON text."""
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
            name, url = text(file.get("filename")), text(file.get("file_data")) or text(file.get("file_id"))
            kept = keep_data_url(url, blobs)
            if kept is not None:
                return File(name=name, media_type=kept[0], blob=kept[1])
            return File(name=name, url=url)
        case _:
            return Text(text=raw if isinstance(raw, str) else compact(raw))


def tool_call(call: Json, stand_in: str) -> ToolCall:
    """A tool call; `stand_in` is its id where it has none."""
    function = obj(obj(call).get("function")) or obj(obj(call).get("custom"))
    given = function.get("arguments", function.get("input"))
    id = obj(call).get("id")
    return ToolCall(
        id=id if isinstance(id, str) else stand_in,
        name=text(function.get("name")),
        arguments=arguments(given),
    )


def content(parts: Iterable[Part], blobs: Mapping[str, bytes]) -> Json:
    """Parts as content: a string where it is one text, None where there is nothing, else a list."""
    shown = [part for part in parts if isinstance(part, Text | Image | File)]
    if not shown:
        return None
    if len(shown) == 1 and isinstance(shown[0], Text):
        return shown[0].text
    return [_content_part(part, blobs) for part in shown]


def _content_part(part: Text | Image | File, blobs: Mapping[str, bytes]) -> dict[str, Any]:
    match part:
        case Text(text=words):
            return {"type": "text", "text": words}
        case Image():
            url = data_url(part.media_type, part.blob, blobs) if part.blob else part.url
            return {"type": "image_url", "image_url": {"url": url}}
        case File():
            named = {"filename": part.name} if part.name else {}
            if part.blob:
                return {
                    "type": "file",
                    "file": {**named, "file_data": data_url(part.media_type, part.blob, blobs)},
                }
            return {"type": "file", "file": {**named, "file_id": part.url}}
