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

from stenolog.adapters.transcripts.fields import arguments, compact, items, obj, text
from stenolog.adapters.transcripts.media import Blobs, data_url, keep_data_url
from stenolog.domain.events import AssistantMessage, Event, LlmError, ToolResult, UserMessage
from stenolog.domain.parts import (
    AssistantPart,
    File,
    Image,
    Opaque,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    UserPart,
)

from .differing import applied, difference

OURS = "openai_agents"
"""The key in `meta` of what an item says beyond its event."""
PROVIDER = "openai"
HEARD = ("user", "system", "developer")
CALLS = ("_call", "program")
GIVEN = ("action", "actions", "operation", "code")
"""Where the calls of the tools that are no functions keep what they ask for."""
Item = dict[str, Any]


def events_of(given: Sequence[Item], agent: str, model: str, blobs: Blobs) -> Iterator[Event]:
    """The events that take the items down, in their order; pictures and files go among the blobs."""
    for is_said, run in groupby(given, key=_is_said):
        for group in [list(run)] if is_said else [[item] for item in run]:
            event = _said(group, agent, model) if is_said else _heard(group[0], blobs)
            beyond = difference(_plain(event, blobs), group)
            yield replace(event, meta={OURS: beyond}) if beyond else event


def items_of(event: Event, blobs: Mapping[str, bytes]) -> list[Item]:
    """The items of an event, new ones; none of what was for no model, or is no message."""
    if not isinstance(event, UserMessage | AssistantMessage | ToolResult | LlmError) or not event.in_context:
        return []
    kept: list[Item] = applied(_plain(event, blobs), obj(event.meta.get(OURS)))
    return kept


def _is_said(item: Item) -> bool:
    return item.get("role") not in HEARD and _answered(item) is None


def _answered(item: Item) -> str | None:
    """The id of the call that an item is the output of."""
    kind = text(item.get("type"))
    id = item.get("id") if kind == "local_shell_call_output" else item.get("call_id")
    return id if kind.endswith("_output") and isinstance(id, str) else None


def _heard(item: Item, blobs: Blobs) -> UserMessage | ToolResult:
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
    return tuple(Text(text=part) if isinstance(part, str) else _content(obj(part), blobs) for part in given)


def _content(part: Item, blobs: Blobs) -> UserPart:
    match part:
        case {"type": "input_text" | "output_text", "text": str(words)}:
            return Text(text=words)
        case {"type": "input_image" | "computer_screenshot", "image_url": str(url)}:
            kept = keep_data_url(url, blobs)
            return Image(media_type=kept[0], blob=kept[1]) if kept else Image(url=url)
        case {"type": "input_file", "file_data": str(data)} if kept := keep_data_url(data, blobs):
            return File(name=text(part.get("filename")), media_type=kept[0], blob=kept[1])
        case {"type": "input_file", "file_url": str(url)}:
            return File(name=text(part.get("filename")), url=url)
        case _:
            return Text(text=compact(part))


def _said(group: Sequence[Item], agent: str, model: str) -> AssistantMessage:
    parts = [part for item in group for part in _parts(item)]
    return AssistantMessage(agent=agent, model=model, parts=parts)


def _parts(item: Item) -> list[AssistantPart]:
    """The parts of one item of a model's; what only OpenAI understands stays whole."""
    kind = text(item.get("type"))
    if item.get("role") == "assistant":
        content = item.get("content")
        return [Text(text=content)] if isinstance(content, str) else [*map(_spoken, items(content))]
    if kind == "reasoning":
        thought = "\n".join(text(obj(part).get("text")) for part in items(item.get("summary")))
        encrypted = text(item.get("encrypted_content"))
        return [Reasoning(text=thought, provider=PROVIDER, id=text(item.get("id")), encrypted=encrypted)]
    if kind.endswith(CALLS) and isinstance(item.get("call_id"), str):
        return [_call(item, kind)]
    return [Opaque(provider=PROVIDER, raw=compact(item))]


def _spoken(part: Any) -> AssistantPart:
    match part:
        case {"type": "output_text", "text": str(words)}:
            return Text(text=words)
        case {"type": "refusal", "refusal": str(words)}:
            return Refusal(text=words)
        case _:
            return Opaque(provider=PROVIDER, raw=compact(part))


def _call(item: Item, kind: str) -> ToolCall:
    """A call of a function, or of another tool that the program itself runs."""
    asked = item.get("arguments", item.get("input"))
    if asked is None:
        asked = next((item[name] for name in GIVEN if name in item), None)
    name = text(item.get("name")) or kind.removesuffix("_call")
    return ToolCall(id=item["call_id"], name=name, arguments=arguments(asked))


def _plain(
    event: UserMessage | AssistantMessage | ToolResult | LlmError, blobs: Mapping[str, bytes]
) -> list[Item]:
    """The items that an event is by itself."""
    match event:
        case UserMessage(parts=parts):
            role = "developer" if event.author_kind == "system" else "user"
            return [{"role": role, "content": _shown(parts, blobs)}] if parts else []
        case ToolResult(call_id=id):
            return [{"type": "function_call_output", "call_id": id, "output": _shown(event.parts, blobs)}]
        case AssistantMessage():
            return [*_answers(event.parts)] if event.purpose == "answer" else []
        case LlmError():
            return [*_answers([part for part in event.parts if isinstance(part, Text)])]


def _shown(parts: Sequence[UserPart], blobs: Mapping[str, bytes]) -> str | list[Item]:
    """Nothing or one text as a string, anything else as a list."""
    if not parts:
        return ""
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text
    return [_shown_part(part, blobs) for part in parts]


def _shown_part(part: UserPart, blobs: Mapping[str, bytes]) -> Item:
    url = data_url(part.media_type, part.blob, blobs) if isinstance(part, Image | File) and part.blob else ""
    match part:
        case Opaque(raw=raw):
            return obj(json.loads(raw))
        case Text(text=words):
            return {"type": "input_text", "text": words}
        case Image():
            return {"type": "input_image", "image_url": url or part.url}
        case File():
            named = {"filename": part.name} if part.name else {}
            if part.id:
                return {"type": "input_file", "file_id": part.id}
            return {"type": "input_file", **named, **({"file_data": url} if url else {"file_url": part.url})}


def _answers(parts: Sequence[Part]) -> Iterator[Item]:
    """The items that a model's parts are: texts that follow each other are one message."""
    for is_text, run in groupby(parts, key=lambda part: isinstance(part, Text | Refusal)):
        if is_text:
            yield {"type": "message", "role": "assistant", "content": [*map(_shown_words, run)]}
            continue
        for part in run:
            match part:
                case ToolCall():
                    call = {"call_id": part.id, "name": part.name, "arguments": part.arguments}
                    yield {"type": "function_call", **call}
                case Reasoning() if part.provider == PROVIDER:
                    yield _thought(part)
                case Opaque() if part.provider == PROVIDER:
                    yield json.loads(part.raw)
                case _:
                    pass  # another provider's own: OpenAI could not read it


def _shown_words(part: Part) -> Item:
    match part:
        case Refusal(text=words):
            return {"type": "refusal", "refusal": words}
        case _:
            return {"type": "output_text", "text": getattr(part, "text", ""), "annotations": []}


def _thought(part: Reasoning) -> Item:
    summary = [{"type": "summary_text", "text": part.text}] if part.text else []
    known = {"id": part.id, "summary": summary, "encrypted_content": part.encrypted}
    return {"type": "reasoning"} | {
        name: value for name, value in known.items() if value or name == "summary"
    }
