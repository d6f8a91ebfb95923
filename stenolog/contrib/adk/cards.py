"""Instructions and tools of agents, where a file tells them, for the agents' cards.

The first releases logged each request to a model beside the events. Evaluation sets have details of agents.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stenolog.events import Tool
from stenolog.importers import Json, as_dict, as_list, as_str

from .events import camel_case, field, parts_of

CARD = "stenolog_card"
"""The field that is added to an event, with what is known of its agent."""
NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


def card_of(source: Json) -> dict[str, Any]:
    """Return the fields of a card from what a file tells: the instructions, and declarations of tools."""
    fields = as_dict(source)
    instructions = fields.get("instructions")
    persona = instructions if isinstance(instructions, str) else _text(instructions)
    tools = tuple(_tools(as_list(fields.get("tools"))))
    return {name: value for name, value in (("persona", persona), ("tools", tools)) if value}


def with_logs(session: dict[str, Any]) -> list[Json]:
    """Return the events of a session, each with the facts of the request that led to it."""
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
    """Return what an evaluation's turn knows of its agents, by their names, as fields for their events."""
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
    """Yield the functions among the tools, which stand in groups or by themselves."""
    for each in map(as_dict, declarations):
        declared = field(each, "function_declarations")
        for function in map(as_dict, declared if isinstance(declared, list) else [each]):
            if name := as_str(function.get("name")):
                schema = field(function, "parameters_json_schema") or _schema(function.get("parameters"))
                parameters = schema if isinstance(schema, dict) and schema else NO_PARAMETERS
                yield Tool(name=name, description=as_str(function.get("description")), parameters=parameters)


def _schema(value: Json) -> Json:
    """Return a schema of Gemini's as a JSON Schema: the names of types are small there."""
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
