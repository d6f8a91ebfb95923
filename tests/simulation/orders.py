"""Invariants on the order of a conversation's entries, folded without the engine's own state."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from stenolog import AgentCard, AssistantMessage, Entry, Event, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.events import LATE, UNCHANGED, was_stopped
from stenolog.events import CallRef, Control, Unknown

CallKey: TypeAlias = tuple[str, int]


class Made(NamedTuple):
    """A call that was made: its lane, and whether its result ends the lane's run."""

    lane: str
    ends: bool


@dataclass
class Orders:
    """The questions of calls, the lanes whose run a tool has ended, and the cards of agents.

    `take` returns what is broken. `apis` are the APIs of models by their names.
    """

    apis: Mapping[str, str]
    cards: dict[str, list[tuple[int, AgentCard]]] = field(default_factory=dict)
    owes: str = ""
    """The agent that was handed on to, until it has the message that belongs to the hand-off."""
    endings: dict[str, set[str]] = field(default_factory=dict)
    calls: dict[CallKey, Made] = field(default_factory=dict)
    asked: dict[CallKey, list[str]] = field(default_factory=dict)
    answered: dict[CallKey, list[str]] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    """The lanes that were handed to at work: their rule may keep that for the next turn."""
    attempts: dict[str, int] = field(default_factory=dict)
    by_rule: bool = False
    """True if a rule gives the turns, so that an answer may ask any lane."""

    def take(self, entry: Entry) -> str:
        """Take the next entry in; return the broken invariant with its name, or an empty text."""
        return next(filter(None, self._taken(entry)), "")

    @property
    def answers(self) -> dict[str, Any]:
        """The answers by the texts of the questions."""
        pairs = (zip(self.asked[key], given, strict=False) for key, given in self.answered.items())
        return {text: json.loads(answer) for text, answer in chain.from_iterable(pairs)}

    def card_of(self, agent: str, at: int | None = None) -> AgentCard:
        """Return the card of an agent, at a position or now."""
        found = self.cards.get(agent, [])
        return next((card for position, card in reversed(found) if at is None or position <= at), AgentCard())

    def _taken(self, entry: Entry) -> Iterator[str]:
        if self.owes and not getattr(entry.event, "fork", False):
            yield self._handed_on(entry.event)
        match entry.event:
            case ModeSwitch() as switch:
                for agent, card in switch.cards.items():
                    yield self._card(agent, card or AgentCard(), entry.position, switch)
                if switch.fork:
                    self.owes = ""
                if switch.turns is not UNCHANGED:
                    self.by_rule = switch.turns is not None
                if switch.joins or switch.leaves or switch.turns is not UNCHANGED:
                    self._speak()
            case UserMessage(control=Control(action="ask" | "answer") as control):
                yield self._question(control)
            case UserMessage(control=Control(action="approve" | "refuse")):
                pass
            case UserMessage() as message:
                self._speak(message.to)
                if self.by_rule and _own(message, "handoff"):
                    self.kept.update(message.to)
            case ToolResult() as result if result.call is not None:
                self._result(result, _key(result.call), entry.position)
            case AssistantMessage() | LlmError() as event:
                lane = f"{event.agent}/{event.task}".rstrip("/")
                seen = event.receipt.view if event.receipt is not None else 0
                if 0 < self.ended.get(lane, 0) <= seen and lane not in self.kept:
                    yield f"ended: {lane} was called at {seen}, after its run had ended at {self.ended[lane]}"
                yield self._sent(event)
                yield self._attempted(lane, event)
                if self.by_rule:
                    self._speak()
                if self.ended.pop(lane, 0):
                    self.kept.discard(lane)
                if isinstance(event, AssistantMessage):
                    self._speak(event.to or ("nobody",))
                    ends = self.endings.get(event.agent, set())
                    for nth, call in enumerate(event.tool_calls):
                        self.calls[entry.id, nth] = Made(lane, call.name in ends)
            case _:
                pass

    def _question(self, control: Control) -> str:
        key = _key(control.call) if control.call is not None else ("", 0)
        asked, answered = self.asked.setdefault(key, []), self.answered.setdefault(key, [])
        if control.action == "answer":
            answered.append(control.answer)
            return (
                "" if len(answered) == len(asked) else f"asked: {key} has {len(answered)} answers to {asked}"
            )
        text = control.question.text if control.question is not None else ""
        asked.append(text)
        if asked.count(text) > 1:
            return f"asked: {key} asks twice: {text}"
        return "" if len(asked) == len(answered) + 1 else f"asked: {key} asks {text} before it has an answer"

    def _result(self, result: ToolResult, key: CallKey, position: int) -> None:
        made = self.calls.pop(key, None)
        if made is None or result.is_error or LATE in result.tags:
            return
        if self.by_rule and result.name in self.endings.get(made.lane.partition("/")[0], ()):
            self._speak()  # it may end a turn, as an answer does: the rule gives the next to any lane
        if made.ends:
            self.ended[made.lane] = position
            self.owes = str(_own(result, "handoff").get("to", ""))

    def _handed_on(self, event: Event) -> str:
        """Check that a hand-off's message follows its result, behind a change of the other's card at most."""
        match event:
            case ModeSwitch(cards=cards) if set(cards) == {self.owes}:
                return ""
            case UserMessage(author_kind="agent", to=(to,)) if to == self.owes and _own(event, "handoff"):
                self.owes = ""
                return ""
            case Unknown():  # its words were erased
                if self.by_rule:
                    self.kept.add(self.owes)
                self.owes = ""
                return ""
            case _:
                return f"handoff: the message to {self.owes} is missing, found {event!r:.100}"

    def _card(self, agent: str, card: AgentCard, position: int, switch: ModeSwitch) -> str:
        """Check that a card is a new one, and keeps what was set at work."""
        before = self.card_of(agent)
        self.cards.setdefault(agent, []).append((position, card))
        self.endings[agent] = {tool.name for tool in card.tools or () if tool.ends_run}
        if card == before:
            return f"card: that of {agent} is set again"
        free = {"policy"} if _own(switch, "handoff") else set()
        if card.model != before.model:
            free |= {"context_limit", "policy"}
        lost = {name for name in before.patched if name not in card.patched} - free
        lost = {name for name in lost if getattr(card, name) != getattr(before, name)}
        return f"card: that of {agent} has lost its {lost}" if lost else ""

    def _attempted(self, lane: str, event: AssistantMessage | LlmError) -> str:
        """Check that a call that its program stopped is no attempt, and is recorded only for its text."""
        before = self.attempts.get(lane, 0)
        self.attempts[lane] = event.attempt if isinstance(event, LlmError) else 0
        if not was_stopped(event):
            return ""
        if not event.parts:
            return f"stopped: a call of {lane} is recorded of which nothing had streamed"
        return f"stopped: it counts as attempt {self.attempts[lane]}" if self.attempts[lane] > before else ""

    def _sent(self, event: AssistantMessage | LlmError) -> str:
        """Check that a request was for the API of the model on the card."""
        if event.receipt is None:
            return ""
        model, api = self.card_of(event.agent, event.receipt.view).model, event.receipt.api.partition("@")[0]
        if self.apis.get(model, api) == api:
            return ""
        return f"api: {event.agent}, whose card names {model}, was sent a request for {api}"

    def _speak(self, to: Sequence[str] = ()) -> None:
        """Note that lanes were spoken to: a result does not end the run that answers."""
        for lane in [lane for lane in self.ended if not to or lane in to]:
            del self.ended[lane]
        heard = {
            key: made._replace(ends=False) for key, made in self.calls.items() if not to or made.lane in to
        }
        self.calls.update(heard)


def _own(event: ToolResult | UserMessage | ModeSwitch, what: str) -> dict[str, Any]:
    """Return what stenolog itself says about something in the `meta` of an event."""
    match event.meta.get("stenolog"):
        case {**known} if isinstance(said := known.get(what), dict):
            return said
        case _:
            return {}


def _key(call: CallRef) -> CallKey:
    return call.entry, call.index
