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
from stenolog.projections.messages.json_fields import (
    Blobs,
    Json,
    arguments,
    as_dict,
    as_int,
    as_list,
    as_str,
    compact_json,
    linked_picture,
)

from ..reading import (
    Item,
    MessageReader,
    Reply,
    Result,
    Spoken,
    call_name,
    objects_in,
    role_of,
    texts_in,
    without_blanks,
)
from .write import NAME, PARAMETERS, PLAN

KNOWN = {
    "assistant": ("role", "content", "tool_plan", "tool_calls", "citations"),
    "tool": ("role", "content", "tool_call_id"),
}
"""The keys of a message, by its role, that have a place in the event."""


def read_message(message: Mapping[str, Json], model: str, blobs: Blobs) -> Iterator[Item]:
    """Yield what a message is: words, or the result of a call."""
    role = as_str(message.get("role"))
    known = KNOWN.get(role, ("role", "content"))
    rest = {name: value for name, value in message.items() if name not in known}
    if role == "assistant":
        yield Reply(without_blanks([*answer_parts(message), *calls_in(message)]), rest)
        return
    content = message.get("content")
    given = [content] if isinstance(content, str) else as_list(content)
    parts = tuple(_user_part(part, blobs) for part in given)
    if role == "tool":
        yield Result(as_str(message.get("tool_call_id")), parts, rest=rest)
    else:
        yield Spoken(role_of(message), parts, rest=rest)


def answer_parts(message: Mapping[str, Json]) -> Iterator[AssistantPart]:
    """Yield the parts of an answer beside its calls: thoughts, texts with citations, and the plan."""
    content = message.get("content")
    cited = objects_in(message.get("citations"))
    for n, part in enumerate([content] if isinstance(content, str) else as_list(content)):
        about = [each for each in cited if as_int(each.get("content_index")) == n]
        yield answer_part(part, about)
    if plan := as_str(message.get(PLAN)):
        yield ReasoningPart(text=plan, provider=NAME, id=PLAN)


def answer_part(part: Json, cited: Sequence[Json] = ()) -> AssistantPart:
    """Return a block of an answer's content, with what it cites."""
    words = part if isinstance(part, str) else as_dict(part).get("text")
    if isinstance(words, str):
        return text_part(words, cited)
    if isinstance(thought := as_dict(part).get("thinking"), str):
        return ReasoningPart(text=thought, provider=NAME)
    return ProviderPart(provider=NAME, raw=compact_json(part))


def text_part(words: str, cited: Sequence[Json]) -> TextPart:
    """Return a text with what it cites."""
    if not cited:
        return TextPart(text=words)
    return TextPart(text=words, provider=NAME, raw=compact_json({"citations": [*cited]}))


def calls_in(message: Mapping[str, Json]) -> Iterator[ToolCall]:
    """Yield the calls of an answer."""
    ids: list[str] = []
    for call in map(as_dict, as_list(message.get("tool_calls"))):
        function = as_dict(call.get("function"))
        ids.append(as_str(call.get("id")) or call_name(ids))
        name, given = as_str(function.get("name")), arguments(function.get("arguments"))
        yield ToolCall(id=ids[-1], name=name, arguments=given)


def usage(given: Json) -> Usage | None:
    """Return the tokens used, which may be more than the billed ones; None if none are reported."""
    counted: dict[str, Any] = as_dict(given)
    tokens = as_dict(counted.get("tokens")) or as_dict(counted.get("billed_units"))
    if not tokens:
        return None
    return Usage(
        input=as_int(tokens.get("input_tokens")),
        output=as_int(tokens.get("output_tokens")),
        cache_read=as_int(counted.get("cached_tokens")),
    )


def _user_part(part: Json, blobs: Blobs) -> UserPart:
    match part:
        case str() | {"type": "text", "text": str()}:
            return TextPart(text=part if isinstance(part, str) else part["text"])
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            return linked_picture(url, blobs)
        case _:
            return ProviderPart(provider=NAME, raw=compact_json(part))


def _system(body: Mapping[str, Json]) -> list[str]:
    first = next(iter(objects_in(body.get("messages"))), {})
    return texts_in(first.get("content")) if first.get("role") == "system" else []


def _holds(messages: Sequence[Mapping[str, Json]]) -> bool:
    documents = ("document" in part for each in messages for part in objects_in(each.get("content")))
    return any(PLAN in each for each in messages) or any(documents)


READER = MessageReader(
    message=read_message,
    provider=NAME,
    system=_system,
    tools=lambda body: [as_dict(tool.get("function")) for tool in objects_in(body.get("tools"))],
    holds=_holds,
    on_card=PARAMETERS - {"stream", "documents"},
    on_card_with_tools={"tool_choice": str},
    instructs_by_message=True,
)
