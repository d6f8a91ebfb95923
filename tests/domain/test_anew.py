"""An answer that replaces an earlier one changes no lane but one that waits for that one's calls."""

from __future__ import annotations

import pytest
from hypothesis import given

from stenolog import AssistantMessage, Event, LlmError, ModeSwitch, ToolCall, ToolResult, UserMessage, evolve
from stenolog.engine import LaneUsage, RoundRobin, UsageByLane, decide, track_usage
from stenolog.testing import entries
from tests.domain.talking import fold
from tests.strategies import histories

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
