"""Contents of Gemini's API, to parts, calls and results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any, TypeAlias

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

JsonObject = dict[str, Any]
PROVIDER = "gemini"
ABOUT = frozenset({"thought", "thoughtSignature", "thought_signature"})
"""Keys that describe a part and are none themselves."""
IdOf: TypeAlias = Callable[[int, str], str]


def read_content(
    message: Mapping[str, json_fields.Json], model: str, blobs: json_fields.Blobs
) -> Iterator[reading.Item]:
    """Yield what a content says, and a user's results, in order."""
    parts = parts_in(message.get("parts"))
    if message.get("role") == "model":
        yield reading.Reply(reading.without_blanks(answer_parts(parts, PROVIDER, model)))
        return
    for is_result, run in groupby(parts, key=lambda part: "functionResponse" in part):
        if is_result:
            yield from responses([*run], PROVIDER, blobs)
        else:
            yield reading.Spoken("user", tuple(user_part(part, PROVIDER, blobs) for part in run))
    if not parts:
        yield reading.Spoken("user", ())


def parts_in(content: json_fields.Json) -> list[JsonObject]:
    """Return the parts of a content: a text, a part, or a list of them."""
    found = content if isinstance(content, list) else [content]
    return [{"text": part} if isinstance(part, str) else json_fields.as_dict(part) for part in found if part]


def text_in(content: json_fields.Json) -> str:
    """Return a content's words without thoughts."""
    return "".join(
        json_fields.as_str(part.get("text")) for part in parts_in(content) if not part.get("thought")
    )


def user_part(part: JsonObject, provider: str, blobs: json_fields.Blobs) -> UserPart:
    """Return a part of a user's words or a tool's output."""
    match part:
        case {"text": str(text)}:
            return TextPart(text=text)
        case {"inlineData": {"data": str(data), "mimeType": str(media_type)}} if (
            blob := json_fields.keep_base64(data, blobs)
        ) is not None:
            if media_type.startswith("image/"):
                return ImagePart(media_type=media_type, blob=blob)
            return FilePart(media_type=media_type, blob=blob)
        case {"fileData": {"fileUri": str(url), **about}}:
            return FilePart(
                media_type=json_fields.as_str(about.get("mimeType")) or "application/octet-stream", url=url
            )
        case _:
            return ProviderPart(provider=provider, raw=json_fields.compact_json(part))


def answer_parts(
    content: json_fields.Json, provider: str, model: str, id_of: IdOf | None = None
) -> list[AssistantPart]:
    """Return an answer's parts; `id_of` names a call without an id, by place and tool.

    A signature goes on the thought before its part, where requests look for it.
    """
    made: list[AssistantPart] = []
    ids: list[str] = []
    for nth, part in enumerate(parts_in(content)):
        signature = json_fields.as_str(part.get("thoughtSignature")) or json_fields.as_str(
            part.get("thought_signature")
        )
        if call := json_fields.as_dict(part.get("functionCall")):
            name = json_fields.as_str(call.get("name"))
            ids.append(
                json_fields.as_str(call.get("id")) or (id_of(nth, name) if id_of else reading.call_name(ids))
            )
            new: AssistantPart = ToolCall(
                id=ids[-1], name=name, arguments=json_fields.arguments(call.get("args"))
            )
        else:
            new = _answer_part(part, provider, model, signature)
        if signature and isinstance(new, TextPart | ToolCall):
            last = made.pop() if made and _is_unsigned(made[-1]) else ReasoningPart(provider=provider)
            made.append(replace(last, signature=signature))  # type: ignore[arg-type]
        if not (signature and new == TextPart(text="")):
            made.append(new)
    return made


def _is_unsigned(part: AssistantPart) -> bool:
    return isinstance(part, ReasoningPart) and not part.signature


def _answer_part(part: JsonObject, provider: str, model: str, signature: str) -> AssistantPart:
    match part:
        case {"text": str(text), "thought": True}:
            return ReasoningPart(text=text, provider=provider, signature=signature)
        case {"text": str(text)}:
            return TextPart(text=text)
        case _ if signature and not part.keys() - ABOUT:
            return TextPart(text="")
        case _:
            return ProviderPart(provider=provider, model=model, raw=json_fields.compact_json(part))


def responses(content: json_fields.Json, provider: str, blobs: json_fields.Blobs) -> Iterator[reading.Result]:
    """Yield a content's results."""
    for part in parts_in(content):
        if not isinstance(part.get("functionResponse"), dict):
            continue
        given: dict[str, Any] = part["functionResponse"]
        told = json_fields.as_dict(given.get("response"))
        (kind, words), *more = [*told.items()] or [("output", "")]
        is_plain = not more and kind in ("output", "error") and isinstance(words, str)
        text = TextPart(text=words if is_plain else json_fields.compact_json(told))
        media = (
            user_part(each, provider, blobs)
            for each in map(json_fields.as_dict, json_fields.as_list(given.get("parts")))
        )
        yield reading.Result(
            json_fields.as_str(given.get("id")),
            (text, *media),
            json_fields.as_str(given.get("name")),
            kind == "error",
        )


def usage(
    input: json_fields.Json, output: json_fields.Json, cached: json_fields.Json, thoughts: json_fields.Json
) -> Usage | None:
    """Return the counted tokens, or None."""
    counted = tuple(map(json_fields.as_int, (input, output, cached, thoughts)))
    if not any(counted):
        return None
    return Usage(input=counted[0], output=counted[1], cache_read=counted[2], reasoning=counted[3])


def usage_by_total(metadata: Mapping[str, json_fields.Json]) -> Usage | None:
    """Return `usageMetadata`'s tokens; what the total has beyond the prompt is output.

    Only some clients' providers count thoughts among the candidates' tokens.
    """
    given, candidates = metadata.get("promptTokenCount"), metadata.get("candidatesTokenCount")
    beyond = json_fields.as_int(metadata.get("totalTokenCount")) - json_fields.as_int(given)
    cached, thoughts = metadata.get("cachedContentTokenCount"), metadata.get("thoughtsTokenCount")
    return usage(given, beyond if beyond > 0 else candidates, cached, thoughts)


def _system(body: Mapping[str, json_fields.Json]) -> list[str]:
    given = body.get("systemInstruction", body.get("system_instruction"))
    return reading.texts_in(json_fields.as_dict(given).get("parts") if isinstance(given, dict) else given)


def _tools(body: Mapping[str, json_fields.Json]) -> list[dict[str, json_fields.Json]]:
    tools = reading.objects_in(body.get("tools"))
    declared = (each.get("functionDeclarations", each.get("function_declarations")) for each in tools)
    return [tool for found in declared for tool in reading.objects_in(found)]


READER = reading.MessageReader(
    message=read_content,
    provider=PROVIDER,
    system=_system,
    tools=_tools,
    on_card=frozenset({"generationConfig", "safetySettings"}),
    stored=("cachedContent", "cached_content"),
    wrapped="generateContentRequest",
    holds=lambda contents: any("parts" in each for each in contents),
)
