"""Invariants on the order of a conversation's entries, folded without the engine's own state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from stenolog import AssistantMessage, Entry, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.events import LATE, UNCHANGED
from stenolog.events import CallRef, Control

CallKey: TypeAlias = tuple[str, int]


class Made(NamedTuple):
    """A call that was made: its lane, and whether its result ends the lane's run."""

    lane: str
    ends: bool


@dataclass
class Orders:
    """The questions of calls, and the lanes whose run a tool has ended; `take` returns what is broken."""

    endings: dict[str, set[str]] = field(default_factory=dict)
    calls: dict[CallKey, Made] = field(default_factory=dict)
    asked: dict[CallKey, list[str]] = field(default_factory=dict)
    answered: dict[CallKey, list[str]] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    by_rule: bool = False
    """True if a rule gives the turns, so that an answer may ask any lane."""

    def take(self, entry: Entry) -> str:
        """Take the next entry in; return the broken invariant with its name, or an empty text."""
        return next(filter(None, self._taken(entry)), "")

    def _taken(self, entry: Entry) -> Iterator[str]:
        match entry.event:
            case ModeSwitch() as switch:
                for agent, card in switch.cards.items():
                    tools = (card.tools or ()) if card else ()
                    self.endings[agent] = {tool.name for tool in tools if tool.ends_run}
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
            case ToolResult() as result if result.call is not None:
                self._result(result, _key(result.call), entry.position)
            case AssistantMessage() | LlmError() as event:
                lane = f"{event.agent}/{event.task}".rstrip("/")
                seen = event.receipt.view if event.receipt is not None else 0
                if 0 < self.ended.get(lane, 0) <= seen:
                    yield f"ended: {lane} was called at {seen}, after its run had ended at {self.ended[lane]}"
                if self.by_rule:
                    self._speak()
                self.ended.pop(lane, None)
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
        if made and made.ends and not result.is_error and LATE not in result.tags:
            self.ended[made.lane] = position

    def _speak(self, to: Sequence[str] = ()) -> None:
        """Note that lanes were spoken to: a result does not end the run that answers."""
        for lane in [lane for lane in self.ended if not to or lane in to]:
            del self.ended[lane]
        heard = {
            key: made._replace(ends=False) for key, made in self.calls.items() if not to or made.lane in to
        }
        self.calls.update(heard)


def _key(call: CallRef) -> CallKey:
    return call.entry, call.index
