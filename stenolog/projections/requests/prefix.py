"""Stage 5, prefix: what stands before the conversation: the persona, and the tools.

A lane without a card has one made by rule: the model that it last answered with, and a stub for each
tool that it called. Whatever called a tool is declared, for Anthropic refuses tool blocks without tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, ModeSwitch
from stenolog.domain.parts import ToolCall
from stenolog.domain.values import Card, Tool

from .model import Piece
from .names import tool_name
from .visible import Lane

DEFAULT_MODEL = "unspecified"
"""The model named in a body where neither a card nor an answer names one."""


class Prefix(NamedTuple):
    """What stands before the conversation.

    `stubs` are those of the tools that were made by rule; `set_at` is the position of the mode switch that
    the card is from, none where there is no card.
    """

    speaker: str
    model: str
    persona: str
    tools: tuple[Tool, ...]
    stubs: frozenset[str]
    card: Card
    set_at: tuple[int, ...] = ()


def prefix(log: Sequence[Entry], lane: Lane, card: Card | None, pieces: Iterable[Piece]) -> Prefix:
    """The prefix for a lane, from its card and from what it has done."""
    known = card or Card()
    declared: dict[str, Tool] = {}
    for tool in known.tools or ():
        declared.setdefault(tool_name(tool.name), tool)
    tools = tuple(declared.values())
    called = dict.fromkeys(
        part.name for piece in pieces for part in piece.parts if isinstance(part, ToolCall)
    )
    stubs = tuple(Tool(name=name) for name in called if tool_name(name) not in declared)
    return Prefix(
        speaker=lane.address,
        model=known.model or _last_model(log, lane) or DEFAULT_MODEL,
        persona=known.persona.strip(),
        tools=tools + stubs,
        stubs=frozenset(tool.name for tool in stubs),
        card=known,
        set_at=_set_at(log, lane) if card is not None else (),
    )


def _set_at(log: Sequence[Entry], lane: Lane) -> tuple[int, ...]:
    for entry in reversed(log):
        if isinstance(entry.event, ModeSwitch) and lane.agent in entry.event.cards:
            return (entry.position,)
    return ()


def _last_model(log: Sequence[Entry], lane: Lane) -> str:
    for entry in reversed(log):
        event = entry.event
        if isinstance(event, AssistantMessage) and event.model and lane.owns(event):
            return event.model
    return ""
