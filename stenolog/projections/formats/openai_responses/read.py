"""Items of OpenAI's Responses API, to parts, calls and results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
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
from stenolog.projections.formats.openai_chat.read import TOOL_PARAMETERS
from stenolog.projections.messages import json_fields

PROVIDER = "openai"
CALLS = ("function_call", "custom_tool_call", "tool_search_call", "local_shell_call")
OUTPUTS = ("function_call_output", "custom_tool_call_output", "tool_search_output", "local_shell_call_output")


def read_item(
    item: Mapping[str, json_fields.Json], model: str, blobs: json_fields.Blobs
) -> Iterator[reading.Item]:
    """Yield an item's words, or a call's result."""
    kind, role = json_fields.as_str(item.get("type")) or "message", json_fields.as_str(item.get("role"))
    if kind in OUTPUTS:
        yield reading.Result(json_fields.as_str(item.get("call_id")), output_parts(dict(item), blobs))
    elif kind == reading.MORE_TOOLS or (kind == "message" and role != "assistant"):
        said = tuple(user_part(part, blobs) for part in content(item.get("content")))
        yield reading.Spoken("system" if kind == reading.MORE_TOOLS else reading.role_of(item), said)
    else:
        # Without the model, which a stream names only at its end.
        parts = assistant_parts({**item, "type": kind}, "", reading.call_name(()))
        yield reading.Reply(reading.without_blanks(parts))


def assistant_parts(item: dict[str, Any], model: str, call_id: str) -> list[AssistantPart]:
    """Return an answer item's parts; `call_id` replaces a missing one."""
    match item.get("type"):
        case "message":
            phase = json_fields.as_str(item.get("phase"))
            return [_spoken(part, model, phase) for part in content(item.get("content"))]
        case "reasoning":
            return [_reasoning(item)]
        case "function_call":
            return [_call(item, call_id, json_fields.as_str(item.get("name")), item.get("arguments"))]
        case "custom_tool_call":
            return [_call(item, call_id, json_fields.as_str(item.get("name")), item.get("input"), "custom")]
        case "tool_search_call" if item.get("execution") == "client":
            return [_call(item, call_id, "tool_search", item.get("arguments"), "tool_search")]
        case "local_shell_call":
            return [_call(item, call_id, "local_shell", item.get("action"))]
        case _:
            return [ProviderPart(provider=PROVIDER, model=model, raw=json_fields.compact_json(item))]


def content(value: json_fields.Json) -> list[dict[str, Any]]:
    """Return a message's parts; a string is one part of text."""
    if isinstance(value, str):
        return [{"type": "input_text", "text": value}]
    return [
        json_fields.as_dict(part) or {"text": json_fields.compact_json(part)}
        for part in json_fields.as_list(value)
    ]


def user_part(part: dict[str, Any], blobs: json_fields.Blobs) -> UserPart:
    """Return a part of a message or output; an unknown one is kept as JSON."""
    match part.get("type"):
        case "input_image" | "computer_screenshot" if url := json_fields.as_str(part.get("image_url")):
            return json_fields.linked_picture(url, blobs)
        case "input_file" if url := json_fields.as_str(part.get("file_data")) or json_fields.as_str(
            part.get("file_url")
        ):
            kept = json_fields.keep_data_url(url, blobs)
            name = json_fields.as_str(part.get("filename"))
            return (
                FilePart(name=name, url=url)
                if kept is None
                else FilePart(name=name, media_type=kept[0], blob=kept[1])
            )
        case "input_file" if id := json_fields.as_str(part.get("file_id")):
            return FilePart(name=json_fields.as_str(part.get("filename")), provider=PROVIDER, id=id)
        case _ if isinstance(part.get("text"), str):
            return TextPart(text=part["text"])
        case _:
            return ProviderPart(provider=PROVIDER, raw=json_fields.compact_json(part))


def output_parts(item: dict[str, Any], blobs: json_fields.Blobs) -> tuple[UserPart, ...]:
    """Return a tool output's parts."""
    output = item.get("output", item.get("tools"))
    if isinstance(output, list) and item.get("type") != "tool_search_output":
        return tuple(user_part(part, blobs) for part in content(output))
    return (TextPart(text=output if isinstance(output, str) else json_fields.compact_json(output)),)


def _spoken(part: dict[str, Any], model: str, phase: str) -> AssistantPart:
    if isinstance(part.get("refusal"), str):
        return RefusalPart(text=part["refusal"])
    if isinstance(part.get("text"), str):
        return TextPart(text=part["text"], phase=phase)
    return ProviderPart(provider=PROVIDER, model=model, raw=json_fields.compact_json(part))


def _reasoning(item: dict[str, Any]) -> ReasoningPart:
    said = [
        json_fields.as_str(json_fields.as_dict(part).get("text"))
        for part in (*json_fields.as_list(item.get("summary")), *json_fields.as_list(item.get("content")))
    ]
    return ReasoningPart(
        text="\n\n".join(filter(None, said)),
        provider=PROVIDER,
        id=json_fields.as_str(item.get("id")),
        encrypted=json_fields.as_str(item.get("encrypted_content")),
    )


def _call(item: dict[str, Any], call_id: str, name: str, given: json_fields.Json, form: str = "") -> ToolCall:
    return ToolCall(
        id=json_fields.as_str(item.get("call_id")) or json_fields.as_str(item.get("id")) or call_id,
        name=name,
        arguments=json_fields.arguments(given),
        **json_fields.rest_of({"caller": item.get("caller")}, PROVIDER),
        namespace=json_fields.as_str(item.get("namespace")),
        form=form,
    )


def _in_namespace(tool: dict[str, json_fields.Json]) -> list[dict[str, json_fields.Json]]:
    return reading.objects_in(tool.get("tools")) if tool.get("type") == "namespace" else [tool]


def _tools(given: json_fields.Json) -> list[dict[str, json_fields.Json]]:
    return [*chain.from_iterable(map(_in_namespace, reading.objects_in(given)))]


def _tools_of_items(items: Iterable[Mapping[str, json_fields.Json]]) -> list[dict[str, json_fields.Json]]:
    declared = (each.get("tools") for each in items if each.get("type") == reading.MORE_TOOLS)
    return [tool for given in declared for tool in _tools(given)]


TYPES = frozenset({"input_text", "input_image", "input_file", "output_text"})
"""The types of parts that no other API has."""


def _holds(items: Sequence[Mapping[str, json_fields.Json]]) -> bool:
    # An answer of Anthropic's SDK is a message by its type too, but no user's message is.
    kinds = {
        (json_fields.as_str(each.get("type")), each.get("role") == "assistant")
        for each in items
        if "type" in each
    }
    return bool(kinds - {("message", True)}) or not TYPES.isdisjoint(reading.part_types(items))


READER = reading.MessageReader(
    message=read_item,
    provider=PROVIDER,
    system=lambda body: reading.texts_in(body.get("instructions")),
    tools=lambda body: _tools(body.get("tools")),
    on_card=frozenset(
        {"max_output_tokens", "temperature", "top_p", "reasoning", "text", "truncation", "include"}
    ),
    holds=_holds,
    tools_of_messages=_tools_of_items,
    on_card_with_tools=TOOL_PARAMETERS,
    by_items=True,
    follows="previous_response_id",
    stored=("conversation", "prompt"),
)
