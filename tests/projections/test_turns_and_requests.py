"""Whoever is given the turn has something to answer: its request is one that can be sent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stenolog import AssistantMessage, Event, State, UserMessage
from stenolog.engine import ByAddress, Orchestrator, Parallel, RoundRobin, Sequential, TurnRule
from stenolog.events import address
from stenolog.requests import build
from stenolog.testing import entries
from tests.domain.talking import GO_ON, HI, PASS, after, busy, failed, opened, passed, said

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
