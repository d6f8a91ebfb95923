"""Steps that a converter asks of the log, and the facts that it needs beforehand."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from stenolog.domain.card import AgentCard
from stenolog.domain.entry import Entry, NewEntry
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.parts import ToolCall
from stenolog.domain.settings import NOTHING, Settings, configure
from stenolog.domain.values import COUNTS, PositionRange, Usage
from stenolog.projections.messages.json_fields import as_dict, as_str, object_in
from stenolog.projections.programs import PROGRAMS

NO_BLOBS: Mapping[str, bytes] = MappingProxyType({})


class Append(NamedTuple):
    """Append this draft at the head, after putting blobs (by sha256)."""

    draft: NewEntry
    blobs: Mapping[str, bytes] = NO_BLOBS


class Branch(NamedTuple):
    """Keep entries up to `after` as a fork: the conversation is about to leave some."""

    after: int


Step: TypeAlias = Append | Branch


class Answered(NamedTuple):
    """A logged assistant message, without its words.

    `first` is its first foreign record, `calls` are ids and names of its calls, `message` is its foreign
    message's id.
    """

    id: str
    position: int
    agent: str
    first: str
    calls: tuple[tuple[str, str], ...]
    message: str = ""
    purpose: str = "answer"


@dataclass
class ExistingLog:
    """Facts about a conversation that the log holds already."""

    head: int = 0
    first: Entry | None = None
    positions: dict[str, int] = field(default_factory=dict)
    """By entry id."""
    answers: dict[str, Answered] = field(default_factory=dict)
    """The assistant messages, by each foreign record they were made of."""
    used: dict[tuple[str, str], Usage] = field(default_factory=dict)
    """By agent and foreign message, the sum of its entries' tokens."""
    said: dict[str, int] = field(default_factory=dict)
    """By entry id, a hash of the parts of each message."""
    agents: set[str] = field(default_factory=set)
    ran: dict[str, str] = field(default_factory=dict)
    """By the id of a sub-agent, the id of the call that ran it, if the result has it."""
    prompts: dict[str, str] = field(default_factory=dict)
    """By the words that a call gave a sub-agent, the id of the call."""
    kinds: dict[str, str] = field(default_factory=dict)
    """By the id of a call, the type of the sub-agent that it started."""
    settings: Settings = NOTHING
    approvals: dict[str, set[str]] = field(default_factory=dict)
    """By agent, the tools whose calls a person approves."""
    meta_keys: set[str] = field(default_factory=set)
    """The keys in `meta` of its mode switches: the programs that keep data there."""
    imported: set[int] = field(default_factory=set)
    """The positions of messages that came from a file, by any importer."""
    hidden: set[int] = field(default_factory=set)
    """The positions that are hidden because a file did not hold them any more, or was rewound."""
    own: list[Entry] = field(default_factory=list)
    """The entries that were imported from nowhere, but written to this log."""


def read_existing(entries: Iterable[Entry]) -> ExistingLog:
    """Read from the log the state that an import of a grown file continues."""
    found = ExistingLog()
    for entry in entries:
        event = entry.event
        found.first = found.first or entry
        found.head = entry.position
        found.positions[entry.id] = entry.position
        if getattr(event, "source", None) is None:
            found.own.append(entry)
        elif isinstance(event, UserMessage | AssistantMessage | ToolResult | LlmError):
            found.imported.add(entry.position)
            found.said[entry.id] = hash(event.parts)
        if isinstance(event, ModeSwitch):
            hides = found.settings.hides
            found.settings = configure(found.settings, entry)
            if found.settings.hides != hides:
                now = positions_in(found.settings.hides)
                new = now - positions_in(hides) if event.source is not None else set()
                found.hidden = (found.hidden & now) | new
            found.meta_keys |= event.meta.keys()
            found.approvals.update({agent: approvals_on(card) for agent, card in event.cards.items()})
        elif isinstance(event, AssistantMessage):
            found.agents.add(event.agent)
            if event.source and (lines := event.source.lines):
                calls = tuple((call.id, call.name) for call in event.tool_calls)
                answered = Answered(entry.id, entry.position, event.agent, lines[0], calls, event.source.id)
                found.answers.update(dict.fromkeys(lines, answered))
                if event.usage is not None:
                    message = event.agent, event.source.id
                    before = found.used.get(message, Usage())
                    found.used[message] = combined(event.usage, before, operator.add)
            for call in event.tool_calls:
                _note_start(found, call)
        elif isinstance(event, ToolResult) and (agent_id := _agent_of(event)):
            found.ran[agent_id] = event.call_id
    return found


def positions_in(ranges: Iterable[PositionRange]) -> set[int]:
    """Return all positions."""
    return {position for each in ranges for position in range(each.first, each.last + 1)}


def position_ranges(positions: Iterable[int], silent: set[int]) -> Iterator[PositionRange]:
    """Yield the positions as ranges; settings do not break one."""
    first = last = 0
    for position in sorted(positions):
        if first and all(between in silent for between in range(last + 1, position)):
            last = position
            continue
        if first:
            yield PositionRange(first=first, last=last)
        first = last = position
    if first:
        yield PositionRange(first=first, last=last)


def merged(found: Iterable[PositionRange]) -> tuple[PositionRange, ...]:
    """Return the spans in order, touching ones as one."""
    made: list[PositionRange] = []
    for span in sorted(found, key=lambda span: span.first):
        if made and span.first <= made[-1].last + 1:
            made[-1] = PositionRange(first=made[-1].first, last=max(made[-1].last, span.last))
        else:
            made.append(span)
    return tuple(made)


def combined(usage: Usage, other: Usage, combine: Callable[[int, int], int]) -> Usage:
    """Return usage with each number combined from two others, without a cache verdict."""
    pairs = ((name, getattr(usage, name), getattr(other, name)) for name in (*COUNTS, "cost"))
    numbers: dict[str, Any] = {name: combine(one or 0, two or 0) for name, one, two in pairs if one or two}
    return Usage(**numbers)


def _note_start(found: ExistingLog, call: ToolCall) -> None:
    given = object_in(call.arguments) if '"prompt"' in call.arguments else {}
    if prompt := as_str(given.get("prompt")):
        found.prompts[prompt] = call.id
    if kind := as_str(given.get("subagent_type")):
        found.kinds[call.id] = kind


def _agent_of(result: ToolResult) -> str:
    found = (as_str(as_dict(facts).get("agent")) for name, facts in result.meta.items() if name in PROGRAMS)
    return next(found, "")


def approvals_on(card: AgentCard | None) -> set[str]:
    """Return the tools on a card whose calls a person approves."""
    return {tool.name for tool in (card.tools if card else None) or () if tool.approval}
