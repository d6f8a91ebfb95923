"""Whoever is given the turn has something to answer: its request is one that can be sent."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stenolog import AssistantMessage, Entry, Event, State, UserMessage
from stenolog.domain.lanes.lifecycle import STATES, TABLE, TRIGGERS
from stenolog.domain.lanes.step import INITIAL, fold
from stenolog.engine import ByAddress, Orchestrator, Parallel, RoundRobin, Sequential, TurnRule
from stenolog.events import address
from stenolog.projections.fold import transitions
from stenolog.projections.views.lifecycle_picture import WAYS, Taken, Way, check, lifecycle_picture
from stenolog.requests import build
from stenolog.testing import entries, example_conversation
from tests.domain.talking import GO_ON, HI, PASS, after, busy, failed, opened, passed, said
from tests.strategies import logs

RULES: list[TurnRule] = [
    ByAddress(),
    RoundRobin(pass_token=PASS),
    RoundRobin(["c", "a"], max_rounds=2),
    Sequential(["b", "a", "c"]),
    Orchestrator("a"),
    Parallel(["b/1", "b/2", "a"]),
]


@pytest.mark.parametrize("rule", RULES, ids=str)
@given(data=st.data())
def test_whoever_is_given_the_turn_has_a_request_that_can_be_sent(
    rule: TurnRule, data: st.DataObject
) -> None:
    log: list[Event] = [opened(rule), HI]
    views: dict[str, int] = {}
    for _ in range(12):
        state = after(*log)
        _check(log, state)
        views = {where: views.get(where, state.position) for where in busy(state)}
        event = data.draw(st.sampled_from(_next(state, views)))
        may_edit = _editable(log, event)
        edited = data.draw(st.sampled_from([None, *[None] * len(may_edit), *may_edit]))
        if isinstance(event, UserMessage | AssistantMessage):
            event = replace(event, replaces=edited)
        log.append(event)
        if isinstance(event, AssistantMessage) and event.replaces is None:  # one made anew ends no turn
            views.pop(address(event.agent, event.task), None)


def _next(state: State, views: dict[str, int]) -> list[Event]:
    """Return the possible next events: busy lanes answer, pass or fail, and a person speaks."""
    may: list[Event] = [UserMessage(text="And?")]
    for where in busy(state):
        agent, _, task = where.partition("/")
        lane: dict[str, Any] = {"task": task, "view": views[where]}
        may += [said(agent, **lane), said(agent, to=["b", "c"], **lane), said(agent, PASS, **lane)]
        may.append(failed(agent, task=task))
    if not busy(state) and any(lane.status == "failed" for lane in state.lanes.values()):
        may.append(GO_ON)
    return may


def _editable(log: list[Event], event: Event) -> list[int]:
    """Return the positions that an event may edit.

    A person edits anything. An agent regenerates its own answers, but for those that a person's words have
    replaced: behind these it would have the last word.
    """
    match event:
        case AssistantMessage(agent=agent, task=task):
            answers = [
                position
                for position, other in enumerate(log, 1)
                if isinstance(other, AssistantMessage) and (other.agent, other.task) == (agent, task)
            ]
            return [position for position in answers if not _is_a_persons(log, position)]
        case UserMessage(control=None):
            return [*range(1, len(log) + 1)]
        case _:
            return []


def _is_a_persons(log: list[Event], position: int) -> bool:
    """Return whether a person's words have replaced an answer, or another wording of it."""
    first = dict[int, int]()
    for at, event in enumerate(log, 1):
        old = getattr(event, "replaces", None)
        first[at] = at if old is None else first[old]
    edits = (event for at, event in enumerate(log, 1) if first[at] == first[position])
    return any(isinstance(event, UserMessage) for event in edits)


def _check(log: list[Event], state: State) -> None:
    for where in busy(state):
        agent, _, task = where.partition("/")
        request = build(entries(*log), agent, task=task)

        assert (where, request.ready) == (where, True)


def test_a_pass_of_others_is_nothing_new() -> None:
    past = [opened(RoundRobin(pass_token=PASS), "a", "b"), HI, said("a"), passed("b")]

    assert not build(entries(*past), "a").ready
    assert busy(after(*past)) == []


