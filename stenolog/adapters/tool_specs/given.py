"""Tools as callers give them: functions, tools of these, dictionaries of OpenAI and Anthropic."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias

from stenolog.domain.base.value_help import slips
from stenolog.domain.errors import CallerError, InvalidEventError
from stenolog.domain.policy import PolicyLike
from stenolog.domain.values import Tool
from stenolog.projections.formats.reading import SCHEMAS, own_tool, read_tool
from stenolog.projections.messages.json_fields import Json, as_dict, as_str

from .signatures import Parameters, checked_name, name_of, tool_spec

NAMESPACED = re.compile(r"[A-Za-z_][A-Za-z0-9_./:-]{0,63}")
"""A name with a namespace, such as `fs.read`: providers are sent another, and `answer_from` gives it back."""


class DescribedTool(Protocol):
    """A tool that describes itself as those of LangChain do."""

    name: str
    description: str

    @property
    def tool_call_schema(self) -> Any:
        """The pydantic model or JSON Schema of a model's arguments."""


ToolSpecLike: TypeAlias = Tool | Callable[..., Any] | Mapping[str, Any] | DescribedTool
"""The forms in which a tool may be given to a model."""
TAKEN = "a function, a Tool, or a function's schema as a dictionary of OpenAI's or Anthropic's"
KEYS = ("name", "description", "strict")
"""The keys of a tool, beside that of its schema; others are the provider's own."""


def card_fields(
    model: str | None,
    persona: str | None,
    tools: Iterable[ToolSpecLike] | None,
    parameters: Mapping[str, Any] | None,
    policy: PolicyLike,
) -> dict[str, Any]:
    """Return the given fields of an agent's card; None means not given.

    Raises `CallerError` for an invalid tool.
    """
    given = {
        "model": model,
        "persona": persona,
        "parameters": None if parameters is None else dict(parameters),
        "policy": policy,
    }
    fields = {name: value for name, value in given.items() if value is not None}
    return fields if tools is None else {**fields, "tools": tool_specs(tools) or None}


def tool_specs(given: Iterable[ToolSpecLike]) -> tuple[Tool, ...]:
    """Return these tools' descriptions for a model.

    Raises `CallerError` for an invalid tool, a function without a JSON Schema, and equal names.
    """
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise CallerError(f"tools: expected a list of tools, found {given!r:.100}")
    specs: dict[str, Tool] = {}
    for nth, each in enumerate(given):
        try:
            spec = _spec(each)
        except (CallerError, InvalidEventError) as error:
            raise CallerError(f"tools[{nth}]: {error}") from None
        if spec.name in specs:
            raise CallerError(f"tools[{nth}]: expected another name, found a second {spec.name!r}")
        specs[spec.name] = spec
    return tuple(specs.values())


def _spec(given: object) -> Tool:
    made = getattr(given, "spec", None)
    match given:
        case Tool():
            return given
        case _ if isinstance(made, Tool):
            return made
        case Mapping():
            return _declared(dict(given))
        case _ if not isinstance(given, type) and (schema := _langchain_schema(given)) is not None:
            return read_tool({"name": given.name, "description": given.description, "parameters": schema})  # type: ignore[attr-defined]
        case _ if callable(given):
            name = name_of(given)
            return tool_spec(given, Parameters(given, name), name=name)
        case _:
            raise CallerError(f"expected {TAKEN}; found {given!r:.100}")


def _langchain_schema(given: object) -> Json | None:
    is_named = all(isinstance(getattr(given, field, None), str) for field in ("name", "description"))
    # Not `args_schema`: it may have arguments that LangGraph injects, which no model is told of.
    schema = getattr(given, "tool_call_schema", None) if is_named else None
    as_json = getattr(schema, "model_json_schema", None)
    written = as_json() if callable(as_json) else schema
    if not isinstance(written, Mapping):
        return None
    return {key: _untitled(value) for key, value in written.items() if key not in ("title", "description")}


def _untitled(schema: Any) -> Any:
    """Return a schema without pydantic's titles of fields."""
    if isinstance(schema, list):
        return [_untitled(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _untitled(each) for key, each in schema.items() if key != "title" or not isinstance(each, str)
    }


def _declared(given: dict[str, Any]) -> Tool:
    """Return a dictionary's tool. Raises `CallerError`."""
    kind, inner = given.get("type", "function"), given.get("function", given)
    if own := own_tool(given):
        return own
    has_schema = any(isinstance(as_dict(inner).get(field), dict) for field in SCHEMAS)
    if not (kind == "function" or has_schema) or not as_str(as_dict(inner).get("name")):
        raise CallerError(f"expected {TAKEN}; found {given!r:.200}")
    keys = KEYS if any(field in inner for field in SCHEMAS) else (*KEYS, *SCHEMAS)
    if slip := slips([*inner], keys):
        raise CallerError(slip)
    for field in SCHEMAS:
        if not isinstance(inner.get(field) or {}, dict):
            raise CallerError(f"{field}: expected a JSON Schema, found {inner[field]!r:.100}")
    if not NAMESPACED.fullmatch(inner["name"]):
        checked_name(inner["name"])
    return read_tool(given)
