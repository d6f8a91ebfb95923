"""Messages of OpenAI's Chat Completions API, which many servers speak, to parts, calls and results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stenolog.domain.parts import (
    AssistantPart,
    FilePart,
    ProviderPart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCall,
    UserPart,
)
from stenolog.projections.formats import reading
from stenolog.projections.messages import json_fields

PROVIDER = "openai"
_SAID: tuple[str, ...] = ("role", "content", "name")
KNOWN: Mapping[str, tuple[str, ...]] = {
    "system": _SAID,
    "user": _SAID,
    "assistant": ("role", "content", "refusal", "tool_calls", "function_call", "reasoning_content"),
    "tool": (*_SAID, "tool_call_id"),
    "function": (*_SAID, "tool_call_id"),
}
"""The keys of a message, by its role, that have a place in the event."""
ROLES = tuple(dict.fromkeys(("system", "developer", *KNOWN)))
SLIPPED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(ROLES, ("content", "parts")),
    "assistant": ("content", "tool_calls"),
    "tool": ("content", "tool_call_id"),
    "model": ("parts",),
}
"""The keys of a message by which a slip is known, by its role, Gemini's too. Others are the provider's."""
_TELLING = ("content", "tool_calls", "function_call", "refusal")
_ANTHROPIC = ("tool_use", "tool_result", "thinking", "redacted_thinking")
THOUGHTS = ("reasoning_content", "reasoning")
"""The names that servers have for the reasoning of an answer; the second is vLLM's and OpenRouter's."""


def read_message(
    message: Mapping[str, json_fields.Json], model: str, blobs: json_fields.Blobs
) -> Iterator[reading.Item]:
    """Yield a message's words, or a call's result."""
    role, rest = json_fields.as_str(message.get("role")), other_fields(message)
    if role == "assistant":
        yield reading.Reply(reading.without_blanks([*answer_parts(message), *calls_in(message)]), rest=rest)
        return
    parts, name = user_parts(message.get("content"), blobs), json_fields.as_str(message.get("name"))
    if role in ("tool", "function"):
        yield reading.Result(json_fields.as_str(message.get("tool_call_id")), parts, name, rest=rest)
    else:
        yield reading.Spoken(reading.role_of(message), parts, name, rest)


def is_message(value: json_fields.Json) -> bool:
    """Return whether a value is a message of this API, and not an item of another one."""
    if not isinstance(value, dict) or "type" in value or not isinstance(value.get("role"), str):
        return False
    types = {json_fields.as_dict(part).get("type") for part in json_fields.as_list(value.get("content"))}
    return any(name in value for name in _TELLING) and types.isdisjoint(_ANTHROPIC)


def first_choice(answer: Mapping[str, json_fields.Json]) -> dict[str, Any]:
    """Return an answer's first choice; further ones are not asked for."""
    return json_fields.as_dict(next(iter(json_fields.as_list(answer.get("choices"))), None))


def other_fields(message: Mapping[str, json_fields.Json]) -> dict[str, json_fields.Json]:
    """Return a message's fields without a place in an event."""
    known = KNOWN.get(json_fields.as_str(message.get("role")), KNOWN["user"])
    if not json_fields.as_str(message.get("reasoning_content")) and json_fields.as_str(
        message.get("reasoning")
    ):
        known = (*known, "reasoning")
    return {name: value for name, value in message.items() if name not in known}


def answer_parts(message: Mapping[str, json_fields.Json]) -> Iterator[AssistantPart]:
    """Yield an answer's parts beside its calls: reasoning, texts, refusals."""
    if thought := next(filter(None, (json_fields.as_str(message.get(name)) for name in THOUGHTS)), ""):
        yield ReasoningPart(text=thought, provider=PROVIDER)
    content = message.get("content")
    for part in [content] if isinstance(content, str) else json_fields.as_list(content):
        yield from _answer_part(json_fields.as_dict(part), part)
    if refused := json_fields.as_str(message.get("refusal")):
        yield RefusalPart(text=refused)


def _answer_part(part: dict[str, Any], raw: json_fields.Json) -> Iterator[AssistantPart]:
    words = raw if isinstance(raw, str) else part.get("text")
    if isinstance(words, str):
        yield TextPart(text=words)
    elif refused := json_fields.as_str(part.get("refusal")):
        yield RefusalPart(text=refused)
    # Mistral's models that reason send such a list.
    elif thoughts := [
        json_fields.as_str(json_fields.as_dict(each).get("text"))
        for each in json_fields.as_list(part.get("thinking"))
    ]:
        yield ReasoningPart(text="".join(thoughts), provider=PROVIDER)
    else:
        yield ProviderPart(provider=PROVIDER, raw=json_fields.compact_json(raw))


