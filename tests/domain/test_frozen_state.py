"""A state never changes in place: no part of it, whether it was folded or read from a checkpoint."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import reduce
from typing import Any

import pytest

import stenolog
from stenolog import AgentCard, AssistantMessage, ModeSwitch, State, ToolCall, UserMessage
from stenolog.adapters.conversation.queries.folds import STATE
from stenolog.engine import RoundRobin, evolve
from stenolog.events import PositionRange, Tool


def _busy() -> State:
    """Return a state that has something in every field."""
    card = AgentCard(tools=[Tool(name="rm", approval=True)])
    with stenolog.open(":memory:") as log:
        talk = log["talk"]
        turns = RoundRobin(order=["coder", "tester"]).turns
        talk.append(ModeSwitch(joins=["coder", "tester"], cards={"coder": card}, turns=turns), expected=0)
        talk.append(UserMessage(text="Go"))
        talk.append(AssistantMessage(agent="coder", text="Gone."))
        talk.append(
            AssistantMessage(
                agent="tester", purpose="summary", text="Went.", covers=[PositionRange(first=2, last=3)]
            )
        )
        talk.append(UserMessage(text="Clean up"))
        talk.append(AssistantMessage(agent="coder", tool_calls=[ToolCall(id="c1", name="rm")]))
        return reduce(evolve, talk.entries(), State())


FOLDED = _busy()
STATES = {"folded": FOLDED, "loaded": STATE.load(STATE.dump(FOLDED))}


def _parts(value: Any) -> Iterator[Any]:
    """Yield a value and all that it holds."""
    yield value
    inner: list[Any] = []
    if isinstance(value, dict):
        inner = [*value.values()]
    elif isinstance(value, tuple | list):
        inner = [*value]
    elif is_dataclass(value):
        inner = [getattr(value, each.name) for each in fields(value)]
    for each in inner:
        yield from _parts(each)


@pytest.mark.parametrize("name", STATES)
def test_no_part_of_a_state_can_be_changed(name: str) -> None:
    state = STATES[name]
    assert state.lanes
    assert state.approvals
    assert state.turns
    assert state.turns.options

    for part in _parts(state):
        if isinstance(part, dict):
            with pytest.raises(TypeError, match="never changes"):
                part["x"] = part
            with pytest.raises(TypeError, match="never changes"):
                part.clear()
        elif isinstance(part, list):
            with pytest.raises(TypeError, match="never changes"):
                part.append(part)
        elif is_dataclass(part):
            with pytest.raises((AttributeError, TypeError)):
                setattr(part, fields(part)[0].name, None)


def test_a_state_that_was_stored_and_read_equals_the_folded_one() -> None:
    assert STATES["loaded"] == STATES["folded"]
    assert STATE.dump(STATES["loaded"]) == STATE.dump(STATES["folded"])


def test_a_state_can_be_copied_and_pickled() -> None:
    state = STATES["folded"]
    for made in (copy.deepcopy(state), copy.copy(state), pickle.loads(pickle.dumps(state))):
        assert made == state
    changed = state.lanes.copy()  # type: ignore[attr-defined]
    changed["x"] = state.lane("coder")
    assert "x" not in state.lanes
