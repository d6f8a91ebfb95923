"""A card's parameters under names that no provider owns; each API says them in its provider's words.

`max_tokens` (of the answer), `temperature`, `top_p`, `stop` (texts), `tool_choice` ("auto", "none",
"required" or `{"tool": name}`), `output` (`{"name", "schema", "strict"?}`: the answer is JSON of that
schema), `parallel_tool_calls` (several calls at once) and `effort` ("low", "medium", "high").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.domain.base.model import deep_copy_json
from stenolog.domain.card import AgentCard
from stenolog.domain.errors import CallerError
from stenolog.projections.messages.identifiers import tool_name
from stenolog.projections.messages.message import Body, Preamble

from .body_builder import BodyBuilder

Mode: TypeAlias = Literal["auto", "none", "required", "tool"]
# Every provider refuses these without tools.
ABOUT_TOOLS = ("tool_choice", "parallel_tool_calls")
"""Parameters that are about tools."""


class Choice(NamedTuple):
    """The tool choice; `tool` is the one that the model must call, as in the body."""

    mode: Mode
    tool: str = ""


class AnswerSchema(NamedTuple):
    """The JSON Schema of the answer; `strict` None: the provider's default."""

    name: str
    schema: dict[str, Any]
    strict: bool | None = None


Say: TypeAlias = Callable[[str, Any], Body | None]
"""A translation of a neutral name and its value to an API; None: the provider has no equivalent."""


def parameters(builder: BodyBuilder, preamble: Preamble, own: frozenset[str], say: Say) -> Body:
    """Return the card's parameters as an API sends them: neutral names by `say`, and the API's `own`.

    Own names win. Others are listed as not carried. Raises `CallerError` if the card chooses a tool that it
    lacks.
    """
    said: Body = {}
    given: Body = {}
    lost: Body = {}
    for name, value in set_by(preamble.card).items():
        known = READERS[name](value) if name in READERS else None
        if isinstance(known, Choice):
            _check_choice(known, value, preamble)
        made = None if known is None else say(name, known)
        if name in ABOUT_TOOLS and not preamble.tools:
            lost[name] = value
        elif made is not None:
            said = merged(said, made)
        elif name in own:
            given[name] = value
        else:
            lost[name] = value
    if lost:
        builder.omit_parameters(preamble, lost)
    # The provider's own names win: who writes them means this very API.
    whole = merged(said, given)
    builder.explain_parameters(preamble, whole)
    return whole


def set_by(card: AgentCard) -> Body:
    """Return a copy of a card's parameters without nulls, the neutral names first in their order."""
    given = card.parameters
    return {name: deep_copy_json(given[name]) for name in (*READERS, *given) if given.get(name) is not None}


def merged(below: Body, above: Body) -> Body:
    """Return `above` over `below`; objects are merged by key, unless they name their type."""
    both = {
        name: {**below[name], **value}
        for name, value in above.items()
        # An object with a type is one of several kinds: two of them cannot be mixed key by key.
        if isinstance(value, dict) and "type" not in value and isinstance(below.get(name), dict)
    }
    return below | above | both


def _check_choice(choice: Choice, given: Any, preamble: Preamble) -> None:
    known = {tool_name(tool.name): tool.name for tool in preamble.tools}
    if choice.tool and choice.tool not in known:
        names = ", ".join(map(repr, known.values())) or "none"
        raise CallerError(
            f"agent {preamble.speaker!r}: tool_choice {given!r} names a tool that it does not have; "
            f"known are {names}"
        )


def _tokens(value: Any) -> int | None:
    # `type`, since a bool is an int to `isinstance`.
    return value if type(value) is int and value > 0 else None


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _texts(value: Any) -> list[str] | None:
    given = [value] if isinstance(value, str) else value
    fits = isinstance(given, list) and given and all(isinstance(text, str) and text for text in given)
    return given if fits else None


def _choice(value: Any) -> Choice | None:
    """Return a choice in neutral words, or in the shape of any provider."""
    match value:
        case ("auto" | "none" | "required" as mode) | {"type": "auto" | "none" | "required" as mode}:
            return Choice(mode)
        case "any" | {"type": "any"}:
            return Choice("required")
        case (
            {"tool": str(name)}
            | {"type": "tool" | "function", "name": str(name)}
            | {"type": "function", "function": {"name": str(name)}}
        ):
            return Choice("tool", tool_name(name))
        case _:
            return None


def _output(value: Any) -> AnswerSchema | None:
    match value:
        case {"name": str(name), "schema": dict(schema)}:
            strict = value.get("strict")
            fits = name and (strict is None or isinstance(strict, bool))
            return AnswerSchema(name, schema, strict) if fits else None
        case _:
            return None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _effort(value: Any) -> str | None:
    return value if value in ("low", "medium", "high") else None


READERS: Mapping[str, Callable[[Any], Any]] = {
    "max_tokens": _tokens,
    "temperature": _number,
    "top_p": _number,
    "stop": _texts,
    "tool_choice": _choice,
    "output": _output,
    "parallel_tool_calls": _flag,
    "effort": _effort,
}
"""The neutral names, each with what reads its value; None: malformed."""