def calls_in(message: Mapping[str, json_fields.Json], record: str = "") -> Iterator[ToolCall]:
    """Yield an answer's calls; one without an id gets its `record`'s, if given."""
    ids: list[str] = []
    calls = [*json_fields.as_list(message.get("tool_calls"))]
    for nth, call in enumerate(calls):
        made = tool_call(call, f"{record}-{nth}" if record else reading.call_name(ids))
        ids.append(made.id)
        yield made
    # The one call of an answer, before there were several.
    if isinstance(message.get("function_call"), dict):
        stand_in = f"{record}-function" if record else reading.call_name(ids)
        yield tool_call({"function": message["function_call"]}, stand_in)


def user_parts(content: json_fields.Json, blobs: json_fields.Blobs) -> tuple[UserPart, ...]:
    """Return a message's content, a string or a list of parts; unknown parts are kept as JSON."""
    if isinstance(content, str):
        return (TextPart(text=content),)
    if content is None:
        return ()
    return tuple(
        _user_part(json_fields.as_dict(part), part, blobs)
        for part in (content if isinstance(content, list) else [content])
    )


def _user_part(part: dict[str, Any], raw: json_fields.Json, blobs: json_fields.Blobs) -> UserPart:
    match part.get("type"):
        case "text" if isinstance(part.get("text"), str):
            return TextPart(text=part["text"])
        case "image_url" if isinstance(url := json_fields.as_dict(part.get("image_url")).get("url"), str):
            return json_fields.linked_picture(url, blobs)
        case "file" if part.get("file"):
            file = json_fields.as_dict(part.get("file"))
            name, url = json_fields.as_str(file.get("filename")), json_fields.as_str(file.get("file_data"))
            kept = json_fields.keep_data_url(url, blobs)
            if kept is not None:
                return FilePart(name=name, media_type=kept[0], blob=kept[1])
            id = "" if url else json_fields.as_str(file.get("file_id"))
            return FilePart(name=name, url=url, provider=PROVIDER if id else "", id=id)
        case "input_audio" if (
            sound := _sound(json_fields.as_dict(part.get("input_audio")), blobs)
        ) is not None:
            return sound
        case _:
            return (
                TextPart(text=raw)
                if isinstance(raw, str)
                else ProviderPart(provider=PROVIDER, raw=json_fields.compact_json(raw))
            )


def _sound(audio: dict[str, Any], blobs: json_fields.Blobs) -> FilePart | None:
    blob = json_fields.keep_base64(json_fields.as_str(audio.get("data")), blobs)
    return (
        None
        if blob is None
        else FilePart(media_type=f"audio/{json_fields.as_str(audio.get('format'))}", blob=blob)
    )


def tool_call(call: json_fields.Json, stand_in: str) -> ToolCall:
    """Return a tool call; `stand_in` is its id if it has none."""
    custom = json_fields.as_dict(json_fields.as_dict(call).get("custom"))
    function = json_fields.as_dict(json_fields.as_dict(call).get("function")) or custom
    given = function.get("arguments", function.get("input"))
    id = json_fields.as_dict(call).get("id")
    return ToolCall(
        id=id if isinstance(id, str) else stand_in,
        name=json_fields.as_str(function.get("name")),
        arguments=json_fields.arguments(given),
        form="custom" if function and function is custom else "",
    )


def _system(body: Mapping[str, json_fields.Json]) -> list[str]:
    first = next(iter(reading.objects_in(body.get("messages"))), {})
    return reading.texts_in(first.get("content")) if first.get("role") in reading.SYSTEM_ROLES else []


TOOL_PARAMETERS: Mapping[str, type] = {"tool_choice": str, "parallel_tool_calls": bool}
"""Parameters in the forms that cards have too; a request without tools has neither."""
READER = reading.MessageReader(
    message=read_message,
    provider=PROVIDER,
    system=_system,
    tools=lambda body: [
        json_fields.as_dict(tool.get("function")) for tool in reading.objects_in(body.get("tools"))
    ],
    on_card=frozenset(
        {
            "temperature",
            "top_p",
            "max_tokens",
            "max_completion_tokens",
            "seed",
            "response_format",
            "frequency_penalty",
            "presence_penalty",
            "reasoning_effort",
            "verbosity",
            "store",
        }
    ),
    on_card_with_tools=TOOL_PARAMETERS,
    instructs_by_message=True,
)
