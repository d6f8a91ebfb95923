"""Messages of Cohere's Chat API, to parts, calls and results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stenolog.domain.parts import (
    AssistantPart,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCall,
    UserPart,
)
from stenolog.domain.values import Usage
from stenolog.projections.messages import json_fields

from .. import reading
from .write import NAME, PARAMETERS, PLAN

KNOWN = {
    "assistant": ("role", "content", "tool_plan", "tool_calls", "citations"),
    "tool": ("role", "content", "tool_call_id"),
}
"""The keys of a message, by its role, that have a place in the event."""


def read_message(
    message: Mapping[str, json_fields.Json], model: str, blobs: json_fields.Blobs
) -> Iterator[reading.Item]:
    """Yield a message's words, or a call's result."""
    role = json_fields.as_str(message.get("role"))
    known = KNOWN.get(role, ("role", "content"))
    rest = {name: value for name, value in message.items() if name not in known}
    if role == "assistant":
        yield reading.Reply(reading.without_blanks([*answer_parts(message), *calls_in(message)]), rest)
        return
    content = message.get("content")
    given = [content] if isinstance(content, str) else json_fields.as_list(content)
    parts = tuple(_user_part(part, blobs) for part in given)
    if role == "tool":
        yield reading.Result(json_fields.as_str(message.get("tool_call_id")), parts, rest=rest)
    else:
        yield reading.Spoken(reading.role_of(message), parts, rest=rest)


def answer_parts(message: Mapping[str, json_fields.Json]) -> Iterator[AssistantPart]:
    """Yield an answer's parts beside its calls: thoughts, texts with citations, the plan."""
    content = message.get("content")
    cited = reading.objects_in(message.get("citations"))
    for n, part in enumerate([content] if isinstance(content, str) else json_fields.as_list(content)):
        about = [each for each in cited if json_fields.as_int(each.get("content_index")) == n]
        yield answer_part(part, about)
    if plan := json_fields.as_str(message.get(PLAN)):
        yield ReasoningPart(text=plan, provider=NAME, id=PLAN)


def answer_part(part: json_fields.Json, cited: Sequence[json_fields.Json] = ()) -> AssistantPart:
    """Return a block of an answer, with what it cites."""
    words = part if isinstance(part, str) else json_fields.as_dict(part).get("text")
    if isinstance(words, str):
        return text_part(words, cited)
    if isinstance(thought := json_fields.as_dict(part).get("thinking"), str):
        return ReasoningPart(text=thought, provider=NAME)
    return ProviderPart(provider=NAME, raw=json_fields.compact_json(part))


def text_part(words: str, cited: Sequence[json_fields.Json]) -> TextPart:
    """Return a text with what it cites."""
    if not cited:
        return TextPart(text=words)
    return TextPart(text=words, provider=NAME, raw=json_fields.compact_json({"citations": [*cited]}))


def calls_in(message: Mapping[str, json_fields.Json]) -> Iterator[ToolCall]:
    """Yield an answer's calls."""
    ids: list[str] = []
    for call in map(json_fields.as_dict, json_fields.as_list(message.get("tool_calls"))):
        function = json_fields.as_dict(call.get("function"))
        ids.append(json_fields.as_str(call.get("id")) or reading.call_name(ids))
        name, given = (
            json_fields.as_str(function.get("name")),
            json_fields.arguments(function.get("arguments")),
        )
        yield ToolCall(id=ids[-1], name=name, arguments=given)


def usage(given: json_fields.Json) -> Usage | None:
    """Return the tokens used, which may be more than the billed ones, or None."""
    counted: dict[str, Any] = json_fields.as_dict(given)
    tokens = json_fields.as_dict(counted.get("tokens")) or json_fields.as_dict(counted.get("billed_units"))
    if not tokens:
        return None
    return Usage(
        input=json_fields.as_int(tokens.get("input_tokens")),
        output=json_fields.as_int(tokens.get("output_tokens")),
        cache_read=json_fields.as_int(counted.get("cached_tokens")),
    )


def _user_part(part: json_fields.Json, blobs: json_fields.Blobs) -> UserPart:
    match part:
        case str() | {"type": "text", "text": str()}:
            return TextPart(text=part if isinstance(part, str) else part["text"])
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            return json_fields.linked_picture(url, blobs)
        case _:
            return ProviderPart(provider=NAME, raw=json_fields.compact_json(part))


def _system(body: Mapping[str, json_fields.Json]) -> list[str]:
    first = next(iter(reading.objects_in(body.get("messages"))), {})
    return reading.texts_in(first.get("content")) if first.get("role") == "system" else []


def _holds(messages: Sequence[Mapping[str, json_fields.Json]]) -> bool:
    documents = ("document" in part for each in messages for part in reading.objects_in(each.get("content")))
    return any(PLAN in each for each in messages) or any(documents)


READER = reading.MessageReader(
    message=read_message,
    provider=NAME,
    system=_system,
    tools=lambda body: [
        json_fields.as_dict(tool.get("function")) for tool in reading.objects_in(body.get("tools"))
    ],
    holds=_holds,
    on_card=PARAMETERS - {"stream", "documents"},
    on_card_with_tools={"tool_choice": str},
    instructs_by_message=True,
)
