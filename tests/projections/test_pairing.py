"""Which result belongs to which call, where ids repeat, are missing, or name what is not there."""

from __future__ import annotations

import pytest
from hypothesis import given

from stenolog import AssistantMessage, Entry, Event, LlmError, ToolCall, ToolResult, UserMessage
from stenolog.domain.lanes.step import fold
from stenolog.events import CallRef
from stenolog.projections.views.tool_pairs import CallKey, pair
from stenolog.testing import entries, example_conversation
from tests.strategies import decided, logs


def calling(*ids: str) -> AssistantMessage:
    return AssistantMessage(agent="coder", tool_calls=[ToolCall(id=id, name="shell") for id in ids])


def result(id: str, entry: str | None = None, index: int = 0) -> ToolResult:
    return ToolResult(call_id=id, call=CallRef(entry=entry, index=index) if entry else None)


def pairs(*events: Event) -> dict[int, tuple[int, int] | None]:
    """Return the call of each result: the position of its entry, and its place there."""
    return dict(pair(entries(*events)).calls)


@pytest.mark.parametrize(
    ("events", "calls"),
    [
        ([calling("a", "b"), result("b"), result("a")], {2: (1, 1), 3: (1, 0)}),
        ([calling("a", "a"), result("a"), result("a")], {2: (1, 0), 3: (1, 1)}),
        ([calling("a"), calling("a"), result("a"), result("a")], {3: (2, 0), 4: (1, 0)}),
        ([calling("a"), result("a"), result("a")], {2: (1, 0), 3: None}),
        ([result("a"), calling("a")], {1: None}),
        ([calling(""), result("")], {2: (1, 0)}),
        ([calling("a"), result("b")], {2: None}),
    ],
    ids=[
        "any order",
        "twice in one",
        "the nearest",
        "once",
        "not before its call",
        "an empty id",
        "no such id",
    ],
)
def test_a_result_goes_to_the_nearest_unanswered_call_of_its_id(
    events: list[Event], calls: dict[int, tuple[int, int] | None]
) -> None:
    assert pairs(*events) == calls


@pytest.mark.parametrize(
    ("named", "call"),
    [
        (result("a", "e1", 1), (1, 1)),
        (result("of another id", "e1", 1), (1, 1)),
        (result("a", "e1", 2), None),
        (result("a", "e9"), None),
        (result("a", "e3"), None),
    ],
    ids=["by its own id", "by another id", "an index too far", "no such entry", "no such message"],
)
def test_a_result_that_names_its_call_goes_there_and_nowhere_else(
    named: ToolResult, call: tuple[int, int] | None
) -> None:
    assert pairs(calling("a", "a"), calling("a"), UserMessage(text="Hi"), named) == {4: call}


def test_a_named_call_that_has_its_result_takes_no_second() -> None:
    assert pairs(calling("a"), result("a"), result("a", "e1")) == {2: (1, 0), 3: None}


def test_calls_of_an_answer_that_was_cut_off_take_no_result() -> None:
    cut = LlmError(agent="coder", category="timeout", tool_calls=[ToolCall(id="a", name="shell")])

    assert pairs(cut, result("a")) == {2: None}


def test_a_second_result_is_told_from_one_of_a_call_that_never_was() -> None:
    pairing = pair(entries(calling("a"), result("a"), result("a"), result("b")))

    assert pairing.second == {3}


@given(log=logs())
def test_a_call_has_at_most_one_result_and_a_result_at_most_one_call(log: list[Entry]) -> None:
    pairing = pair(log)
    paired = {position: key for position, key in pairing.calls.items() if key is not None}

    assert pairing.results == {key: position for position, key in paired.items()}
    assert all(key.position < position for position, key in paired.items())
    assert set(pairing.calls) == {entry.position for entry in log if isinstance(entry.event, ToolResult)}


@given(log=decided().map(lambda history: entries(*history)))
def test_the_step_and_the_pairing_agree_on_every_result_that_names_its_call(log: list[Entry]) -> None:
    pairing = pair(log)
    for entry in log:
        if isinstance(entry.event, ToolResult) and entry.event.call is not None:
            before = {CallKey(c.position, c.nth) for _, c in fold(log[: entry.position - 1]).open_calls()}
            after = {CallKey(c.position, c.nth) for _, c in fold(log[: entry.position]).open_calls()}

            assert before - after == {pairing.calls[entry.position]}


def test_the_story_leaves_no_result_without_its_call() -> None:
    assert None not in pair(entries(*example_conversation())).calls.values()
