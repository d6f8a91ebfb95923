"""Answers on their way into the log, and their calls: those without a result that a person went on after."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from stenolog.domain.events import LATE, ToolResult
from stenolog.domain.parts import AssistantPart
from stenolog.domain.values import CallRef, Usage

NO_RESULT = ":no-result"
"""The end of the ids of results that are written for such calls."""
INTERRUPTED = "No result: the call was interrupted."


@dataclass
class Answer:
    """An assistant message whose records are still coming in; `source_id` is what they share."""

    agent: str
    source_id: str
    time: datetime
    parts: list[AssistantPart] = field(default_factory=list)
    to: tuple[str, ...] = ()
    model: str = ""
    finish_reason: str = ""
    usage: Usage | None = None
    cause: int | None = None
    lines: list[str] = field(default_factory=list)

    def is_of(self, agent: str, source_id: str) -> bool:
        """Return whether a further record of that id belongs to this answer."""
        return (self.agent, self.source_id) == (agent, source_id)

    def add(self, more: Answer) -> None:
        """Add one more record of the same answer; its usage stands for all of it."""
        self.parts += more.parts
        self.model = more.model or self.model
        self.finish_reason = more.finish_reason or self.finish_reason
        self.usage = more.usage or self.usage


class OpenCall(NamedTuple):
    """A call without a result, and the position of the message that makes it."""

    ref: CallRef
    name: str
    position: int


class PlacedCall(NamedTuple):
    """The position of a call, and the agent that made it."""

    position: int
    agent: str


class LeftCalls:
    """The last response of each agent, and whether a person has spoken to the agent since."""

    def __init__(self) -> None:
        self._responses: dict[str, list[str]] = {}
        """By agent, the id of its last response in the file, and those of its entries."""
        self._passed_over: dict[str, None] = {}
        self._closed: dict[str, CallRef] = {}

    def answered(self, agent: str, entry: str, message: str) -> None:
        """Note an answer; it is a further part of the last response if that is of the same message."""
        before = self._responses.get(agent, [""])
        goes_on = message and before[0] == message
        self._responses[agent] = [*(before if goes_on else [message]), entry]
        self._passed_over.pop(agent, None)

    def spoken(self, to: Collection[str]) -> None:
        """Note words of a person."""
        self._passed_over |= dict.fromkeys(agent for agent in self._responses if not to or agent in to)

    def cancelled(self, agent: str) -> None:
        """Note that a lane was cancelled, which waits for no result."""
        self._responses.pop(agent, None)
        self._passed_over.pop(agent, None)

    def agents(self) -> Iterable[str]:
        """Return the agents that a person has passed over."""
        return list(self._passed_over)

    def entries_of(self, agent: str) -> list[str]:
        """Return the entries of the last response, once, if a person has passed over it."""
        return self._responses[agent] if self._passed_over.pop(agent, 0) is None else []

    def result(self, call_id: str, call: CallRef, name: str) -> ToolResult:
        """Return the result of a call that has none."""
        self._closed[call_id] = call
        return ToolResult(INTERRUPTED, call_id=call_id, call=call, name=name, is_error=True)

    def late(self, result: ToolResult) -> ToolResult:
        """Return a result as it comes; that of a call which was closed here is marked as late."""
        if result.call is not None or result.call_id not in self._closed:
            return result
        call = self._closed.pop(result.call_id)
        return replace(result, call=call, to=(), tags=(*result.tags, LATE))
