"""Events of Google ADK in files, with one spelling of their fields.

ADK writes snake_case or, for its web client, camelCase. Contents become Gemini's API form: camelCase,
standard base64.

The first releases logged each request beside the events. Evaluation sets have instructions and tools of
agents.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from stenolog.events import ErrorCategory, Tool
from stenolog.importers import Json, as_dict, as_list, as_str
from stenolog.parts import AssistantPart, ReasoningPart, TextPart, ToolCall

CARD = "stenolog_card"
"""The field that is added to an event, with what is known of its agent."""
NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


def card_of(source: Json) -> dict[str, Any]:
    """Return the card fields of a source: instructions and tool declarations."""
    fields = as_dict(source)
    instructions = fields.get("instructions")
    persona = instructions if isinstance(instructions, str) else _text(instructions)
    tools = tuple(_tools(as_list(fields.get("tools"))))
    return {name: value for name, value in (("persona", persona), ("tools", tools)) if value}


def with_logs(session: dict[str, Any]) -> list[Json]:
    """Return a session's events, each with the facts of its request."""
    logs = {as_str(log.get("event_id")): log for log in map(as_dict, as_list(session.get("event_logs")))}
    return [_with_log(each, logs) for each in (*as_list(session.get("past_events")), *session["events"])]


def _with_log(event: Json, logs: dict[str, dict[str, Any]]) -> Json:
    log = logs.get(as_str(as_dict(event).get("id")))
    if log is None or not isinstance(event, dict):
        return event
    request, answer = as_dict(log.get("model_request")), as_dict(log.get("model_response"))
    config = as_dict(request.get("config"))
    candidate = as_dict(next(iter(as_list(answer.get("candidates"))), None))
    facts = {
        "model_version": request.get("model"),
        "usage_metadata": answer.get("usage_metadata"),
        "finish_reason": candidate.get("finish_reason"),
        CARD: {"instructions": config.get("system_instruction"), "tools": config.get("tools")},
    }
    return {**facts, **event}


