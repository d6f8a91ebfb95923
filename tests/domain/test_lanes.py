"""Lanes: who is asked, what they wait for, and what they are left with."""

from __future__ import annotations

from datetime import timedelta

import pytest

from stenolog import (
    AgentCard,
    AssistantMessage,
    Event,
    LlmError,
    ModeSwitch,
    State,
    Tool,
    ToolCall,
    ToolResult,
    UserMessage,
    step,
)
from stenolog.engine import LaneState, Transition
from stenolog.events import CallRef, Control, ConversationRef, PositionRange, Unknown
from stenolog.testing import START, entries
from tests.domain.talking import after, fold

SHELL = ToolCall(id="c1", name="shell")
DEPLOY = ToolCall(id="d1", name="deploy")
CAREFUL = ModeSwitch(joins=["coder"], cards={"coder": AgentCard(tools=[Tool(name="deploy", approval=True)])})
ASKED = UserMessage(text="Go", to=["coder"])
CALLED = AssistantMessage(agent="coder", tool_calls=[SHELL])


def last(*events: Event) -> Transition:
    """Return the only transition of the last event."""
    log = entries(*events)
    [made] = step(fold(log[:-1]), log[-1]).transitions
    return made


def test_a_lane_that_left_is_closed_with_its_tasks_and_their_calls() -> None:
    task = AssistantMessage(agent="coder", task="docs", tool_calls=[SHELL])
    state = after(ModeSwitch(joins=["coder", "tester"]), task, ModeSwitch(leaves=["coder"]))

    assert {where: (lane.status, lane.calls) for where, lane in state.lanes.items()} == {
        "coder": ("closed", ()),
        "tester": ("idle", ()),
        "coder/docs": ("closed", ()),
    }
    assert state.members == ("tester",)


def test_who_joins_twice_takes_part_once() -> None:
    state = after(ModeSwitch(joins=["coder", "coder"]), ModeSwitch(joins=["tester", "coder"]))

    assert state.members == ("coder", "tester")


def test_who_leaves_and_joins_in_one_switch_stays() -> None:
    state = after(ModeSwitch(joins=["coder"]), ModeSwitch(leaves=["coder"], joins=["coder"]))

    assert (state.members, state.lane("coder").status) == (("coder",), "idle")


@pytest.mark.parametrize(
    ("events", "asked"),
    [
        ([ModeSwitch(joins=["a", "b"]), UserMessage(text="Hi")], {"a", "b"}),
        ([ModeSwitch(joins=["a", "b"]), UserMessage(text="Hi", to=["b"])], {"b"}),
        ([ModeSwitch(joins=["a"]), UserMessage(text="Hi", to=["b", "b/docs", "b"])], {"b", "b/docs"}),
        ([AssistantMessage(agent="a"), UserMessage(text="Hi")], {"a"}),
        ([AssistantMessage(agent="a", task="docs"), UserMessage(text="Hi")], set()),
        ([ModeSwitch(joins=["a"]), UserMessage(text="Hi", author_kind="system", to=["a"])], set()),
        ([ModeSwitch(joins=["a"]), UserMessage(text="Hi", in_context=False)], set()),
    ],
    ids=["all", "one named", "a stranger named", "who spoke", "no task", "a system note", "not in context"],
)
def test_a_message_asks_those_it_is_for(events: list[Event], asked: set[str]) -> None:
    waiting = (where for where, lane in after(*events).lanes.items() if lane.status == "awaiting_llm")

    assert set(waiting) == asked


def test_a_message_that_nobody_is_there_for_waits_until_somebody_answers() -> None:
    asked = UserMessage(text="Anybody?")

    assert after(asked).waiting == 1
    assert after(asked).lane("coder").asked == 1
    assert after(asked, AssistantMessage(agent="coder")).waiting == 0


