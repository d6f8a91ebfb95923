"""Contents of Gemini's API, as the sessions of Gemini CLI and of Qwen Code have them, to parts of events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

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
from stenolog.projections.messages.json_fields import (
    Blobs,
    Json,
    arguments,
    as_dict,
    as_int,
    as_list,
    as_str,
    compact_json,
    keep_base64,
)

from .json_lines import JsonObject


def parts_in(content: Json) -> list[JsonObject]:
    """Return the parts of a content: a text, a part, or a list of them."""
    found = content if isinstance(content, list) else [content]
    return [{"text": part} if isinstance(part, str) else as_dict(part) for part in found if part]


def text_in(content: Json) -> str:
    """Return the words of a content that are no thoughts."""
    return "".join(as_str(part.get("text")) for part in parts_in(content) if not part.get("thought"))


def user_part(part: JsonObject, provider: str, blobs: Blobs) -> UserPart:
    """Return a part of what a user said, or of a tool's output."""
    match part:
        case {"text": str(text)}:
            return TextPart(text=text)
        case {"inlineData": {"data": str(data), "mimeType": str(media_type)}} if (
            blob := keep_base64(data, blobs)
        ) is not None:
            if media_type.startswith("image/"):
                return ImagePart(media_type=media_type, blob=blob)
            return FilePart(media_type=media_type, blob=blob)
        case {"fileData": {"fileUri": str(url), **about}}:
            return FilePart(media_type=as_str(about.get("mimeType")) or "application/octet-stream", url=url)
        case _:
            return ProviderPart(provider=provider, raw=compact_json(part))


def assistant_part(part: JsonObject, provider: str, model: str, id: str) -> AssistantPart:
    """Return a part of an answer; a call without an id of its own gets this one."""
    match part:
        case {"text": str(text), "thought": True}:
            return ReasoningPart(text=text, provider=provider, signature=as_str(part.get("thoughtSignature")))
        case {"text": str(text)}:
            return TextPart(text=text)
        case {"functionCall": {"name": str(name), **call}}:
            return ToolCall(id=as_str(call.get("id")) or id, name=name, arguments=arguments(call.get("args")))
        case _:
            return ProviderPart(provider=provider, model=model, raw=compact_json(part))


class Response(NamedTuple):
    """The result of a call: the call's id and tool, the parts of the output, and whether it is an error."""

    call_id: str
    name: str
    parts: tuple[UserPart, ...]
    is_error: bool


def responses(content: Json, provider: str, blobs: Blobs) -> Iterator[Response]:
    """Yield the results of calls in a content."""
    for part in parts_in(content):
        if not isinstance(part.get("functionResponse"), dict):
            continue
        given: dict[str, Any] = part["functionResponse"]
        told = as_dict(given.get("response"))
        (kind, words), *more = [*told.items()] or [("output", "")]
        is_plain = not more and kind in ("output", "error") and isinstance(words, str)
        text = TextPart(text=words if is_plain else compact_json(told))
        media = (user_part(each, provider, blobs) for each in map(as_dict, as_list(given.get("parts"))))
        yield Response(as_str(given.get("id")), as_str(given.get("name")), (text, *media), kind == "error")


def usage(input: Json, output: Json, cached: Json, thoughts: Json) -> Usage | None:
    """Return the tokens that were counted; None where none were."""
    counted = tuple(map(as_int, (input, output, cached, thoughts)))
    if not any(counted):
        return None
    return Usage(input=counted[0], output=counted[1], cache_read=counted[2], reasoning=counted[3])
