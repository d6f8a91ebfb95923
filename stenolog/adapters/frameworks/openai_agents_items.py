"""Items of OpenAI's Responses API, as the Agents SDK keeps them, to events and back.

What a model said without a break is one event; every other item is one. `items_of` gives the items that an
event would be by itself, whoever wrote it; what the SDK's own items say beyond that is kept in `meta`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from stenolog.adapters.providers.json_fields import arguments, as_dict, as_list, as_str, compact_json
from stenolog.adapters.providers.media import Blobs, data_url, keep_data_url
from stenolog.domain.events import AssistantMessage, Event, LlmError, ToolResult, UserMessage
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

from .json_patch import apply_patch, make_patch

OURS = "openai_agents"
"""The key in `meta` of what an item says beyond its event."""
PROVIDER = "openai"
HEARD = ("user", "system", "developer")
CALLS = ("_call", "program")
GIVEN = ("action", "actions", "operation", "code")
"""The fields in which calls of tools other than functions keep their arguments."""
Item = dict[str, Any]


def events_of(given: Sequence[Item], agent: str, model: str, blobs: Blobs) -> Iterator[Event]:
    """The events that take the items down, in their order; pictures and files go among the blobs."""
    for is_said, run in groupby(given, key=_is_said):
        for group in [list(run)] if is_said else [[item] for item in run]:
            event = _answer(group, agent, model) if is_said else _input_event(group[0], blobs)
            beyond = make_patch(_plain(event, blobs), group)
            yield replace(event, meta={OURS: beyond}) if beyond else event


def items_of(event: Event, blobs: Mapping[str, bytes]) -> list[Item]:
    """The items of an event, new ones; none of what was for no model, or is no message."""
    if not isinstance(event, UserMessage | AssistantMessage | ToolResult | LlmError) or not event.in_context:
        return []
    kept: list[Item] = apply_patch(_plain(event, blobs), as_dict(event.meta.get(OURS)))
    return kept


def _is_said(item: Item) -> bool:
    return item.get("role") not in HEARD and _answered(item) is None


def _answered(item: Item) -> str | None:
    """The id of the call that an item is the output of."""
    kind = as_str(item.get("type"))
    id = item.get("id") if kind == "local_shell_call_output" else item.get("call_id")
    return id if kind.endswith("_output") and isinstance(id, str) else None


def _input_event(item: Item, blobs: Blobs) -> UserMessage | ToolResult:
    """A message of a person's or the system's, or what a tool gave back."""
    call_id = _answered(item)
    if call_id is not None:
        return ToolResult(call_id=call_id, parts=_contents(item.get("output"), blobs))
    is_person = item.get("role") == "user"
    return UserMessage(
        parts=_contents(item.get("content"), blobs), author_kind="person" if is_person else "system"
    )


def _contents(content: Any, blobs: Blobs) -> tuple[UserPart, ...]:
    """A content, be it a text, a list of parts, or a screenshot; what is unknown becomes its JSON text."""
    if content is None:
        return ()
    given = content if isinstance(content, list) else [content]
    return tuple(
        TextPart(text=part) if isinstance(part, str) else _content(as_dict(part), blobs) for part in given
    )


def _content(part: Item, blobs: Blobs) -> UserPart:
    match part:
        case {"type": "input_text" | "output_text", "text": str(words)}:
            return TextPart(text=words)
        case {"type": "input_image" | "computer_screenshot", "image_url": str(url)}:
            kept = keep_data_url(url, blobs)
            return ImagePart(media_type=kept[0], blob=kept[1]) if kept else ImagePart(url=url)
        case {"type": "input_file", "file_data": str(data)} if kept := keep_data_url(data, blobs):
            return FilePart(name=as_str(part.get("filename")), media_type=kept[0], blob=kept[1])
        case {"type": "input_file", "file_url": str(url)}:
            return FilePart(name=as_str(part.get("filename")), url=url)
        case _:
            return TextPart(text=compact_json(part))


def _answer(group: Sequence[Item], agent: str, model: str) -> AssistantMessage:
    parts = [part for item in group for part in _parts(item)]
    return AssistantMessage(agent=agent, model=model, parts=parts)


def _parts(item: Item) -> list[AssistantPart]:
    """The parts of one item of a model's; what only OpenAI understands stays whole."""
    kind = as_str(item.get("type"))
    if item.get("role") == "assistant":
        content = item.get("content")
        return [TextPart(text=content)] if isinstance(content, str) else [*map(_spoken, as_list(content))]
    if kind == "reasoning":
        thought = "\n".join(as_str(as_dict(part).get("text")) for part in as_list(item.get("summary")))
        encrypted = as_str(item.get("encrypted_content"))
        return [
            ReasoningPart(text=thought, provider=PROVIDER, id=as_str(item.get("id")), encrypted=encrypted)
        ]
    if kind.endswith(CALLS) and isinstance(item.get("call_id"), str):
        return [_call(item, kind)]
    return [ProviderPart(provider=PROVIDER, raw=compact_json(item))]