def test_an_answer_hands_on_to_those_it_names_who_take_part() -> None:
    said = AssistantMessage(agent="a", to=["b", "a", "nobody", "gone", "b"])
    opened = ModeSwitch(joins=["a", "b", "gone"])
    state = after(opened, ModeSwitch(leaves=["gone"]), said)

    assert {where: lane.status for where, lane in state.lanes.items()} == {
        "a": "idle",
        "b": "awaiting_llm",
        "gone": "closed",
    }
    assert state.anomalies == 0


def test_a_refusal_alone_lets_no_call_run() -> None:
    called = AssistantMessage(agent="coder", tool_calls=[DEPLOY])
    refused = UserMessage(control=Control(action="refuse", call=CallRef(entry="e2")))

    assert last(CAREFUL, called, refused).decision.do == "ask_approval"
    assert last(CAREFUL, called, refused, ToolResult(call_id="d1")).decision.do == "call_model"


def test_a_model_that_fails_while_tools_run_changes_nothing_for_them() -> None:
    error = LlmError(agent="coder", category="network")
    state = after(ASKED, CALLED, error)

    assert state.lane("coder").status == "awaiting_tools"
    assert after(ASKED, CALLED, error, ToolResult(call_id="c1")).lane("coder").status == "awaiting_llm"


def test_failures_in_a_row_are_counted_and_an_answer_ends_the_row() -> None:
    later = LlmError(agent="coder", category="overloaded", attempt=1, retry_at=START)
    never = LlmError(agent="coder", category="timeout", attempt=2)

    assert last(ASKED, later).decision[:5] == ("call_model", 1, (), 2, START)
    assert last(ASKED, later, never).decision[:4] == ("wait", 1, (), 2)
    assert after(ASKED, later, AssistantMessage(agent="coder")).lane("coder")[6:8] == (0, None)


def test_steps_count_the_answers_since_a_person_last_spoke() -> None:
    turn: list[Event] = [CALLED, ToolResult(call_id="c1")]

    assert after(ASKED, *turn, *turn).lane("coder").steps == 2
    assert after(ASKED, *turn, *turn, ASKED).lane("coder").steps == 0


def test_the_session_of_a_stateful_backend_stays_until_there_is_another() -> None:
    said = [AssistantMessage(agent="coder", session=session) for session in ("s1", "", "s2", "")]

    assert [after(*said[:n]).lane("coder").session for n in (1, 2, 3, 4)] == ["s1", "s1", "s2", "s2"]


def test_a_session_ends_with_its_process_with_a_reset_and_with_a_rewind() -> None:
    said = AssistantMessage(agent="coder", session="s1")
    died = LlmError(agent="coder", category="process_exited")
    resets = [ModeSwitch(context_from=1), ModeSwitch(context_from=None), ModeSwitch(hides=[])]
    ends: list[Event] = [died, *resets]

    assert [after(ASKED, said, ASKED, end).lane("coder").session for end in ends] == ["", "", "", ""]


def test_a_fork_does_not_inherit_the_sessions_of_its_parent() -> None:
    said = AssistantMessage(agent="coder", session="s1")
    forked = ModeSwitch(
        fork=True, parent=ConversationRef(conversation="demo", position=1, digest=""), joins=["coder"]
    )

    assert after(said, forked).lane("coder").session == ""
    assert after(said, forked, said).lane("coder").session == "s1"


@pytest.mark.parametrize(
    ("result", "left"),
    [
        (ToolResult(call_id="c1"), [("e1", 0), ("e1", 1), ("e2", 1)]),
        (ToolResult(call_id="c1", call=CallRef(entry="e1", index=1)), [("e1", 0), ("e2", 0), ("e2", 1)]),
        (ToolResult(call_id="other", call=CallRef(entry="e1")), [("e1", 1), ("e2", 0), ("e2", 1)]),
        (ToolResult(call_id="c1", call=CallRef(entry="e9")), [("e1", 0), ("e1", 1), ("e2", 0), ("e2", 1)]),
        (ToolResult(call_id="c2"), [("e1", 0), ("e1", 1), ("e2", 0)]),
    ],
    ids=["the nearest", "the one named", "the one named, of another id", "one unknown", "of another id"],
)
def test_a_result_closes_the_call_that_it_names_or_the_nearest_of_its_id(
    result: ToolResult, left: list[tuple[str, int]]
) -> None:
    c1, c2 = ToolCall(id="c1", name="a"), ToolCall(id="c2", name="b")
    one = AssistantMessage(agent="a", tool_calls=[c1, c1])
    other = AssistantMessage(agent="b", tool_calls=[c1, c2])

    assert [(call.entry, call.nth) for _, call in after(one, other, result).open_calls()] == left


