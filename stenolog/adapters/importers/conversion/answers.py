"""Answers on their way into the log, and calls that a person left without a result."""

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
    """An assistant message in progress; its records share `source_id`."""

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
        """Return whether a record of that id belongs to this answer."""
        return (self.agent, self.source_id) == (agent, source_id)

    def add(self, more: Answer) -> None:
        """Add another record of the answer; its usage is for all of it."""
        self.parts += more.parts
        self.model = more.model or self.model
        self.finish_reason = more.finish_reason or self.finish_reason
        self.usage = more.usage or self.usage


class OpenCall(NamedTuple):
    """A call without a result, and its message's position."""

    ref: CallRef
    name: str
    position: int


class PlacedCall(NamedTuple):
    """The position of a call, and the agent that made it."""

    position: int
    agent: str


class LeftCalls:
    """Each agent's last response, and whether a person has spoken to the agent since."""

    def __init__(self) -> None:
        self._responses: dict[str, list[str]] = {}
        """By agent, the id of its last response in the file, and those of its entries."""
        self._passed_over: dict[str, None] = {}
        self._closed: dict[str, CallRef] = {}

    def answered(self, agent: str, entry: str, message: str) -> None:
        """Note an answer, or a further part of the last response."""
        before = self._responses.get(agent, [""])
        goes_on = message and before[0] == message
        self._responses[agent] = [*(before if goes_on else [message]), entry]
        self._passed_over.pop(agent, None)

    def spoken(self, to: Collection[str]) -> None:
        """Note words of a person."""
        self._passed_over |= dict.fromkeys(agent for agent in self._responses if not to or agent in to)

    def cancelled(self, agent: str) -> None:
        """Note a cancelled lane, which waits for no result."""
        self._responses.pop(agent, None)
        self._passed_over.pop(agent, None)

    def agents(self) -> Iterable[str]:
        """Return the agents that a person has passed over."""
        return list(self._passed_over)

    def entries_of(self, agent: str) -> list[str]:
        """Return the last response's entries, once, if a person went on."""
        return self._responses[agent] if self._passed_over.pop(agent, 0) is None else []

    def result(self, call_id: str, call: CallRef, name: str) -> ToolResult:
        """Return the result of a call that has none."""
        self._closed[call_id] = call
        return ToolResult(INTERRUPTED, call_id=call_id, call=call, name=name, is_error=True)

    def late(self, result: ToolResult) -> ToolResult:
        """Return a result, marked as late if its call was closed here."""
        if result.call is not None or result.call_id not in self._closed:
            return result
        call = self._closed.pop(result.call_id)
        return replace(result, call=call, to=(), tags=(*result.tags, LATE))
