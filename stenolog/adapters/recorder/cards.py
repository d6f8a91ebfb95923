"""The card of an agent, from a request of its program: model, system prompt, tools and parameters."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from stenolog.domain.card import AgentCard
from stenolog.domain.errors import StenologError
from stenolog.domain.values import Tool
from stenolog.projections.messages.json_fields import as_dict, as_str
from stenolog.projections.requests.as_sent import without_halves

from .wire import WireRequest, declared_tools, system_texts

PROVIDERS: Mapping[str, str] = {
    "anthropic": "anthropic",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "gemini": "gemini",
}
PARAMETERS: Mapping[str, frozenset[str]] = {
    "anthropic": frozenset(
        {
            "max_tokens", "temperature", "top_p", "top_k", "stop_sequences", "thinking", "output_config",
            "context_management",
        }
    ),
    "openai-chat": frozenset(
        {
            "temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "response_format",
            "frequency_penalty", "presence_penalty", "reasoning_effort", "verbosity", "store",
        }
    ),
    "openai-responses": frozenset(
        {"max_output_tokens", "temperature", "top_p", "reasoning", "text", "truncation", "include"}
    ),
    "gemini": frozenset({"generationConfig", "safetySettings"}),
}  # fmt: skip
"""The parameters that stand on a card. Others change from request to request, and stand in receipts."""
TOOL_PARAMETERS = {"tool_choice": str, "parallel_tool_calls": bool}
"""Parameters of OpenAI's APIs, in the forms that cards have too; a request without tools has neither."""
BETWEEN = "\n\n"


def card_of(request: WireRequest, before: AgentCard | None, stored: Collection[str] = ()) -> AgentCard:
    """Return the card that a request shows; the one before where nothing of it has changed.

    `stored` are the names of the tools that the provider has with the messages before.
    """
    try:
        tools = tuple(_tools(request))
        if request.previous and before is not None:
            there = {tool.name for tool in tools}
            tools += tuple(t for t in before.tools or () if t.name in stored and t.name not in there)
        card = AgentCard(
            model=request.model,
            provider=PROVIDERS[request.api],
            persona=without_halves(BETWEEN.join(system_texts(request))),
            tools=tools,
            parameters=_parameters(request, has_tools=bool(tools)),
        )
    except StenologError:
        card = AgentCard(model=without_halves(request.model), provider=PROVIDERS[request.api])
    return before if before is not None and _is_same(before, card) else card


def _is_same(before: AgentCard, card: AgentCard) -> bool:
    """Return whether a card says what the one before says, except for parameters that it had to leave out."""
    if before == card:
        return True
    return not before.parameters.get("max_tokens") and before == without_parameters(card)


def without_parameters(card: AgentCard) -> AgentCard:
    """Return the card without its parameters."""
    return replace(card, parameters={})


def _parameters(request: WireRequest, *, has_tools: bool) -> dict[str, Any]:
    known = PARAMETERS[request.api]
    given = {key: without_halves(value) for key, value in request.body.items() if key in known}
    if PROVIDERS[request.api] == "openai" and has_tools:
        body = request.body
        given |= {key: body[key] for key, kind in TOOL_PARAMETERS.items() if isinstance(body.get(key), kind)}
    # Where the marks of the cache stand is the client's own doing: see the receipts.
    return {**given, "cache": False} if request.api == "anthropic" else given


def _tools(request: WireRequest) -> Iterator[Tool]:
    """Yield the tools of the client's own; those that a provider runs itself stand in receipts alone.

    Of two with one name the first counts.
    """
    names = set[str]()
    for given in declared_tools(request):
        tool = without_halves(given)
        if request.api == "openai-chat":
            tool = as_dict(tool.get("function"))
        name = as_str(tool.get("name"))
        schema = next((tool[key] for key in SCHEMAS if isinstance(tool.get(key), dict)), None)
        is_free = tool.get("type") == "custom"  # its input is a text
        if not name or (schema is None and not is_free and tool.keys() - {"name", "description", "type"}):
            continue
        if name in names:
            continue
        names.add(name)
        strict = tool.get("strict") if isinstance(tool.get("strict"), bool) else None
        if is_free and isinstance(tool.get("format"), dict):
            schema = {"type": "object", "properties": {"input": {"type": "string", GRAMMAR: tool["format"]}}}
        yield Tool(
            name=name, description=as_str(tool.get("description")), parameters=schema or {}, strict=strict
        )


GRAMMAR = "x-format"
"""The key, in the schema of a tool whose input is a text, of the form that OpenAI holds the text to."""
SCHEMAS = ("input_schema", "parameters", "parametersJsonSchema")
"""The keys of a tool's schema, on one API or another."""
