"""A conversation is a sequence of entries, and answers the questions that people ask of one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, Conversation, Entry, Fold, LlmError, ModeSwitch, UserMessage, fold
from stenolog.analysis import diff
from stenolog.errors import CallerError, InvalidEventError, NotRegisteredError

WORDS = [f"word{number}" for number in range(1, 10)]


@pytest.fixture
def conversation() -> Iterator[Conversation]:
    with stenolog.open(":memory:") as log:
        demo = log["demo"]
        demo.extend([UserMessage(word) for word in WORDS])
        yield demo


def test_iterating_gives_the_entries_in_order_and_len_their_number(conversation: Conversation) -> None:
    assert list(conversation) == list(conversation.entries())
    assert len(conversation) == conversation.position == len(list(conversation))


@pytest.mark.parametrize(
    "wanted",
    [
        *(0, 3, -1, -4, slice(None), slice(2, 5), slice(-3, None), slice(None, None, 2)),
        *(slice(None, None, -1), slice(7, 1, -3), slice(1, 8, 3), slice(50, 60), slice(5, 2)),
    ],
    ids=str,
)
def test_an_index_or_a_slice_gives_what_a_list_of_the_entries_would(
    conversation: Conversation, wanted: int | slice
) -> None:
    assert conversation[wanted] == list(conversation)[wanted]


def test_a_position_is_no_index(conversation: Conversation) -> None:
    assert conversation.entry(1) == conversation[0]
    with pytest.raises(IndexError, match="'demo' has 10 entries, found the index 10"):
        conversation[10]
    with pytest.raises(InvalidEventError, match="expected an index or a slice, found 'first'"):
        conversation["first"]  # type: ignore[call-overload]


def test_a_conversation_that_has_not_begun_is_empty_and_no_less_a_conversation() -> None:
    with stenolog.open(":memory:") as log:
        assert (list(log["new"]), len(log["new"]), bool(log["new"])) == ([], 0, True)


def test_the_repr_of_an_entry_is_one_short_line(conversation: Conversation) -> None:
    assert repr(conversation[-1]) == "<Entry 10 of 'demo': user_message 'word9'>"
    conversation.append(UserMessage("x" * 5_000))
    assert len(repr(conversation[-1])) < 120


def test_a_fold_that_fills_the_list_it_is_given_begins_anew_each_time(conversation: Conversation) -> None:
    @fold(initial=list[int]())
    def filled(positions: list[int], entry: Entry) -> list[int]:
        positions.append(entry.position)
        return positions

    assert conversation.fold(filled) == conversation.fold(filled) == [*range(1, conversation.position + 1)]
    assert [*filled.steps([])] == [[]]


def test_what_is_no_fold_is_refused_with_what_makes_one(conversation: Conversation) -> None:
    unusable: Any = len
    with pytest.raises(
        CallerError, match=r"expected what `@fold\(initial=…\)` makes, found builtin_function"
    ):
        conversation.fold(unusable)


def test_a_fold_is_asked_for_as_it_is_with_checkpoints_or_without(conversation: Conversation) -> None:
    def characters(total: int, entry: Entry) -> int:
        return total + len(getattr(entry.event, "text", ""))

    without: Fold[int] = fold(0)(characters)
    stored: Fold[int] = fold(0, state=int)(characters)

    assert conversation.fold(without) == conversation.fold(stored) == sum(map(len, WORDS))
    assert conversation.fold(without, at=2) == conversation.fold(stored, at=2) == len("word1")


def test_a_search_finds_words_of_this_conversation_alone(conversation: Conversation) -> None:
    conversation.log["other"].append(UserMessage("word3"))

    (hit,) = conversation.search("word3")
    assert (hit.conversation, hit.position) == ("demo", 4)


def test_a_conversation_is_exported_as_text_in_any_registered_form(conversation: Conversation) -> None:
    conversation.append(AssistantMessage("Done.", agent="coder"))
    lines = conversation.export().splitlines()

    assert json.loads(lines[0])["conversation"] == "demo"
    assert json.loads(conversation.export("openai"))[-1] == {"role": "assistant", "content": "Done."}
    with pytest.raises(NotRegisteredError, match="jsonl"):
        conversation.export("jsnol")
    with pytest.raises(CallerError, match="of all agents"):
        conversation.export("jsonl", agent="coder")


def test_an_export_of_one_agent_asks_which_where_there_are_several(conversation: Conversation) -> None:
    with pytest.raises(CallerError, match="no agent has answered yet; say whose it is: agent=NAME"):
        conversation.export("openai")
    conversation.append(ModeSwitch(joins=["coder", "tester"]), expected=10)
    with pytest.raises(CallerError, match="expected agent=, one of: coder, tester"):
        conversation.export("openai")


def test_an_entry_explains_itself_and_a_request_its_difference_to_another(
    conversation: Conversation,
) -> None:
    conversation.append(AssistantMessage("Half", agent="coder"))
    before = conversation.request("coder")
    conversation.append(LlmError(agent="coder", category="timeout", message="late"))
    conversation.append(UserMessage("continue"))

    (lane,) = conversation.explain(2).lanes
    assert (lane.lane, lane.stretches[0].form.fate) == ("coder", "kept")
    difference = diff(before, conversation.request("coder"))
    assert ("+", "continue") in {(change.sign, change.text) for change in difference.changes}
    assert diff(before, before).equal
