"""State of a conversation: the state of every lane, what the last entry changed, and what may come next."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from stenolog.adapters.conversation.queries.backwards import backwards
from stenolog.adapters.conversation.queries.folds import fold_at
from stenolog.adapters.conversation.queries.overviews import OVERVIEW
from stenolog.domain.events import LlmError
from stenolog.domain.lanes.lifecycle import TABLE, Status, Trigger, legal
from stenolog.domain.lanes.state import Decision, State, address
from stenolog.domain.lanes.step import Transition, step
from stenolog.domain.settings import Settings

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation


class Standing(NamedTuple):
    """A conversation at a position: its state, its settings, and the transitions of the entry there.

    `asks_person`: a framework waits for a person's answer.
    """

    conversation: str
    state: State
    settings: Settings
    asks_person: bool
    transitions: tuple[Transition, ...]
    waits: tuple[Waiting, ...] = ()


class Waiting(NamedTuple):
    """A lane whose last call failed: the time of the next one (None: a person goes first), and the reason."""

    lane: str
    until: datetime | None
    why: str


class Next(NamedTuple):
    """A legal input of a state: the next state under these guards; `target` None: the lane stays."""

    trigger: Trigger
    guards: tuple[str, ...]
    target: Status | None


def state_at(conversation: Conversation, position: int) -> Standing:
    """Return the state at a position, and what the entry there has changed."""
    state, settings = conversation.state(at=position), conversation.settings(at=position)
    asks = fold_at(conversation, OVERVIEW, position).asks_person
    steps: tuple[Transition, ...] = ()
    if position:
        before = conversation.state(at=position - 1)
        steps = step(before, conversation.entry(position)).transitions
    return Standing(conversation.name, state, settings, asks, steps, tuple(_waits(conversation, state)))


def _waits(conversation: Conversation, state: State) -> Iterator[Waiting]:
    lanes = [lane for lane in state.lanes.values() if lane.status == "failed" or lane.retry_at]
    left = {lane.address: lane.retry_at for lane in lanes}
    for entry in backwards(conversation, state.position) if left else ():
        if isinstance(error := entry.event, LlmError) and (where := address(error.agent, error.task)) in left:
            yield Waiting(where, left.pop(where), f"{error.category}: {error.message}")
        if not left:
            break


def next_inputs(status: Status) -> list[Next]:
    """Return the inputs that the lifecycle lists for a state, each with every way that it may lead."""
    return [
        Next(trigger, tuple(name for name, _ in row.guards), row.target)
        for trigger in legal(status)
        for row in TABLE[status, trigger]
    ]


def state_data(found: Standing) -> dict[str, Any]:
    """Return the state as JSON; `legal` has the triggers that each lane takes next."""
    return {
        "conversation": found.conversation,
        "state": found.state,
        "settings": found.settings,
        "asks_person": found.asks_person,
        "waits": [{"lane": each.lane, "until": each.until, "why": each.why} for each in found.waits],
        "transitions": found.transitions,
        "legal": {where: legal(lane.status) for where, lane in found.state.lanes.items()},
    }


DOES = {
    "call_model": "call its model",
    "run_tools": "run its open calls",
    "ask_approval": "ask a person for approval",
    "wait": "wait",
    "stop": "stop",
}
"""The decisions in words."""


def in_words(decision: Decision) -> str:
    """Return what a lane does next, in words."""
    tools = ", ".join(call.name for call in decision.calls[:5])
    about = tools or decision.reason or (f"to answer {decision.cause}" if decision.cause else "")
    does = DOES[decision.do]
    if decision.calls and all(call.question for call in decision.calls) and decision.do == "ask_approval":
        does = "wait for a person's answer"
    return f"{does}: {about}" if about else does
