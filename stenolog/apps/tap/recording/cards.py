"""Agent cards from requests of programs: model, system prompt, tools and parameters."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from stenolog.apps.tap.exchanges.wire import WireRequest
from stenolog.domain.card import AgentCard
from stenolog.domain.errors import StenologError
from stenolog.domain.values import Tool
from stenolog.projections.formats.reading import SCHEMAS, read_tool
from stenolog.projections.messages.json_fields import as_str
from stenolog.projections.requests.as_sent import without_halves

BETWEEN = "\n\n"


def card_of(request: WireRequest, before: AgentCard | None, stored: Collection[str] = ()) -> AgentCard:
    """Return the card that a request shows; the previous one if unchanged.

    `stored` are the names of tools that the provider has with earlier messages.
    """
    try:
        tools = tuple(_tools(request))
        if request.previous and before is not None:
            names = {tool.name for tool in tools}
            tools += tuple(t for t in before.tools or () if t.name in stored and t.name not in names)
        card = AgentCard(
            model=request.model,
            provider=request.reader.provider,
            persona=without_halves(BETWEEN.join(request.system_texts)),
            tools=tools,
            parameters=_parameters(request, has_tools=bool(tools)),
        )
    except StenologError:
        card = AgentCard(model=without_halves(request.model), provider=request.reader.provider)
    return before if before is not None and _is_same(before, card) else card


def _is_same(before: AgentCard, card: AgentCard) -> bool:
    """Return whether two cards differ only in parameters that one had to leave out."""
    if before == card:
        return True
    return not before.parameters.get("max_tokens") and before == without_parameters(card)


def without_parameters(card: AgentCard) -> AgentCard:
    """Return the card without its parameters."""
    return replace(card, parameters={})


def _parameters(request: WireRequest, *, has_tools: bool) -> dict[str, Any]:
    reader, body = request.reader, request.body
    given = {key: without_halves(value) for key, value in body.items() if key in reader.on_card}
    if has_tools:
        kinds = reader.on_card_with_tools
        given |= {key: body[key] for key, kind in kinds.items() if isinstance(body.get(key), kind)}
    return {**given, **reader.beside}


def _tools(request: WireRequest) -> Iterator[Tool]:
    """Yield the client's own tools, the first of a name; the provider's are only in receipts."""
    names = set[str]()
    for given in request.declared_tools:
        tool = without_halves(given)
        name = as_str(tool.get("name"))
        schema = next((tool[key] for key in SCHEMAS if isinstance(tool.get(key), dict)), None)
        is_free = tool.get("type") == "custom"  # its input is a text
        if not name or (schema is None and not is_free and tool.keys() - {"name", "description", "type"}):
            continue
        if name in names:
            continue
        names.add(name)
        if is_free and isinstance(tool.get("format"), dict):
            text_schema = {"type": "string", GRAMMAR: tool.pop("format")}
            tool["parameters"] = {"type": "object", "properties": {"input": text_schema}}
        yield read_tool(tool, request.reader.provider)


GRAMMAR = "x-format"
"""The key, in the schema of a tool whose input is a text, of the form that OpenAI holds the text to."""