def test_the_open_calls_are_true_while_there_are_some() -> None:
    assert after(ASKED, CALLED).open_calls()
    assert not after(ASKED, CALLED, ToolResult(call_id="c1")).open_calls()


def test_a_call_awaits_approval_where_the_card_says_so_when_it_is_made() -> None:
    called = AssistantMessage(agent="coder", tool_calls=[SHELL, DEPLOY])
    trusted = ModeSwitch(cards={"coder": None})

    assert [call.approval for call in after(CAREFUL, called).lane("coder").calls] == [False, True]
    assert [call.approval for call in after(CAREFUL, called, trusted).lane("coder").calls] == [False, True]
    assert [call.approval for call in after(CAREFUL, trusted, called).lane("coder").calls] == [False, False]


def test_a_larger_summary_takes_the_place_of_those_it_covers() -> None:
    said = [AssistantMessage(agent="a", text="Hi")] * 4
    small = AssistantMessage(agent="a", purpose="summary", covers=[PositionRange(first=1, last=2)])
    part = AssistantMessage(agent="a", purpose="summary", covers=[PositionRange(first=2, last=3)])
    large = AssistantMessage(agent="a", purpose="summary", covers=[PositionRange(first=1, last=4)])

    assert [made.position for made in after(*said, small).summaries] == [5]
    assert [made.position for made in after(*said, small, part).summaries] == [5]
    assert after(*said, small, part).anomalies == 1
    assert [made.position for made in after(*said, small, part, large).summaries] == [7]


@pytest.mark.parametrize(
    "rewind", [ModeSwitch(hides=[PositionRange(first=2, last=2)]), ModeSwitch(context_from=3)]
)
def test_a_summary_that_is_out_of_context_binds_no_other(rewind: ModeSwitch) -> None:
    said = AssistantMessage(agent="a", text="Hi")
    made = AssistantMessage(agent="a", purpose="summary", covers=[PositionRange(first=1, last=1)])

    assert len(after(said, made).summaries) == 1
    assert after(said, made, rewind).summaries == ()


def test_nothing_is_decided_after_what_this_release_does_not_know() -> None:
    poll = Unknown(topic="poll@1", payload=b'{"needs":"0.9"}', needs="0.9")
    other = Unknown(topic="quiz@1", payload=b"{}")

    assert last(ASKED, poll, other, ASKED).decision[5] == "poll@1 at position 2 needs stenolog 0.9"
    assert last(ASKED, other, ASKED).decision[0] == "stop"
    assert "later release" in last(other, ASKED).decision[5]


def test_what_may_be_passed_over_stops_nothing() -> None:
    poll = Unknown(topic="poll@1", payload=b'{"ignorable":true}', ignorable=True)

    assert last(poll, ASKED).decision.do == "call_model"


def test_a_lane_has_an_address_and_an_address_its_lane() -> None:
    assert LaneState("coder").address == "coder"
    assert LaneState("coder", "docs/en").address == "coder/docs/en"
    assert State().lane("coder/docs/en") == LaneState("coder", "docs/en")


def test_a_decision_tells_what_was_asked_and_when_to_try_again() -> None:
    error = LlmError(agent="coder", category="overloaded", retry_at=START + timedelta(seconds=7))
    decision = last(ASKED, error).decision

    assert (decision.cause, decision.attempt, decision.time) == (1, 2, START + timedelta(seconds=7))