def _spoken(part: Any) -> AssistantPart:
    match part:
        case {"type": "output_text", "text": str(words)}:
            return TextPart(text=words)
        case {"type": "refusal", "refusal": str(words)}:
            return RefusalPart(text=words)
        case _:
            return ProviderPart(provider=PROVIDER, raw=compact_json(part))


def _call(item: Item, kind: str) -> ToolCall:
    """A call of a function, or of another tool that the program itself runs."""
    asked = item.get("arguments", item.get("input"))
    if asked is None:
        asked = next((item[name] for name in GIVEN if name in item), None)
    name = as_str(item.get("name")) or kind.removesuffix("_call")
    return ToolCall(id=item["call_id"], name=name, arguments=arguments(asked))


def _plain(
    event: UserMessage | AssistantMessage | ToolResult | LlmError, blobs: Mapping[str, bytes]
) -> list[Item]:
    """The items that an event is by itself."""
    match event:
        case UserMessage(parts=parts):
            role = "developer" if event.author_kind == "system" else "user"
            return [{"role": role, "content": _sent_content(parts, blobs)}] if parts else []
        case ToolResult(call_id=id):
            return [
                {"type": "function_call_output", "call_id": id, "output": _sent_content(event.parts, blobs)}
            ]
        case AssistantMessage():
            return [*_answers(event.parts)] if event.purpose == "answer" else []
        case LlmError():
            return [*_answers([part for part in event.parts if isinstance(part, TextPart)])]


def _sent_content(parts: Sequence[UserPart], blobs: Mapping[str, bytes]) -> str | list[Item]:
    """Nothing or one text as a string, anything else as a list."""
    if not parts:
        return ""
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].text
    return [_shown_part(part, blobs) for part in parts]


def _shown_part(part: UserPart, blobs: Mapping[str, bytes]) -> Item:
    url = (
        data_url(part.media_type, part.blob, blobs)
        if isinstance(part, ImagePart | FilePart) and part.blob
        else ""
    )
    match part:
        case ProviderPart(raw=raw):
            return as_dict(json.loads(raw))
        case TextPart(text=words):
            return {"type": "input_text", "text": words}
        case ImagePart():
            return {"type": "input_image", "image_url": url or part.url}
        case FilePart():
            named = {"filename": part.name} if part.name else {}
            if part.id:
                return {"type": "input_file", "file_id": part.id}
            return {"type": "input_file", **named, **({"file_data": url} if url else {"file_url": part.url})}


def _answers(parts: Sequence[Part]) -> Iterator[Item]:
    """The items that a model's parts are: texts that follow each other are one message."""
    for is_text, run in groupby(parts, key=lambda part: isinstance(part, TextPart | RefusalPart)):
        if is_text:
            yield {"type": "message", "role": "assistant", "content": [*map(_shown_words, run)]}
            continue
        for part in run:
            match part:
                case ToolCall():
                    call = {"call_id": part.id, "name": part.name, "arguments": part.arguments}
                    yield {"type": "function_call", **call}
                case ReasoningPart() if part.provider == PROVIDER:
                    yield _thought(part)
                case ProviderPart() if part.provider == PROVIDER:
                    yield json.loads(part.raw)
                case _:
                    pass  # another provider's own: OpenAI could not read it


def _shown_words(part: Part) -> Item:
    match part:
        case RefusalPart(text=words):
            return {"type": "refusal", "refusal": words}
        case _:
            return {"type": "output_text", "text": getattr(part, "text", ""), "annotations": []}


def _thought(part: ReasoningPart) -> Item:
    summary = [{"type": "summary_text", "text": part.text}] if part.text else []
    known = {"id": part.id, "summary": summary, "encrypted_content": part.encrypted}
    return {"type": "reasoning"} | {
        name: value for name, value in known.items() if value or name == "summary"
    }
