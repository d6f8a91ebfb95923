"""Lanes: whose request it is, who wrote an entry, and which entries a policy pins."""

from __future__ import annotations

from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, Event, LlmError, Unknown, UserMessage
from stenolog.domain.lanes.state import address
from stenolog.domain.policy import Pins
from stenolog.projections.views.tool_pairs import Call

SPEAKERS = (AssistantMessage, LlmError, Call)
# They stay in context, since the seals of the calls that they cut off rest on them (see decision 6).
INTERRUPTIONS = ("cancelled", "process_exited")
"""Categories of errors that stop a lane."""


class LaneId(NamedTuple):
    """The lane that a view belongs to: an agent, and its task."""

    agent: str
    task: str = ""

    @property
    def address(self) -> str:
        """`agent`, or `agent/task`."""
        return address(self.agent, self.task)

    def owns(self, event: Event | Call) -> bool:
        """Return whether the event is shown as the lane's own message, or the call as its own call."""
        return self.wrote(event)

    @property
    def shared(self) -> bool:
        """True if the messages of all agents are shown as the lane's own."""
        return False

    def wrote(self, event: Event | Call) -> bool:
        """Return whether the event is a message of this very lane, or the call is its."""
        return isinstance(event, SPEAKERS) and event.agent == self.agent and event.task == self.task


class SharedLane(LaneId):
    """A lane that is shown the messages of all agents as its own; those of other tasks stay theirs."""

    __slots__ = ()

    def owns(self, event: Event | Call) -> bool:
        """Return whether the lane, or any without a task, has said the event, or made the call."""
        # The words of a worker come between its caller's call and the result, and would part them.
        return isinstance(event, SPEAKERS) and (not event.task or self.wrote(event))

    @property
    def shared(self) -> bool:
        """True."""
        return True


def author_of(event: Event) -> str:
    """Return the author's name, or the kind of an author without a name: `person`, `system`, `schedule`."""
    match event:
        case UserMessage(author=author, author_kind=kind):
            return author or kind
        case AssistantMessage(agent=agent) | LlmError(agent=agent):
            return agent
        case _:
            return ""


def pinned(entry: Entry, pins: Pins | None) -> bool:
    """Return whether an entry is pinned: by its position, by its author, or by a tag."""
    event = entry.event
    if pins is None or isinstance(event, Unknown):
        return False
    author = author_of(event)
    return (
        entry.position in pins.positions
        or (bool(author) and author in pins.authors)
        or not set(pins.tags).isdisjoint(event.tags)
    )
