"""What is in context: resets, rewinds, edits, and the summaries that hold."""

from __future__ import annotations

import pytest
from hypothesis import given

from stenolog import AssistantMessage, Entry, Event, LlmError, ModeSwitch, ToolCall, ToolResult, UserMessage
from stenolog.domain.lanes.step import fold
from stenolog.events import CallRef, PositionRange
from stenolog.projections.views.context import Context, context
from stenolog.testing import entries
from tests.strategies import decided, logs

HI = UserMessage(text="Hi")
SAID = AssistantMessage(agent="coder", text="Hello")
CALLED = AssistantMessage(agent="coder", tool_calls=[ToolCall(id="c1", name="shell")])
DONE = ToolResult(call_id="c1", text="ok")


def of(*events: Event) -> Context:
    return context(entries(*events))


def edit(position: int, text: str = "Hi!") -> UserMessage:
    return UserMessage(text=text, replaces=position)


def summary(*spans: tuple[int, int], agent: str = "coder") -> AssistantMessage:
    covers = [PositionRange(first=first, last=last) for first, last in spans]
    return AssistantMessage(agent=agent, purpose="summary", covers=covers, text="In short")


def holding(*events: Event) -> list[int]:
    """Return the positions of the summaries that hold."""
    return [made.position for made in of(*events).summaries]


def test_a_reset_leaves_out_all_that_is_before_it() -> None:
    now = of(HI, SAID, HI, ModeSwitch(context_from=3))

    assert now.out == {1: ("reset", 3), 2: ("reset", 3)}


def test_a_rewind_leaves_out_what_it_hides_and_all_of_it() -> None:
    hides = [PositionRange(first=2, last=3), PositionRange(first=5, last=5)]

    assert set(of(HI, SAID, HI, SAID, HI, ModeSwitch(hides=hides)).out) == {2, 3, 5}


@pytest.mark.parametrize("cleared", [ModeSwitch(hides=None), ModeSwitch(hides=[])])
def test_what_was_hidden_comes_back_when_the_rewind_is_cleared(cleared: ModeSwitch) -> None:
    assert of(HI, SAID, ModeSwitch(hides=[PositionRange(first=1, last=2)]), cleared).out == {}


def test_an_edit_takes_the_place_of_what_it_edits() -> None:
    now = of(HI, SAID, edit(1))

    assert (now.out, now.replaced_by, now.edits) == ({1: ("replaced", 3)}, {1: 3}, {3: 1})


@pytest.mark.parametrize(
    ("edits", "last"),
    [([edit(1), edit(1)], 4), ([edit(1), edit(3)], 4), ([edit(1), edit(3), edit(1), edit(4)], 6)],
    ids=["of the same", "of the edit", "of all of them"],
)
def test_of_several_edits_of_one_message_the_last_counts(edits: list[Event], last: int) -> None:
    now = of(HI, SAID, *edits)
    earlier = [1, *range(3, last)]

    assert now.out == dict.fromkeys(earlier, ("replaced", last))
    assert now.edits == dict.fromkeys(range(3, last + 1), 1)


def test_an_edit_that_is_hidden_gives_way_to_what_it_edited() -> None:
    now = of(HI, SAID, edit(1), ModeSwitch(hides=[PositionRange(first=3, last=3)]))

    assert now.out == {3: ("hidden", 3)}


@pytest.mark.parametrize("position", [2, 3, 99])
def test_an_edit_of_itself_or_of_what_is_to_come_edits_nothing(position: int) -> None:
    assert of(HI, edit(position)).edits == {}


def test_an_answer_may_be_regenerated() -> None:
    assert of(HI, SAID, AssistantMessage(agent="coder", text="Hello!", replaces=2)).replaced_by == {2: 3}


def test_a_summary_covers_what_it_says() -> None:
    [made] = of(HI, SAID, HI, SAID, summary((1, 1), (3, 4))).summaries

    assert [position for position in range(1, 6) if made.covers(position)] == [1, 3, 4]
    assert (made.position, made.author, made.last) == (5, "coder", 4)