def details_of(turn: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the agents' event fields in an evaluation's turn, by name."""
    agents = as_dict(field(as_dict(field(turn, "app_details")), "agent_details"))
    return {
        name: {
            CARD: {"instructions": field(about, "instructions"), "tools": field(about, "tool_declarations")}
        }
        for name, about in ((name, as_dict(details)) for name, details in agents.items())
    }


def _text(content: Json) -> str:
    return "\n".join(as_str(part.get("text")) for part in parts_of(content))


def _tools(declarations: list[Json]) -> Iterator[Tool]:
    for each in map(as_dict, declarations):
        declared = field(each, "function_declarations")
        for function in map(as_dict, declared if isinstance(declared, list) else [each]):
            if name := as_str(function.get("name")):
                schema = field(function, "parameters_json_schema") or _schema(function.get("parameters"))
                parameters = schema if isinstance(schema, dict) and schema else NO_PARAMETERS
                yield Tool(name=name, description=as_str(function.get("description")), parameters=parameters)


def _schema(value: Json) -> Json:
    """Return Gemini's schema as a JSON Schema, whose type names are lower case."""
    if isinstance(value, list):
        return [_schema(each) for each in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, Json] = {}
    for name, inner in value.items():
        if inner is None:
            continue
        if name == "properties" and isinstance(inner, dict):
            found[name] = {key: _schema(each) for key, each in inner.items()}
        elif name == "type" and isinstance(inner, str):
            found[name] = inner.lower()
        elif name in ("enum", "default", "example", "required"):
            found[name] = inner
        else:
            found[camel_case(name)] = _schema(inner)
    return found


PROVIDER = "gemini"
CATEGORIES: dict[str, ErrorCategory] = {
    **dict.fromkeys(
        ("SAFETY", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "RECITATION", "IMAGE_SAFETY"), "refused"
    ),
    **dict.fromkeys(
        ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MAX_TOKENS", "OTHER", "LANGUAGE"),
        "invalid_response",
    ),
    "RESOURCE_EXHAUSTED": "rate_limited",
    "UNAVAILABLE": "overloaded",
    "DEADLINE_EXCEEDED": "timeout",
    "CANCELLED": "cancelled",
    "UNAUTHENTICATED": "unauthorized",
    "PERMISSION_DENIED": "unauthorized",
    "INVALID_ARGUMENT": "invalid_request",
}


def joined(parts: Iterable[AssistantPart]) -> list[AssistantPart]:
    """Return the parts of streamed fragments; neighbours of one kind are joined."""
    found: list[AssistantPart] = []
    for part in parts:
        last = found[-1] if found else None
        if isinstance(part, TextPart) and isinstance(last, TextPart):
            found[-1] = replace(last, text=last.text + part.text)
        elif isinstance(part, ReasoningPart) and isinstance(last, ReasoningPart) and not last.signature:
            found[-1] = replace(part, text=last.text + part.text)
        elif not isinstance(part, ToolCall):
            found.append(part)
    return found


USER = "user"
_BREAK = re.compile(r"_([a-z0-9])")
_OBJECTS = frozenset(
    {
        "codeExecutionResult",
        "executableCode",
        "fileData",
        "functionCall",
        "functionResponse",
        "inlineData",
        "videoMetadata",
    }
)
"""The fields of a part whose own fields have names of ADK's; what tools get and give is left unchanged."""
_STANDARD = str.maketrans("-_", "+/")
ABOUT = (
    "branch",
    "citation_metadata",
    "custom_metadata",
    "grounding_metadata",
    "output",
    "artifact_delta",
    "escalate",
    "route",
    "state_delta",
    "transfer_reason",
    "transfer_to_agent",
)
"""The facts about an event that are kept in its `meta`."""


class AdkEvent(NamedTuple):
    """An event; `key` is its entry's id, `fields` are as in the file."""

    key: str
    id: str
    author: str
    invocation: str
    fields: dict[str, Any]

    @property
    def parts(self) -> list[dict[str, Any]]:
        """The parts of the content, or of what was transcribed of speech."""
        return parts_of(self.get("content")) or [
            {"text": text}
            for name in ("input_transcription", "output_transcription")
            if (text := as_str(as_dict(self.get(name)).get("text")))
        ]

    @property
    def is_input(self) -> bool:
        """True if a person is the author."""
        return self.author == USER

    @property
    def is_partial(self) -> bool:
        """True if it is a fragment of a stream; ADK writes the whole answer after it."""
        return self.get("partial") is True or as_dict(self.fields.get("options")).get("partial") is True

    @property
    def actions(self) -> dict[str, Any]:
        """The actions; the first releases called them options."""
        return as_dict(self.get("actions")) or as_dict(self.get("options"))

    def get(self, name: str) -> Json:
        """Return a field by its name in snake_case; None if it is missing."""
        return field(self.fields, name)

    def about(self) -> dict[str, Any]:
        """Return the invocation and the actions that change something."""
        actions = self.actions
        found = {name: self.get(name) or field(actions, name) for name in ABOUT}
        found["state_delta"] = found["state_delta"] or actions.get("update_context")
        found["invocation"] = self.invocation
        return {name: value for name, value in found.items() if value}


def field(value: dict[str, Any], name: str) -> Json:
    """Return a field in either spelling, named in snake_case; None if missing."""
    return value.get(name) if value.get(name) is not None else value.get(camel_case(name))


def camel_case(name: str) -> str:
    """Return a name of snake_case in camelCase."""
    return _BREAK.sub(lambda found: found[1].upper(), name)


def parts_of(content: Json) -> list[dict[str, Any]]:
    """Return the non-empty parts of a content in Gemini's API form."""
    raw = as_list(as_dict(content).get("parts")) if isinstance(content, dict) else as_list(content)
    return [part for each in raw if (part := gemini_part(as_dict(each)))]


def gemini_part(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part in Gemini's API form; empty if no field has a value."""
    return dict(_part_fields(part))


def _part_fields(part: dict[str, Any]) -> Iterator[tuple[str, Json]]:
    for name, value in part.items():
        key = camel_case(name)
        if value is None or (key == "thought" and not value):
            continue
        if key in _OBJECTS and isinstance(value, dict):
            value = {camel_case(inner): each for inner, each in value.items() if each is not None}
            if isinstance(value.get("data"), str):
                value["data"] = standard_base64(value["data"])
            if key == "functionResponse" and isinstance(value.get("parts"), list):
                value["parts"] = [gemini_part(as_dict(each)) for each in value["parts"]]
        elif key == "thoughtSignature":
            value = standard_base64(as_str(value))
        yield key, value


def standard_base64(text: str) -> str:
    """Return base64 in the usual alphabet; ADK writes that of URLs."""
    text = text.translate(_STANDARD)
    return text + "=" * (-len(text) % 4)
