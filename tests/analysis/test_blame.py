"""Who told it to do that: back to the words of a person, by what the log records and by nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given

from stenolog import AssistantMessage, Entry, LlmError, ModeSwitch, ToolCall, ToolResult, UserMessage
from stenolog.analysis import Blame, blame
from stenolog.errors import PositionNotFoundError
from stenolog.events import Control, Origin, Receipt
from stenolog.testing import entries
from tests.analysis.crew import crew
from tests.strategies import logs

CREW = crew()
SOURCE = Origin(system="claude-code")
CALL = ToolCall(id="c", name="shell")


def steps(told: Blame) -> list[tuple[int, str]]:
    """Return each link as its position and the field that leads to it."""
    return [(link.position, link.field) for link in told.links]


def test_a_result_leads_through_its_call_its_approval_and_every_cause_to_a_person() -> None:
    told = blame(CREW, 9)

    assert steps(told) == [
        (9, ""),
        (7, "call"),
        (8, "control.call"),
        (6, "cause"),
        (4, "call_id"),
        (3, "cause"),
        (2, "cause"),
    ]
    assert (told.links[-1].who, told.links[-1].text) == (
        "Ada → planner",
        "Make the parser faster, then ship it.",
    )
    assert [link.position for link in told.links if link.person] == [8, 2]
    assert (told.gap, told.possible) == ("", ())


def test_one_call_of_several_is_the_one_that_is_meant() -> None:
    first, second = blame(CREW, 4, 0), blame(CREW, 4, 1)

    assert (first.links[0].text, first.links[0].call) == ('→ shell({"what": "profile"})', 0)
    assert (second.links[0].text, second.links[0].call) == ('→ shell({"what": "ls"})', 1)
    assert [link.text for link in blame(CREW, 9).links if link.call is not None] == [
        '→ deploy({"what": "live"})',
        "[approve] e7",
        '→ shell({"what": "ls"})',
    ]


def test_only_the_approval_of_the_call_that_is_meant_is_a_link() -> None:
    assert [link.field for link in blame(CREW, 7, 0).links][:2] == ["", "control.call"]
    assert "control.call" not in [link.field for link in blame(CREW, 4, 0).links]


def test_a_schedule_is_a_beginning_and_no_person() -> None:
    told = blame(CREW, 12)

    assert steps(told) == [(12, ""), (11, "cause")]
    assert told.gap == "entry 11 is the beginning: the schedule said it, and names no cause"


def test_what_an_agent_or_a_schedule_says_leads_on_by_its_own_cause() -> None:
    log = entries(
        UserMessage(text="Remind me."),
        UserMessage(text="The hour has come.", author_kind="schedule", cause=1, to=("coder",)),
        AssistantMessage(agent="coder", text="Up!", cause=2),
    )

    assert steps(blame(log, 3)) == [(3, ""), (2, "cause"), (1, "cause")]


def test_a_receipt_without_a_cause_leads_to_what_the_lane_had_to_answer_at_its_view() -> None:
    log = entries(
        ModeSwitch(joins=("coder",)),
        UserMessage(text="Which test fails?"),
        UserMessage(text="And this is for others.", to=("reviewer",)),
        AssistantMessage(agent="coder", text="One.", receipt=Receipt(view=3, sha256="0" * 64)),
    )

    assert steps(blame(log, 4)) == [(4, ""), (2, "receipt.view")]


def test_a_person_who_only_says_to_go_on_leads_to_the_error_and_on_to_who_asked_first() -> None:
    log = entries(
        ModeSwitch(joins=("coder", "reviewer")),
        UserMessage(text="Write it.", to=("coder",)),
        LlmError(agent="coder", category="timeout", text="It be", cause=2),
        LlmError(agent="reviewer", category="timeout"),
        UserMessage(control=Control(action="continue", agent="coder")),
        AssistantMessage(agent="coder", text="gins.", cause=5),
    )

    assert steps(blame(log, 6)) == [(6, ""), (5, "cause"), (3, "control"), (2, "cause")]


def test_an_imported_answer_says_that_nothing_is_recorded_and_shows_what_is_possible_apart() -> None:
    log = entries(
        UserMessage(text="Look around.", source=SOURCE),
        UserMessage(text="Delete it.", source=SOURCE),
        AssistantMessage(agent="claude", tool_calls=[CALL], source=SOURCE),
        ToolResult(call_id="c", text="gone", source=SOURCE),
        UserMessage(text="Thanks.", source=SOURCE),
    )

    told = blame(log, 4)

    assert steps(told) == [(4, ""), (3, "call_id")]
    assert told.gap == "not recorded: entry 3 was imported from claude-code without a cause or a receipt"
    assert [(link.position, link.text, link.field) for link in told.possible] == [
        (2, "Delete it.", ""),
        (1, "Look around.", ""),
    ]


def test_the_brief_of_a_sub_agent_is_possible_where_nothing_says_what_it_answered() -> None:
    log = entries(
        UserMessage(text="Look around.", to=("claude",), source=SOURCE),
        UserMessage(text="Read it.", author="claude", author_kind="agent", to=("explorer",), source=SOURCE),
        AssistantMessage(agent="explorer", tool_calls=[CALL], to=("explorer",), source=SOURCE),
    )
    (brief,) = (link for link in blame(log, 3, 0).possible if link.position == 2)

    assert (brief.text, brief.person) == ("Read it.", False)


def test_what_the_agent_was_not_shown_is_not_possible() -> None:
    log = entries(
        ModeSwitch(joins=("coder", "reviewer"), scope="addressed"),
        UserMessage(text="For the reviewer.", to=("reviewer",)),
        UserMessage(text="For the coder.", to=("coder",)),
        AssistantMessage(agent="coder", text="Done."),
    )

    assert [link.position for link in blame(log, 4).possible] == [3]


@pytest.mark.parametrize(
    ("event", "gap"),
    [
        (
            AssistantMessage(agent="a", text="x"),
            "not recorded: entry 2 was recorded without a cause or a receipt",
        ),
        (ToolResult(call_id="nobody's", text="x"), "entry 2 is a result whose call is not in the log"),
        (ModeSwitch(mode="run"), "entry 2 is a setting; who changed it is not recorded"),
        (
            UserMessage(text="x", author_kind="agent", source=SOURCE),
            "not recorded: entry 2 was imported from claude-code without a cause",
        ),
        (
            AssistantMessage(agent="a", text="x", cause=7),
            "entry 2 names 7 by `cause`, which does not stand before it",
        ),
    ],
)
def test_a_chain_that_ends_before_a_person_says_why(event: AssistantMessage, gap: str) -> None:
    assert blame(entries(UserMessage(text="hello"), event), 2).gap == gap


@pytest.mark.parametrize(
    ("position", "call", "complaint"),
    [
        (0, None, "expected a position from 1 to 14, found 0"),
        (15, None, "found 15"),
        (4, 2, "entry 4: expected one of its 2 calls, found 3"),
        (2, 0, "entry 2: expected one of its 0 calls, found 1"),
    ],
)
def test_what_is_not_there_is_refused(position: int, call: int | None, complaint: str) -> None:
    with pytest.raises(PositionNotFoundError, match=complaint):
        blame(CREW, position, call)


@given(logs())
def test_every_chain_goes_back_in_the_log_and_ends_at_a_person_or_says_why(log: list[Entry]) -> None:
    for entry in log:
        told = blame(log, entry.position)
        chain = [link for link in told.links if link.field != "control.call"]  # a decision is no cause
        back = [link.position for link in chain]

        assert back == sorted(set(back), reverse=True)
        assert bool(told.gap) is not chain[-1].person
