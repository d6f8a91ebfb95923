"""Prefix of a request, which precedes the conversation: texts, tools and model, for an API to write.

A lane without a card has one made by rule: the model that it last answered with, and a stub for each
tool that it called. Whatever called a tool is declared, for Anthropic refuses tool blocks without tools.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stenolog.domain.card import AgentCard
from stenolog.domain.model import construct
from stenolog.domain.values import Tool
from stenolog.projections.requests.request import Section
from stenolog.projections.requests.tokens import ESTIMATE, Counter

from .identifiers import tool_name

DEFAULT_MODEL = "unspecified"
"""The model named in a body where neither a card nor an answer names one."""


class Prefix(NamedTuple):
    """The text before the conversation, with the model and the tools.

    `persona` is the text of all its `sections`. `stubs` are those of the tools that were made by rule;
    `set_at` is the position of the mode switch that the card is from, none where there is no card.
    """

    speaker: str
    model: str
    persona: str
    tools: tuple[Tool, ...]
    stubs: frozenset[str]
    card: AgentCard
    set_at: tuple[int, ...] = ()
    sections: tuple[Section, ...] = ()
    counter: Counter = ESTIMATE


def prefix(
    speaker: str,
    card: AgentCard,
    sections: tuple[Section, ...],
    called: Iterable[str],
    *,
    model: str = "",
    set_at: tuple[int, ...] = (),
    counter: Counter = ESTIMATE,
) -> Prefix:
    """The prefix of a lane, from its card and what it has done: `called` are the names of the tools that it
    called, each once, and `model` is the one it last answered with."""
    declared: dict[str, Tool] = {}
    for tool in card.tools or ():
        declared.setdefault(tool_name(tool.name), tool)
    tools = tuple(declared.values())
    stubs = tuple(construct(Tool, name=name) for name in called if tool_name(name) not in declared)
    return Prefix(
        speaker=speaker,
        model=card.model or model or DEFAULT_MODEL,
        persona="\n\n".join(section.text for section in sections),
        tools=tools + stubs,
        stubs=frozenset(tool.name for tool in stubs),
        card=card,
        set_at=set_at,
        sections=sections,
        counter=counter,
    )
