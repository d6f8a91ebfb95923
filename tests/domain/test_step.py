"""The pure step: total, counted, and the same as the story of every conversation tells it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import reduce
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from pydantic import TypeAdapter

import stenolog
from stenolog import (
    AgentCard,
    AssistantMessage,
    Entry,
    Event,
    ModeSwitch,
    State,
    ToolCall,
    ToolResult,
    UserMessage,
    evolve,
    step,
)
from stenolog.adapters.conversation.queries.folds import STATE
from stenolog.domain.lanes.lifecycle import GUARDS
from stenolog.domain.lanes.step import HOLDS, INITIAL, fold
from stenolog.engine import RoundRobin, Transition
from stenolog.events import CallRef, Control, PositionRange, Tool, Unknown
from stenolog.testing import entries, example_conversation
from tests.strategies import events, logs

STATES = TypeAdapter(State)
SHELL = ToolCall(id="c1", name="shell")
CALLED = AssistantMessage(agent="coder", tool_calls=[SHELL])

GOLDEN = """
1 coder: idle -joined-> idle: wait
1 reviewer: idle -joined-> idle: wait
2 coder: idle -asked-> awaiting_llm: call_model #2 attempt 1
3 coder: awaiting_llm -answered/has_calls-> awaiting_tools: run_tools #3 e3[0]
4 coder: awaiting_tools -resulted-> awaiting_llm: call_model #4 attempt 1
5 coder: awaiting_llm -erred/will_retry-> awaiting_llm: call_model #4 attempt 2 at 09:01:00
6 coder: awaiting_llm -erred-> failed: wait #4 attempt 2 (failed: timeout)
7 coder: failed -continued-> awaiting_llm: call_model #7 attempt 1
8 coder: awaiting_llm -answered-> idle: wait
8 reviewer: idle -asked-> awaiting_llm: call_model #8 attempt 1
9 reviewer: awaiting_llm -answered-> idle: wait
10 mode_switch: wait
11 coder: idle -asked-> awaiting_llm: call_model #11 attempt 1
12 coder: awaiting_llm -answered/has_calls+awaits_approval-> awaiting_approval: ask_approval #12 e12[0] e12[1]
13 coder: awaiting_approval -approved/awaits_approval-> awaiting_approval: ask_approval #12 e12[1]
14 coder: awaiting_approval -refused-> awaiting_approval: ask_approval #12 e12[1]
15 coder: awaiting_approval -resulted/calls_open-> awaiting_tools: run_tools #12 e12[0] e12[2]
16 coder: awaiting_tools -resulted/calls_open-> awaiting_tools: run_tools #12 e12[2]
17 coder: awaiting_tools -resulted-> awaiting_llm: call_model #17 attempt 1
18 coder: awaiting_llm -answered/has_calls-> awaiting_tools: run_tools #18 e18[0]
19 coder: awaiting_tools -resulted-> awaiting_llm: call_model #19 attempt 1
20 coder: awaiting_llm -cancelled-> idle: wait
21 assistant_message: wait
22 reviewer: idle -left-> closed: stop (the agent has left)
23 coder: idle -asked-> awaiting_llm: call_model #23 attempt 1
24 coder: awaiting_llm -answered-> idle: wait
25 reviewer: closed -joined-> idle: wait
"""


def transitions(log: list[Entry]) -> list[Transition]:
    """Return every transition of a log."""
    state, made = INITIAL, list[Transition]()
    for entry in log:
        state, moves = step(state, entry)
        made += moves
    return made


def in_words(made: Transition) -> str:
    """Return a transition in one line."""
    guard = f"/{'+'.join(made.guard)}" if made.guard else ""
    way = f"{made.lane}: {made.source} -{made.trigger}{guard}-> {made.target}" if made.lane else made.kind
    decision = made.decision
    words = [
        f"#{decision.cause}" if decision.cause else "",
        f"attempt {decision.attempt}" if decision.attempt else "",
        *(f"{call.entry}[{call.nth}]" for call in decision.calls),
        f"at {decision.time:%H:%M:%S}" if decision.time else "",
        f"({decision.reason})" if decision.reason else "",
    ]
    return " ".join([f"{made.position} {way}: {decision.do}", *filter(None, words)])


def test_the_story_of_a_conversation_makes_these_transitions() -> None:
    made = transitions(entries(*example_conversation()))

    assert "\n".join(map(in_words, made)) == GOLDEN.strip()
    assert [transition.anomaly for transition in made if transition.anomaly] == []


@given(log=logs())
def test_the_step_is_total_and_its_position_follows_the_log(log: list[Entry]) -> None:
    state = INITIAL
    for entry in log:
        state, made = step(state, entry)

        assert state.position == entry.position
        assert {(transition.position, transition.kind) for transition in made} == {
            (entry.position, entry.event.kind)
        }


@given(event=events())
def test_the_step_is_total_over_every_field_of_every_event(event: Event) -> None:
    assert fold(entries(event)).position == 1


@given(log=logs())
def test_evolve_is_the_state_of_the_step(log: list[Entry]) -> None:
    by_steps = list(accumulate(log, lambda state, entry: step(state, entry).state, initial=INITIAL))

    assert list(accumulate(log, evolve, initial=INITIAL)) == by_steps
    assert [fold(log[:n]) for n in range(len(log) + 1)] == by_steps


@given(log=logs())
def test_a_fold_goes_on_from_any_state_that_was_written_down(log: list[Entry]) -> None:
    half = STATES.validate_json(STATES.dump_json(fold(log[: len(log) // 2])))

    assert fold(log[len(log) // 2 :], half) == fold(log)


@given(log=logs())
def test_a_state_is_the_same_after_json_and_its_bytes_too(log: list[Entry]) -> None:
    state = fold(log)
    written = STATES.dump_json(state)

    assert STATES.validate_json(written) == state
    assert STATES.dump_json(STATES.validate_json(written)) == written


@given(log=logs())
def test_an_entry_with_an_anomaly_counts_once(log: list[Entry]) -> None:
    odd = {transition.position for transition in transitions(log) if transition.anomaly}

    assert fold(log).anomalies == len(odd)


@given(log=logs())
def test_calls_are_open_just_while_their_lane_awaits_them(log: list[Entry]) -> None:
    for lane in fold(log).lanes.values():
        assert bool(lane.calls) == (lane.status in ("awaiting_approval", "awaiting_tools"))
        assert any(call.approval for call in lane.calls) == (lane.status == "awaiting_approval")


@given(log=logs())
def test_what_is_not_listed_leaves_the_lane_as_it_was(log: list[Entry]) -> None:
    state = INITIAL
    for entry in log:
        now, made = step(state, entry)
        for transition in made:
            if transition.anomaly.endswith(f"is {transition.source}"):
                assert now.lane(transition.lane) == state.lane(transition.lane)
        state = now


@given(log=logs())
def test_a_state_holds_no_text(log: list[Entry]) -> None:
    """Counters and references: it stays small however long the messages are."""
    assert b"Hello" not in STATES.dump_json(fold(log))


def test_each_guard_that_is_declared_is_answered() -> None:
    assert HOLDS.keys() == GUARDS.keys()


@pytest.mark.parametrize(
    ("events", "anomaly"),
    [
        ([ToolResult(call_id="c1")], "a result for 'c1', which is no open call"),
        (
            [CALLED, ToolResult(call_id="c1"), ToolResult(call_id="c1")],
            "a result for 'c1', which is no open call",
        ),
        ([UserMessage(control=Control(action="approve"))], "approve: no such call is open"),
        ([UserMessage(control=Control(action="refuse"))], "refuse: no such call is open"),
        ([UserMessage(control=Control(action="cancel"))], "cancel: no such lane"),
        ([UserMessage(control=Control(action="continue", agent="coder"))], "continue: no such lane"),
        (
            [CALLED, UserMessage(control=Control(action="approve", call=CallRef(entry="e1")))],
            "approved is not listed for a lane that is awaiting_tools",
        ),
        (
            [CALLED, UserMessage(control=Control(action="continue", agent="coder"))],
            "continued is not listed for a lane that is awaiting_tools",
        ),
        (
            [ModeSwitch(leaves=["coder"]), AssistantMessage(agent="coder")],
            "answered is not listed for a lane that is closed",
        ),
        ([Unknown(topic="poll@1", payload=b"{}")], "unknown kind poll@1"),
        (
            [Unknown(topic="poll@1", payload=b'{"ignorable":true}', ignorable=True)],
            "unknown kind poll@1, ignorable",
        ),
        (
            [AssistantMessage(agent="coder", purpose="summary", covers=[PositionRange(first=1, last=1)])],
            "covers 1-1, which is not within 1-0",
        ),
        (
            [
                CALLED,
                AssistantMessage(agent="tester", purpose="summary", covers=[PositionRange(first=1, last=1)]),
            ],
            "covers 1, and in it the open call at 1",
        ),
    ],
    ids=lambda value: value.replace("'", "") if isinstance(value, str) else "after",
)
def test_what_is_out_of_order_is_named_and_counted(events: list[Event], anomaly: str) -> None:
    made = transitions(entries(*events))

    assert [transition.anomaly for transition in made if transition.anomaly] == [anomaly]
    assert fold(entries(*events)).anomalies == 1


# A state never changes in place: no part of it, whether it was folded or read from a checkpoint.


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
HELD_STATES = {"folded": FOLDED, "loaded": STATE.load(STATE.dump(FOLDED))}


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


@pytest.mark.parametrize("name", HELD_STATES)
def test_no_part_of_a_state_can_be_changed(name: str) -> None:
    state = HELD_STATES[name]
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
    assert HELD_STATES["loaded"] == HELD_STATES["folded"]
    assert STATE.dump(HELD_STATES["loaded"]) == STATE.dump(HELD_STATES["folded"])


def test_a_state_can_be_copied_and_pickled() -> None:
    state = HELD_STATES["folded"]
    for made in (copy.deepcopy(state), copy.copy(state), pickle.loads(pickle.dumps(state))):
        assert made == state
    changed = state.lanes.copy()  # type: ignore[attr-defined]
    changed["x"] = state.lane("coder")
    assert "x" not in state.lanes
