"""Input of the stages: the lane whose view a request is, the rows of its window, and facts about the lane.

`View` is a window as the stages see it. So no stage depends on how a window is updated with the log.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, Event, LlmError, Unknown, UserMessage
from stenolog.domain.policy import Pins, Policy
from stenolog.domain.settings import Settings
from stenolog.domain.state import State, address
from stenolog.projections.requests.request import Message, Size
from stenolog.projections.requests.tokens import Counter
from stenolog.projections.tool_pairs import Call

from .measure import Measure


class LaneMemory(NamedTuple):
    """The facts remembered about a lane.

    `answered` is the position of its last answer. `turns` is the number of its turns that were no passes
    (an answer that calls tools ends none). `handoff` is the text of the last hand-off to it. `running`
    is the message that its current run answers. `died` is the position of the last entry that reports
    its backend as dead or changed. `began` is the view of its first answer since the last reset (0:
    there is none). `counted` says whether the last answer is one of `turns`. `set_at` has the position
    of the mode switch that last set each setting for it.
    """

    answered: int = 0
    turns: int = 0
    model: str = ""
    session: str = ""
    running: int = 0
    died: int = 0
    began: int = 0
    handoff: str = ""
    counted: bool = False
    set_at: dict[str, int] = {}  # noqa: RUF012 - never changed in place; remember makes a new one


class WindowRow(NamedTuple):
    """An entry in the window: what the lane hears of it, and how large that is.

    `plain`: it stands where it was said, and takes nothing out of context.
    """

    entry: Entry
    pieces: tuple[Message, ...]
    size: Size
    plain: bool = False


class WindowContents(NamedTuple):
    """The contents of a window in units that are never cut in two.

    `left_out` has the rule for each entry that is out of context, `edits` the message that each edit
    changes.
    """

    units: list[tuple[Message, ...]]
    left_out: dict[int, str]
    entries: list[Entry]
    edits: dict[int, int]


NOTHING_SHOWN = WindowContents([], {}, [], {})


class View(Protocol):
    """A window as the stages read it: whose it is, under which policy, and how things stand now."""

    @property
    def lane(self) -> LaneId:
        """The lane whose window it is."""

    @property
    def policy(self) -> Policy:
        """The context policy."""

    @property
    def settings(self) -> Settings:
        """The settings after the last entry."""

    @property
    def state(self) -> State:
        """The state of the conversation after the last entry."""

    @property
    def memory(self) -> LaneMemory:
        """The facts that are kept of the lane."""

    @property
    def cuts(self) -> int:
        """The number of cuts so far."""

    @property
    def counter(self) -> Counter:
        """The counter of tokens."""

    @property
    def measure(self) -> Measure:
        """The sizes of messages under the policy's budget."""

    def messages_of(self, position: int) -> tuple[Message, ...]:
        """Return the messages that were made of an entry in the window."""


SPEAKERS = (AssistantMessage, LlmError, Call)
INTERRUPTIONS = ("cancelled", "process_exited")
"""Errors that stop a lane: they stay in context, for the seals of the calls they cut off rest on them."""


class LaneId(NamedTuple):
    """The lane that a view belongs to: an agent, and its task."""

    agent: str
    task: str = ""

    @property
    def address(self) -> str:
        """`agent`, or `agent/task`."""
        return address(self.agent, self.task)

    def owns(self, event: Event | Call) -> bool:
        """Return whether the event is the lane's own message, or the call its own call."""
        return isinstance(event, SPEAKERS) and event.agent == self.agent and event.task == self.task


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
