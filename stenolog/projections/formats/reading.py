"""Values that a provider's message is read as, and the formats' shared reading."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from stenolog.domain.parts import (
    AssistantPart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UserPart,
)
from stenolog.domain.values import Tool
from stenolog.projections.messages import json_fields

SYSTEM_ROLES = ("system", "developer")
MORE_TOOLS = "additional_tools"
"""The item in which a newer Codex declares its tools, grouped by namespaces."""


class Spoken(NamedTuple):
    """Words of a user or of the system; `name` is the author's. `rest` has other fields."""

    role: Literal["user", "system"]
    parts: tuple[UserPart, ...]
    name: str = ""
    rest: Mapping[str, json_fields.Json] = {}


class Reply(NamedTuple):
    """Words and calls of the model."""

    parts: tuple[AssistantPart, ...]
    rest: Mapping[str, json_fields.Json] = {}


class Result(NamedTuple):
    """A call's result. `name` is the tool's, if repeated."""

    call_id: str
    parts: tuple[UserPart, ...]
    name: str = ""
    is_error: bool = False
    rest: Mapping[str, json_fields.Json] = {}


Item: TypeAlias = Spoken | Reply | Result
ReadMessage: TypeAlias = Callable[[Mapping[str, json_fields.Json], str, json_fields.Blobs], Iterator[Item]]
"""Function that reads a message; it gets the model that answers, and keeps media among the blobs."""


Body: TypeAlias = Mapping[str, json_fields.Json]
Tools: TypeAlias = list[dict[str, json_fields.Json]]


class MessageReader(NamedTuple):
    """Reader of a format's messages, and of the parts of a body that are on a card.

    `provider` is its name on cards. `system` returns the texts of the system prompt, which are in the first
    message if `instructs_by_message`. `tools` returns the client's own tools, and `tools_of_messages` those
    declared in messages. `on_card` are the parameters that stay from request to request, `on_card_with_tools`
    those that stay if there are tools, and `beside` others. `holds` returns whether a list of messages is in
    this format, by keys and types that no other has. `by_items`: an answer may be several messages. `role` is
    the key of the speaker in a message.

    `follows` is the key of the response that a request goes on from, `stored` are the keys that name other
    contents which the provider has kept, and `wrapped` is that of an inner request whose tokens are counted.
    """

    message: ReadMessage
    provider: str
    system: Callable[[Body], list[str]]
    tools: Callable[[Body], Tools]
    on_card: frozenset[str]
    holds: Callable[[Sequence[Mapping[str, json_fields.Json]]], bool] = lambda messages: False
    tools_of_messages: Callable[[Iterable[Mapping[str, json_fields.Json]]], Tools] = lambda messages: []
    on_card_with_tools: Mapping[str, type] = {}
    beside: Mapping[str, json_fields.Json] = {}
    follows: str = ""
    stored: tuple[str, ...] = ()
    wrapped: str = ""
    instructs_by_message: bool = False
    by_items: bool = False
    role: str = "role"


def role_of(message: Mapping[str, json_fields.Json]) -> Literal["user", "system"]:
    """Return who says a message that is not the model's."""
    return "system" if message.get("role") in SYSTEM_ROLES else "user"


def texts_in(given: json_fields.Json) -> list[str]:
    """Return a system prompt's texts: from a text, a part, or a list."""
    if isinstance(given, str):
        return [given] if given else []
    parts = given if isinstance(given, list) else [given]
    return [text for part in parts if (text := json_fields.as_str(json_fields.as_dict(part).get("text")))]


def objects_in(given: json_fields.Json) -> list[dict[str, json_fields.Json]]:
    """Return the objects of a list."""
    return [each for each in json_fields.as_list(given) if isinstance(each, dict)]


def part_types(messages: Iterable[Mapping[str, json_fields.Json]]) -> set[str]:
    """Return the types of the messages' parts."""
    return {
        json_fields.as_str(part.get("type")) for each in messages for part in objects_in(each.get("content"))
    }


def call_name(before: Collection[str]) -> str:
    """Return an id for a call without one; `before` are the answer's earlier ones.

    Gemini often gives none, and a result has to name its call.
    """
    free = (f"call_{n}" for n in range(len(before), 2 * len(before) + 1))
    return next(id for id in free if id not in before)


