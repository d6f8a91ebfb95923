"""The state's small questions: summaries and their spans, open calls, and what a lane does next."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from stenolog import AssistantMessage, Event, LlmError, ModeSwitch, ToolCall, UserMessage, evolve
from stenolog.domain.base.model import FrozenDict
from stenolog.domain.erasure import DAMAGED
from stenolog.domain.lanes.state import (
    Blocked,
    LaneState,
    OpenCall,
    State,
    Summary,
    TurnState,
    blocked_reason,
    cut_runs,
    decision,
    find_call,
    joined,
    summary_of,
    without,
)
from stenolog.engine import LaneUsage, RoundRobin, UsageByLane, decide, track_usage
from stenolog.events import CallRef, PositionRange, Receipt, ToolResult
from stenolog.testing import entries
from tests.domain.talking import fold
from tests.strategies import histories

Span = tuple[int, int]


def spans(*given: Span) -> tuple[PositionRange, ...]:
    """Return ranges of positions."""
    return tuple(PositionRange(first=first, last=last) for first, last in given)


def summary(position: int, *covered: Span, author: str = "coder", to: tuple[str, ...] = ()) -> Summary:
    """Return a summary of these positions."""
    return Summary(position, author, spans(*covered), to)


def state(*lanes: LaneState, blocked: Blocked | None = None, turns: TurnState = TurnState()) -> State:  # noqa: B008
    """Return a state with these lanes."""
    by_address = FrozenDict({lane.address: lane for lane in lanes})
    return State(position=9, lanes=by_address, blocked=blocked, turn_state=turns)


@pytest.mark.parametrize(
    ("covered", "holes", "left"),
    [
        ([(1, 9)], [(3, 4)], [(1, 2), (5, 9)]),
        ([(1, 9)], [(1, 9)], []),
        ([(2, 9)], [(1, 2)], [(3, 9)]),
        ([(1, 9)], [(9, 12)], [(1, 8)]),
        ([(1, 2)], [(3, 4)], [(1, 2)]),
        ([(1, 3), (6, 9)], [(3, 6)], [(1, 2), (7, 9)]),
        ([(1, 9)], [(5, 5), (2, 3)], [(1, 1), (4, 4), (6, 9)]),
    ],
)
def test_spans_without_holes(covered: list[Span], holes: list[Span], left: list[Span]) -> None:
    assert without(spans(*covered), spans(*holes)) == spans(*left)


def test_a_run_that_was_cut_is_two_positions_from_1_on_and_in_order() -> None:
    plan: dict[str, Any] = {"cut": [[1, 1], [2, 5], [0, 3], [5, 4], [1], ["1", 2]]}

    assert cut_runs(Receipt(view=9, sha256="", plan=plan)) == [(1, 1), (2, 5)]


def test_a_summary_holds_what_lies_in_its_spans_and_overlaps_what_lies_partly_in_them() -> None:
    outer = summary(9, (2, 4), (6, 8))

    assert outer.holds(summary(9, (2, 4)))
    assert outer.holds(summary(9, (3, 3), (6, 7)))
    assert not outer.holds(summary(9, (4, 6)))
    assert outer.overlaps_partly(summary(9, (4, 6)))
    assert outer.overlaps_partly(summary(9, (1, 2)))
    assert not outer.overlaps_partly(summary(9, (5, 5)))
    assert not outer.overlaps_partly(summary(9, (2, 4)))
    assert [outer.covers(position) for position in (1, 2, 4, 5)] == [False, True, True, False]
    assert outer.last == 8


def test_a_summary_is_for_its_authors_lane_and_for_all_lanes_of_the_agents_it_names() -> None:
    made = summary(9, (1, 2), author="coder/a", to=("tester", "ann/b"))

    who = ("coder/a", "coder", "tester", "tester/x", "ann/b", "ann")
    assert [made.is_for(each) for each in who] == [True, False, True, True, True, False]


def test_a_summary_ends_those_that_it_contains_if_it_was_made_for_all_their_lanes() -> None:
    small, wide = summary(5, (1, 2)), summary(6, (1, 2), to=("tester",))
    made = summary(9, (1, 4))

    assert joined((small, wide), made) == (wide, made)


def test_a_result_without_a_call_is_of_the_newest_answer_and_there_of_the_first_call() -> None:
    calls = [OpenCall("e1", 1, 0, "c", "a"), OpenCall("e3", 3, 1, "c", "b"), OpenCall("e3", 3, 0, "c", "d")]
    one, two = LaneState("coder", calls=(calls[0],)), LaneState("tester", calls=tuple(calls[1:]))
    result = ToolResult(call_id="c")

    assert find_call(state(one, two), result) == (two, calls[2])
    assert find_call(state(one), result) == (one, calls[0])
    assert find_call(state(one), ToolResult(call_id="other")) is None
    assert find_call(state(one, two), ToolResult(call_id="", call=CallRef(entry="e3", index=1))) == (
        two,
        calls[1],
    )
    assert find_call(state(one), ToolResult(call_id="c", call=CallRef(entry="e1", index=1))) is None


def test_each_status_has_its_next_action() -> None:
    calls = (OpenCall("e3", 3, 0, "c", "a"), OpenCall("e3", 3, 1, "d", "b", approval=True))
    lane = LaneState("coder", asked=2, answered=3, calls=calls, attempt=1, category="timeout")
    found = {
        status: decision(state(), lane._replace(status=status))
        for status in ("awaiting_llm", "awaiting_tools", "awaiting_approval", "failed", "closed", "idle")
    }

    assert {status: each.do for status, each in found.items()} == {
        "awaiting_llm": "call_model",
        "awaiting_tools": "run_tools",
        "awaiting_approval": "ask_approval",
        "failed": "wait",
        "closed": "stop",
        "idle": "wait",
    }
    assert (found["awaiting_llm"].cause, found["awaiting_llm"].attempt) == (2, 2)
    assert (found["awaiting_tools"].cause, found["awaiting_tools"].calls) == (3, calls)
    assert (found["awaiting_approval"].cause, found["awaiting_approval"].calls) == (3, calls[1:])
    assert (found["failed"].attempt, found["failed"].reason) == (1, "failed: timeout")


@pytest.mark.parametrize(
    ("turns", "reason"),
    [
        (TurnState(end_reason="all have passed"), "all have passed"),
        (TurnState(holders=("ann",), end_reason="over"), "ann has the turn"),
        (TurnState(holders=("ann", "bob")), "ann, bob have the turn"),
    ],
)
def test_a_lane_waits_for_those_that_have_the_turn(turns: TurnState, reason: str) -> None:
    assert decision(state(turns=turns), LaneState("coder")).reason == reason
    assert decision(state(turns=turns), LaneState("coder", status="failed")).reason == f"failed; {reason}"


def test_nothing_is_decided_after_an_entry_that_cannot_be_read() -> None:
    later, damaged = Blocked(4, "poll@1", "0.9"), Blocked(4, DAMAGED, "a bad digest")

    assert decision(state(blocked=later), LaneState("coder", status="awaiting_llm")).do == "stop"
    assert blocked_reason(later) == "poll@1 at position 4 needs stenolog 0.9"
    assert blocked_reason(later._replace(needs="")).endswith("needs a later release of stenolog")
    assert "position 4 is damaged (a bad digest): fork after position 3," in blocked_reason(damaged)


@pytest.mark.parametrize(("view", "covered"), [(4, (1, 4)), (3, (1, 3)), (2, None)])
def test_who_was_sent_a_summary_may_cover_what_that_covers_though_it_was_cut(
    view: int, covered: tuple[int, int] | None
) -> None:
    earlier = Summary(3, "coder", (PositionRange(first=1, last=2),))
    receipt = Receipt(view=view, sha256="", plan={"cut": [[1, 2]]})
    covers = [PositionRange(first=1, last=4)]
    made = AssistantMessage(agent="coder", purpose="summary", covers=covers, receipt=receipt)

    found = summary_of(6, made, [earlier])

    assert (found and [(span.first, span.last) for span in found.spans]) == (covered and [covered])


# An answer that replaces an earlier one changes no lane but one that waits for that one's calls.


LIST, CAT = ToolCall(id="c1", name="ls"), ToolCall(id="c2", name="cat")
JOINED: Event = ModeSwitch(joins=["coder", "tester"])
ASKED = UserMessage(text="Go", to=["coder"])
ANSWERED = AssistantMessage(agent="coder", text="Done")
CALLED = AssistantMessage(agent="coder", tool_calls=[LIST])
ANEW = AssistantMessage(agent="coder", text="Well done", to=["tester"], replaces=3)
FAILED = LlmError(agent="coder", category="timeout")


@pytest.mark.parametrize(
    "since",
    [[], [ASKED], [ASKED, CALLED], [ASKED, FAILED], [ModeSwitch(leaves=["coder"])]],
    ids=["at rest", "asked since", "at work", "failed", "gone"],
)
def test_a_replacement_of_an_older_answer_changes_no_lane_and_asks_no_agent(since: list[Event]) -> None:
    before = fold(entries(JOINED, ASKED, ANSWERED, *since))
    after = fold(entries(JOINED, ASKED, ANSWERED, *since, ANEW))

    assert decide(before, ANEW) == (ANEW,)
    assert after == before._replace(position=before.position + 1)


def test_if_a_replaced_answer_has_open_calls_its_lane_waits_for_the_calls_of_the_replacement() -> None:
    anew = AssistantMessage(agent="coder", tool_calls=[CAT], to=["tester"], replaces=3)
    state = fold(entries(JOINED, ASKED, CALLED, anew))
    lane = state.lane("coder")

    assert (lane.status, lane.answered, [call.name for call in lane.calls]) == ("awaiting_tools", 4, ["cat"])
    assert state.lane("tester").status == "idle"
    resulted = fold(entries(JOINED, ASKED, CALLED, anew, ToolResult(call_id="c2", text="cat")))
    assert (resulted.lane("coder").status, resulted.anomalies) == ("awaiting_llm", 0)


@pytest.mark.parametrize(("since", "status"), [([], "idle"), ([ASKED], "awaiting_llm")])
def test_a_lane_whose_open_calls_are_replaced_by_words_is_idle_unless_it_was_asked_since(
    since: list[Event], status: str
) -> None:
    assert fold(entries(JOINED, ASKED, CALLED, *since, ANEW)).lane("coder").status == status


def test_a_replacement_leaves_the_turn_where_it_is() -> None:
    turns = ModeSwitch(joins=["coder", "tester"], turns=RoundRobin())
    good = AssistantMessage(agent="tester", text="Good")
    state = fold(entries(turns, UserMessage(text="Go"), ANSWERED, good, ANEW))

    assert state.turn_state.holders == ("coder",)
    assert state.lane("coder").status == "awaiting_llm"


def test_a_replacement_does_not_count_as_a_step() -> None:
    accounts = UsageByLane()
    for entry in entries(JOINED, ASKED, CALLED, ANEW):
        accounts = track_usage(accounts, entry)

    account = accounts.lane("coder")
    assert (account.steps, len(account.calls)) == (1, 1)
    assert account != LaneUsage()


@given(histories())
def test_in_any_log_the_replacement_of_an_older_answer_changes_no_lane(events: list[Event]) -> None:
    log = entries(*events)
    state = fold(log)
    for lane in state.lanes.values():
        for old in range(1, lane.answered):
            anew = AssistantMessage(agent=lane.agent, task=lane.task, text="Anew", replaces=old)
            [*_, entry] = entries(*events, anew)
            assert evolve(state, entry).lanes == state.lanes
