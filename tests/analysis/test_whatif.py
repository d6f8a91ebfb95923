"""The request as it would have been, beside the real one."""

from __future__ import annotations

import pytest

from stenolog import ModeSwitch, ToolResult, UserMessage
from stenolog.analysis import whatif
from stenolog.context import Budget, LastN
from stenolog.errors import InvalidEventError, PositionNotFoundError
from stenolog.events import PositionRange
from stenolog.requests import build
from tests.requests.given import ASKED, CALL, calls, log

TALK = log(
    UserMessage(text="List the files", to=("coder",)),
    calls("I look.", CALL),
    ToolResult(call_id="c1", text="a.py"),
    calls("One file."),
    UserMessage(text="Delete it"),
)


def spans(*positions: int) -> list[PositionRange]:
    return [PositionRange(first=at, last=at) for at in positions]


def test_without_an_entry_the_request_is_that_after_a_mode_switch_that_hides_it() -> None:
    made = whatif(TALK, "coder", without=spans(1, 4))
    switched = build(log(*(e.event for e in TALK), ModeSwitch(hides=spans(1, 4))), "coder")

    assert made.real == build(TALK, "coder")
    assert made.other.body == switched.body
    assert made.other.at == made.real.at
    assert {(run.first, run.rule) for run in made.other.omissions} >= {(1, "hidden"), (4, "hidden")}


def test_what_was_hidden_before_stays_hidden() -> None:
    conversation = log(*(entry.event for entry in TALK), ModeSwitch(hides=spans(1)))

    made = whatif(conversation, "coder", without=spans(4))

    assert [run.first for run in made.other.omissions if run.rule == "hidden"] == [1, 4]


def test_under_another_policy_the_differences_are_named() -> None:
    made = whatif(TALK, "coder", policy=LastN(1))

    assert (made.same, made.difference.messages_before, made.difference.messages_after) == (False, 5, 1)
    assert {change.rule for change in made.difference.changes if change.sign == "-"} >= {"beyond-last"}


def test_a_budget_below_what_must_stay_says_so() -> None:
    made = whatif(TALK, "coder", policy=Budget(tokens=3))

    assert made.real.ready
    assert made.other.reason.startswith("over budget")
    assert not made.same


def test_nothing_that_is_otherwise_is_said_to_be_the_same() -> None:
    assert whatif(TALK, "coder").same
    assert whatif(TALK, "coder", policy=LastN(50)).same


@pytest.mark.parametrize(
    ("span", "complaint"),
    [
        (PositionRange(first=4, last=9), "expected a position from 1 to 5, found 9"),
        (PositionRange(first=6, last=6), "expected a position from 1 to 5, found 6"),
        (PositionRange(first=4, last=3), "expected the lower position first, found 4-3"),
    ],
)
def test_positions_that_are_not_there_are_refused(span: PositionRange, complaint: str) -> None:
    with pytest.raises(PositionNotFoundError, match=complaint):
        whatif(TALK, "coder", without=[span])


def test_the_log_itself_is_left_alone() -> None:
    before = list(TALK)

    whatif(TALK, "coder", without=spans(1), policy=LastN(1))

    assert before == TALK
    assert ASKED.text in build(TALK, "coder").body["messages"][0]["content"]


def test_an_edited_entry_says_other_words_from_the_beginning() -> None:
    made = whatif(TALK, "coder", edits={1: "List the tests", 3: "b.py"})
    events = [entry.event for entry in TALK]
    changed = log(
        UserMessage(text="List the tests", to=("coder",)),
        events[1],
        ToolResult(call_id="c1", text="b.py"),
        *events[3:],
    )
    assert made.other.body == build(changed, "coder").body
    assert {(change.sign, change.first) for change in made.difference.changes} == {("~", 1), ("~", 3)}


def test_what_an_edited_entry_has_beside_its_text_stays() -> None:
    made = whatif(TALK, "coder", edits={2: "No."})
    assert made.other.body["messages"][1]["tool_calls"] == made.real.body["messages"][1]["tool_calls"]
    assert made.other.body["messages"][1]["content"] == "No."


def test_another_mode_is_that_after_a_mode_switch_of_the_agent() -> None:
    switched = build(log(*(e.event for e in TALK), ModeSwitch(mode="agent", agents=("coder",))), "coder")
    assert whatif(TALK, "coder", mode="agent").other.body == switched.body


def test_an_edit_of_a_mode_switch_or_of_what_is_not_there_is_refused() -> None:
    with pytest.raises(PositionNotFoundError, match="from 1 to 5, found 6"):
        whatif(TALK, "coder", edits={6: "x"})
    with pytest.raises(InvalidEventError, match="with words to edit, found mode_switch at 6"):
        whatif([*TALK, *log(*(e.event for e in TALK), ModeSwitch(mode="x"))[5:]], "coder", edits={6: "x"})