# The transitions of a log: one for each lane that an entry moves, in order.


def test_the_transitions_lead_each_lane_from_where_it_was_to_where_it_is() -> None:
    log = entries(*example_conversation())
    where: dict[str, str | None] = {}
    for made in transitions(log):
        assert not made.lane or where.get(made.lane, "idle") == made.source
        where[made.lane] = made.target
    del where[""]

    assert where == {address: lane.status for address, lane in fold(log).lanes.items()}


@given(log=logs())
def test_every_entry_has_at_least_one_transition_and_they_stand_in_order(log: list[Entry]) -> None:
    positions = [made.position for made in transitions(log)]

    assert positions == sorted(positions)
    assert set(positions) == {entry.position for entry in log}


@given(log=logs())
def test_the_transitions_go_on_from_a_state_that_was_kept(log: list[Entry]) -> None:
    half = len(log) // 2

    assert [*transitions(log[:half]), *transitions(log[half:], fold(log[:half]))] == [*transitions(log)]


def test_transitions_are_made_one_by_one_as_the_log_is_read() -> None:
    """A live tail has no end to wait for."""

    def endless() -> object:
        while True:
            yield from entries(UserMessage(text="Hi", to=["coder"]))

    made = transitions(endless(), INITIAL)  # type: ignore[arg-type]

    assert [next(made).target, next(made).target] == ["awaiting_llm", "awaiting_llm"]


# The picture of the lifecycle: every way that an entry can take can be drawn, and none that there is not.


SVG = "{http://www.w3.org/2000/svg}"
TAKEN = [
    Taken(source, trigger, row.target or source, tuple(name for name, _ in row.guards))
    for (source, trigger), rows in TABLE.items()
    for row in rows
]


def drawn(taken: Taken | None) -> ET.Element:
    return ET.fromstring(lifecycle_picture(taken.target if taken else None, taken, standalone=False))


@pytest.mark.parametrize("taken", TAKEN, ids=lambda taken: f"{taken.source}-{taken.trigger}-{taken.target}")
def test_every_way_of_the_table_is_drawn_as_the_one_that_was_taken(taken: Taken) -> None:
    picture = drawn(taken)

    ways = [path for path in picture.iter(f"{SVG}path") if path.get("class") == "way taken"]
    labels = [text.text for text in picture.iter(f"{SVG}text") if "taken" in (text.get("class") or "")]
    [current] = [box for box in picture.iter(f"{SVG}rect") if box.get("class") == "state current"]
    assert len(ways) == 1
    assert taken.trigger in (labels[0] or "")
    assert current is not None


@pytest.mark.parametrize("way", [way for way in WAYS if way.guards], ids=lambda way: way.target)
def test_a_way_that_was_taken_without_its_guards_is_not_drawn_as_the_usual_one(way: Way) -> None:
    picture = drawn(Taken(way.source, way.triggers[0], way.target))

    [taken] = [path for path in picture.iter(f"{SVG}path") if path.get("class") == "way taken"]
    assert taken.get("d") != way.path


def test_the_picture_of_the_page_of_the_lifecycle_has_no_state_and_no_way_of_anybody() -> None:
    text = lifecycle_picture()

    assert 'class="state current"' not in text
    assert 'class="way taken"' not in text
    assert all(f">{state}</text>" in text for state in STATES)


def test_the_place_of_a_way_is_within_the_picture() -> None:
    for taken in TAKEN:
        _, _, wide, high = map(float, str(drawn(taken).get("viewBox")).split())
        for text in drawn(taken).iter(f"{SVG}text"):
            assert 0 < float(str(text.get("x"))) < wide
            assert 0 < float(str(text.get("y"))) < high


def test_a_usual_way_that_the_lifecycle_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="no way from closed by asked"):
        check(Way("closed", ("asked",), "idle", "", (0, 0, "")))
    for way in WAYS:
        check(way)


def test_every_trigger_is_told_in_words() -> None:
    assert set(TRIGGERS) == {trigger for _, trigger in TABLE}
