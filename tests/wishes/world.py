"""The outside of the programs: a provider that judges each request, and tools that count each effect."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from stenolog import AgentCard, Conversation, ToolCall
from stenolog.domain.lanes.effects import UNKNOWN
from stenolog.engine import RunResult, Runtime, Team
from stenolog.events import (
    AssistantMessage,
    Control,
    Event,
    LlmError,
    ModeSwitch,
    ToolResult,
    Unknown,
    UserMessage,
)
from stenolog.models import ModelRequest, Scripted
from tests.requests.judging import refused


@dataclass
class World:
    """The effects that tools had, what a provider refused, and the results that the program was given.

    An effect is the name of its tool, a space, and what is different each time.
    """

    effects: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    results: list[RunResult] = field(default_factory=list)
    judged: list[str] = field(default_factory=list)

    def copy(self) -> World:
        """Return the world as it is."""
        return World([*self.effects], [*self.refused])

    def do(self, effect: str) -> None:
        """Have an effect, unless its key has had it already."""
        if effect not in self.effects:
            self.effects.append(effect)

    def model(self, turn: Callable[[Asked], object], name: str = "scripted", **options: Any) -> Scripted:
        """Return a model that answers each request by a function of it."""
        api = options.get("api", "openai-chat")

        def answered(prompt: ModelRequest) -> object:
            self.refused += refused(api, prompt.body)
            return turn(Asked(prompt.body, json.dumps(prompt.body, ensure_ascii=False)))

        return Scripted(answered, name=name, endless=True, **options)


class Asked(NamedTuple):
    """A request as a model reads it."""

    body: dict[str, Any]
    text: str

    def has(self, *words: str) -> bool:
        """Return whether it has one of these words."""
        return any(each in self.text for each in words)

    def knows(self, id: str) -> bool:
        """Return whether a call of this id has its result."""
        return self.text.count(f'"{id}"') > 1


class Program(NamedTuple):
    """A program: its team, what a person says and answers, and its last words.

    `answers` are those to the questions of tools and to approvals, by question and by tool; "continue": the
    person goes on where a lane waits for that. `holds` yields
    what is wrong at the end. `claims`: the log says all that it needs, so any language may run its agents.
    """

    name: str
    team: Callable[[World, Runtime], Team]
    said: tuple[Any, ...]
    last: str
    answers: Mapping[str, Any] = MappingProxyType({})
    holds: Callable[[Conversation, World], Iterator[str]] = lambda conversation, world: iter(())
    claims: bool = False


def call(name: str, id: str, **arguments: Any) -> ToolCall:
    """Return a call of a tool."""
    return ToolCall(id=id, name=name, arguments=json.dumps(arguments))


def story(conversation: Conversation) -> list[tuple[str, ...]]:
    """Return all that was said and done, without what only an interruption brought."""
    return [told for entry in conversation.entries() for told in _told(entry.event)]


def _told(event: Event) -> Iterator[tuple[str, ...]]:
    match event:
        case UserMessage(control=Control() as control):
            asked = control.question.text if control.question else ""
            yield control.action, event.author, control.agent, asked, control.answer, control.arguments
        case UserMessage():
            yield "said", event.author, ",".join(event.to), event.text
        case AssistantMessage():
            calls = " ".join(f"{each.name}({each.arguments})" for each in event.tool_calls)
            yield "answered", event.agent, ",".join(event.to), event.text, calls, event.model
        case ToolResult():
            yield "result", event.name, "?" if event.meta == UNKNOWN else event.text
        case LlmError():
            if event.category != "process_exited":
                yield "failed", event.agent, event.category, event.message, event.model
        case ModeSwitch():
            yield "set", event.mode if isinstance(event.mode, str) else "", *event.joins
            yield from (("card", name, *_card(card)) for name, card in event.cards.items())
        case Unknown():
            yield "unknown", event.topic


def _card(card: AgentCard | None) -> tuple[str, ...]:
    if card is None:
        return ("left",)
    names = ",".join(tool.name for tool in card.tools or ())
    return card.model, card.persona, names, str(dict(card.policy)), str(card.context_limit), str(card.patched)
