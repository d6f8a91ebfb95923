"""The calls that wait for their results: those of each agent's last message, as the fold of lanes has it."""

from __future__ import annotations

from typing import NamedTuple

from stenolog.events import AssistantMessage, CallRef, Event, ToolResult


class PendingCall(NamedTuple):
    """A call by its provider's id, and the position of the message that makes it."""

    id: str
    position: int
    ref: CallRef


class OpenCalls:
    """The open calls by agent, in order: several may have one id."""

    def __init__(self, by_agent: dict[str, list[PendingCall]] | None = None) -> None:
        self._by_agent = by_agent or {}

    def copy(self) -> OpenCalls:
        """Those that are open now, to go on with alone."""
        return OpenCalls({agent: [*calls] for agent, calls in self._by_agent.items()})

    def take(self, event: Event, position: int, entry: str) -> None:
        """Take the next entry in: a message opens its calls, and leaves the agent's earlier ones behind."""
        match event:
            case AssistantMessage(agent=agent, replaces=None):
                calls = enumerate(event.tool_calls)
                self._by_agent[agent] = [
                    PendingCall(call.id, position, CallRef(entry=entry, index=nth)) for nth, call in calls
                ]
            case ToolResult(call_id=id, call=ref):
                self._answer(ref or self.find(id))
            case _:
                pass

    def find(self, id: str, position: int | None = None) -> CallRef | None:
        """The first open call of that id, of the message at that position where one is given."""
        return next(
            (
                call.ref
                for calls in self._by_agent.values()
                for call in calls
                if call.id == id and position in (None, call.position)
            ),
            None,
        )

    def _answer(self, ref: CallRef | None) -> None:
        for calls in self._by_agent.values():
            calls[:] = [call for call in calls if call.ref != ref]