@pytest.mark.parametrize(
    ("first", "second", "held"),
    [
        (summary((1, 2)), summary((1, 3)), [6]),
        (summary((1, 2)), summary((1, 2)), [6]),
        (summary((1, 2)), summary((3, 4)), [5, 6]),
        (summary((1, 2)), summary((2, 3)), [5]),
        (summary((1, 3)), summary((2, 2)), [5]),
        (summary((1, 1), (4, 4)), summary((1, 3)), [5]),
        (summary((1, 1), (4, 4)), summary((1, 4)), [6]),
        (summary((1, 2)), summary((1, 2), agent="tester"), [5, 6]),
        (summary((1, 2)), summary((2, 3), agent="tester"), [5, 6]),
        (summary((1, 2)), summary((1, 2), (5, 5)), [6]),
    ],
    ids=[
        "larger",
        "the same again",
        "apart",
        "partly",
        "smaller",
        "half of the spans",
        "all of the spans",
        "of another agent",
        "partly, of another agent",
        "with the summary itself",
    ],
)
def test_a_larger_summary_wins_and_a_partial_overlap_is_ignored(
    first: AssistantMessage, second: AssistantMessage, held: list[int]
) -> None:
    assert holding(HI, SAID, HI, SAID, first, second) == held


@pytest.mark.parametrize("covers", [(1, 3), (2, 9), (2, 1)], ids=["itself", "the future", "backwards"])
def test_a_summary_of_what_is_not_past_is_ignored(covers: tuple[int, int]) -> None:
    assert holding(HI, SAID, summary(covers)) == []


def test_a_summary_that_is_hidden_does_not_hold() -> None:
    hidden = ModeSwitch(hides=[PositionRange(first=3, last=3)])

    assert holding(HI, SAID, summary((1, 2)), hidden) == []
    assert holding(HI, SAID, summary((1, 2)), hidden, summary((2, 3))) == [5]


def test_a_summary_never_swallows_an_open_call() -> None:
    assert holding(HI, CALLED, summary((1, 2), agent="tester")) == []
    assert holding(HI, CALLED, summary((1, 2), agent="tester"), DONE) == []
    assert holding(HI, CALLED, summary((1, 1))) == [3]


def test_a_summary_never_covers_a_call_without_its_result_or_the_other_way_round() -> None:
    assert holding(HI, CALLED, DONE, SAID, summary((1, 2))) == []
    assert holding(HI, CALLED, DONE, SAID, summary((3, 4))) == []
    assert holding(HI, CALLED, DONE, SAID, summary((2, 3))) == [5]


@pytest.mark.parametrize("end", [SAID, LlmError(agent="coder", category="cancelled")])
def test_a_call_that_was_given_up_does_not_keep_a_summary_from_holding(end: Event) -> None:
    late = ToolResult(call_id="c1", call=CallRef(entry="e2"), text="late")

    assert holding(HI, CALLED, end, summary((1, 3))) == [4]
    assert holding(HI, CALLED, end, summary((1, 3)), late) == [4]


@given(log=decided().map(lambda history: entries(*history)))
def test_a_summary_that_was_decided_fails_only_where_it_halves_a_closed_call(log: list[Entry]) -> None:
    """The state knows open calls alone; everything else the two agree on, until something is hidden."""
    if any(isinstance(entry.event, ModeSwitch) and entry.position > 1 for entry in log):
        return
    paired = context(log).pairing.results
    for made in fold(log).summaries:
        if all(made.covers(key.position) is made.covers(result) for key, result in paired.items()):
            assert made in context(log).summaries


@given(log=logs())
def test_the_context_is_total_and_tells_of_every_position_at_most_once(log: list[Entry]) -> None:
    now = context(log)

    assert {rule for rule, _ in now.out.values()} <= {"reset", "hidden", "replaced"}
    of_coder = [made for made in now.summaries if made.is_for("coder")]
    assert not any(one.overlaps_partly(other) for one in of_coder for other in of_coder)
    assert set(now.edits).isdisjoint(position for position, (rule, _) in now.out.items() if rule == "hidden")
