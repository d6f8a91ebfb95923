"""Conversations of a, b and c under a rule of turns, and who has something to do in them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from stenolog import (
    AssistantMessage,
    Entry,
    Event,
    LlmError,
    ModeSwitch,
    State,
    ToolCall,
    UserMessage,
    evolve,
    step,
)
from stenolog.engine import INITIAL, Transition, TurnRule
from stenolog.events import Control, Receipt, TurnPolicy
from stenolog.testing import entries

PASS = "....."
BUSY = ("awaiting_llm", "awaiting_approval", "awaiting_tools")
HI: Event = UserMessage(text="Hi")
STOP: Event = UserMessage(control=Control(action="cancel"))
GO_ON: Event = UserMessage(control=Control(action="continue"))


def opened(rule: TurnRule | TurnPolicy | None, *members: str) -> Event:
    return ModeSwitch(joins=members or ("a", "b", "c"), turns=rule)


def left(agent: str) -> Event:
    return ModeSwitch(leaves=[agent])


def asked(agent: str) -> Event:
    return UserMessage(text="You?", to=[agent])


def control(action: Any, agent: str) -> Event:
    return UserMessage(control=Control(action=action, agent=agent))


def said(agent: str, text: str = "Well", *, view: int = 0, **fields: Any) -> Event:
    """Return an answer; built on what stood at `view`, where that is given."""
    receipt = Receipt(view=view, sha256="") if view else None
    return AssistantMessage(agent=agent, text=text, receipt=receipt, **fields)


def passed(agent: str, view: int = 0) -> Event:
    return said(agent, f" {PASS}\n", view=view)


def called(agent: str, text: str = "", **fields: Any) -> Event:
    """Return an answer that calls the tool `agent`1."""
    return said(agent, text, tool_calls=[ToolCall(id=f"{agent}1", name="shell")], **fields)


def failed(agent: str, category: Any = "timeout", **fields: Any) -> Event:
    return LlmError(agent=agent, category=category, **fields)


def fold(log: Sequence[Entry]) -> State:
    """Return the state after a log."""
    return reduce(evolve, log, INITIAL)


def after(*events: Event) -> State:
    """Return the state after the events."""
    return fold(entries(*events))


def last(*events: Event) -> list[Transition]:
    """Return the transitions of the last event."""
    log = entries(*events)
    return list(step(fold(log[:-1]), log[-1]).transitions)


def busy(state: State) -> list[str]:
    """Return the lanes that have something to do."""
    return [where for where, lane in state.lanes.items() if lane.status in BUSY]


def course(*events: Event) -> str:
    """Return the busy lanes after each event, and the reason for the end of the turns."""
    state, course = INITIAL, []
    for entry in entries(*events):
        state = evolve(state, entry)
        course.append("+".join(busy(state)) or "-")
    assert state.anomalies == 0
    return " ".join(course) + (f" ({state.turn_state.end_reason})" if state.turn_state.end_reason else "")