def without_blanks(parts: Iterable[AssistantPart]) -> tuple[AssistantPart, ...]:
    """Return an answer's non-blank parts; of a blank answer its first."""
    made = tuple(parts)
    return tuple(filter(_says_something, made)) or made[:1]


def _says_something(part: AssistantPart) -> bool:
    match part:
        case TextPart(text="", raw="") | RefusalPart(text=""):
            return False
        case ReasoningPart(text="", signature="", encrypted="", id=""):
            return False
        case _:
            return True


SCHEMAS = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema")
"""The names of the field with a tool's JSON Schema: OpenAI's and Gemini's, Anthropic's, that of MCP."""
TOOL = ("type", "name", "description", "strict", "cache_control", *SCHEMAS)
OWN: Mapping[str, re.Pattern[str]] = {
    "anthropic": re.compile(r"[a-z][a-z0-9_]*_\d{8}|mcp_toolset"),
    "openai": re.compile(
        r"(web|file|tool)_search\w*|code_interpreter|image_generation|mcp|(local_)?shell|apply_patch|computer\w*"
    ),
    "gemini": re.compile(r"google\w+|urlContext|codeExecution|fileSearch|computerUse"),
}
"""The tools that a provider has itself: what their type is, and for Gemini their one key."""


def read_tool(given: json_fields.Json, provider: str = "") -> Tool:
    """Return the tool that a dictionary describes.

    Other keys are its `provider`'s, known by the form if not given.
    """
    tool = json_fields.as_dict(given)
    inner = json_fields.as_dict(tool.get("function")) or json_fields.as_dict(tool.get("custom")) or tool
    strict = inner.get("strict")
    schemas = (json_fields.as_dict(inner.get(field)) for field in SCHEMAS)
    by = provider or ("anthropic" if "input_schema" in tool else "" if "inputSchema" in tool else "openai")
    return Tool(
        name=json_fields.as_str(inner.get("name")),
        description=json_fields.as_str(inner.get("description")),
        parameters=next(filter(None, schemas), {}),
        strict=strict if isinstance(strict, bool) else None,
        **(json_fields.rest_of(inner, by, *TOOL) if by else {}),
    )


def own_tool(given: Mapping[str, json_fields.Json]) -> Tool | None:
    """Return a provider's own tool, which is sent as it is declared; else None."""
    kind = json_fields.as_str(given.get("type")) or (next(iter(given), "") if len(given) == 1 else "")
    by = next((by for by, types in OWN.items() if types.fullmatch(kind)), "")
    if not by or not {"function", *SCHEMAS}.isdisjoint(given):
        return None
    name = json_fields.as_str(given.get("name")) or json_fields.as_str(given.get("server_label")) or kind
    return Tool(name=name, provider=by, raw=json_fields.compact_json({"type": kind, **given}))


def likeness(message: Mapping[str, json_fields.Json]) -> json_fields.Json:
    """Return what a message says, whatever form its client gives it."""
    return _plain(_without_id(message))


def _without_id(item: Mapping[str, json_fields.Json]) -> Mapping[str, json_fields.Json]:
    kind = json_fields.as_str(item.get("type"))
    if kind not in ("message", MORE_TOOLS) and not kind.endswith("_output"):
        return item  # of a thought that is encrypted away, say, the id is all that there is
    return {key: value for key, value in item.items() if key not in ITEM_FORMS}


def _plain(value: json_fields.Json, key: str = "") -> json_fields.Json:
    match value:
        case str() if key in ("content", "parts"):
            return [{"text": value}]
        case dict():
            kept = {name: _plain(inner, name) for name, inner in value.items() if name not in FORMS}
            is_text = value.get("type") in ("text", "input_text", "output_text")
            return {name: inner for name, inner in kept.items() if not (is_text and name in TEXT_FORMS)}
        case list():
            return [_plain(each) for each in value]
        case _:
            return value


ITEM_FORMS = frozenset({"id", "status", "internal_chat_message_metadata_passthrough"})
"""Keys of an item that say nothing that was said."""
FORMS = frozenset({"thoughtSignature", "thought_signature", "cache_control"})
"""Keys that say nothing that was said."""
TEXT_FORMS = frozenset({"type", "annotations", "logprobs", "citations"})
"""Keys of a text that some clients leave out of their history; the log keeps the citations of an answer."""
