"""Items of the Responses API as programs keep them, with those of tools that OpenAI's own clients run.

An event's own items are fixed: stored sessions have a difference to them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import groupby
from typing import Any

from stenolog.domain.events import AssistantMessage, LlmError, ToolResult, UserMessage
from stenolog.domain.parts import (
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
from stenolog.projections.formats.body_builder import provider_form
from stenolog.projections.formats.model_families import goes_back
from stenolog.projections.formats.reading import Reply, Result, Spoken, role_of
from stenolog.projections.messages.identifiers import CallIds
from stenolog.projections.messages.json_fields import Blobs, arguments, as_dict, as_str, data_url
from stenolog.projections.messages.message import Body, Message, Preamble

from .read import CALLS, PROVIDER, assistant_parts, content, output_parts, user_part

STANDING: Mapping[str, bool] = {
    "code_interpreter_call": True,
    "compaction": False,
    "file_search_call": True,
    "image_generation_call": True,
    "mcp_call": True,
    "mcp_list_tools": True,
    "program": True,
    "program_output": True,
    "web_search_call": False,
}
"""The items of OpenAI's own tools that no output of ours has to follow, and whether they need their id."""
PROGRAMS = frozenset({"program", "program_output"})
"""The items of a program of the model's, which calls tools itself, and of its end."""
NOTES = ("metadata", "internal_chat_message_metadata_passthrough")
"""Fields that Codex adds to items for its own use."""


def has_program(kind: str, id: object, ids: CallIds) -> bool:
    """Return whether the request has an item's program, whose id is kept for its calls and end."""
    return ids.keep(id) if kind == "program" else ids.has(id)


def caller_of(
    call: ToolCall, message: Message, preamble: Preamble, ids: CallIds, providers: Set[str]
) -> Body | None:
    """Return the program that made a call, if it is in the request."""
    found = provider_form(call).get("caller") if goes_back(call, message, preamble, providers) else None
    return found if isinstance(found, dict) and ids.has(found.get("caller_id")) else None


Item = Mapping[str, Any]
HEARD = ("user", "system", "developer")
HOSTED = ("_call", "program")
OUTPUT = "function_call_output"
GIVEN = ("action", "actions", "operation", "code")
"""The fields in which calls of tools other than functions keep their arguments."""


def read_as_kept(item: Item, blobs: Blobs) -> Spoken | Reply | Result:
    """Return what an item is; calls of tools that OpenAI's clients run are calls too."""
    if (call := _answered(item)) is not None:
        output = item.get("output")
        given = [output] if isinstance(output, dict) else output
        return Result(call, () if given is None else output_parts({**item, "output": given}, blobs))
    if item.get("role") in HEARD:
        return Spoken(role_of(item), tuple(user_part(part, blobs) for part in content(item.get("content"))))
    kind = as_str(item.get("type")) or ("message" if item.get("role") == "assistant" else "")
    if kind.endswith(HOSTED) and kind not in CALLS and isinstance(item.get("call_id"), str):
        return Reply((_hosted_call(item, kind),))
    return Reply(tuple(assistant_parts({**item, "type": kind} if kind else dict(item), "", "")))


def _answered(item: Item) -> str | None:
    kind = as_str(item.get("type"))
    id = item.get("id") if kind == "local_shell_call_output" else item.get("call_id")
    return id if kind.endswith("_output") and isinstance(id, str) else None


def _hosted_call(item: Item, kind: str) -> ToolCall:
    asked = next((item[name] for name in ("arguments", "input", *GIVEN) if name in item), None)
    name = as_str(item.get("name")) or kind.removesuffix("_call")
    return ToolCall(id=item["call_id"], name=name, arguments=arguments(asked))


def plain_items(
    event: UserMessage | AssistantMessage | ToolResult | LlmError, blobs: Mapping[str, bytes]
) -> list[dict[str, Any]]:
    """Return an event's own items."""
    match event:
        case UserMessage(parts=parts):
            role = "developer" if event.author_kind == "system" else "user"
            return [{"role": role, "content": _sent_content(parts, blobs)}] if parts else []
        case ToolResult(call_id=id):
            return [{"type": OUTPUT, "call_id": id, "output": _sent_content(event.parts, blobs)}]
        case AssistantMessage():
            return [*_answers(event.parts)] if event.purpose == "answer" else []
        case LlmError():
            return [*_answers([part for part in event.parts if isinstance(part, TextPart)])]


def _sent_content(parts: Sequence[UserPart], blobs: Mapping[str, bytes]) -> str | list[dict[str, Any]]:
    if not parts:
        return ""
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].text
    return [_shown_part(part, blobs) for part in parts]


def _shown_part(part: UserPart, blobs: Mapping[str, bytes]) -> dict[str, Any]:
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


def _answers(parts: Sequence[Part]) -> Iterator[dict[str, Any]]:
    """Yield the items of a model's parts: successive texts are one message."""
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


def _shown_words(part: Part) -> dict[str, Any]:
    match part:
        case RefusalPart(text=words):
            return {"type": "refusal", "refusal": words}
        case _:
            return {"type": "output_text", "text": getattr(part, "text", ""), "annotations": []}


def _thought(part: ReasoningPart) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": part.text}] if part.text else []
    known = {"id": part.id, "summary": summary, "encrypted_content": part.encrypted}
    return {"type": "reasoning"} | {
        name: value for name, value in known.items() if value or name == "summary"
    }
