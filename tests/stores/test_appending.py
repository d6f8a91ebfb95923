"""Appends: where they land, what they refuse, and that they are repeated without harm."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta, timezone

import pytest

import stenolog
from stenolog import (
    AssistantMessage,
    Conversation,
    Log,
    ModeSwitch,
    NewEntry,
    UserMessage,
    VersionConflictError,
)
from stenolog.errors import ConversationNotFoundError, DuplicateIdError, InvalidEventError
from tests.stores.conftest import START, said, texts

HI = UserMessage(text="hi")


def test_a_conversation_opens_with_a_mode_switch_that_nobody_has_to_write(conversation: Conversation) -> None:
    entry = conversation.append(HI)

    opening = next(conversation.entries())
    assert (opening.position, opening.id, opening.event) == (1, "opening", ModeSwitch(mode="chat"))
    assert entry.position == 2


def test_a_mode_switch_that_comes_first_is_the_opening(conversation: Conversation) -> None:
    assert conversation.append(ModeSwitch(mode="run")).position == 1
    assert conversation.append(HI).position == 2


def test_an_append_returns_the_entry_as_it_is_read_back(conversation: Conversation) -> None:
    appended = [conversation.append(HI), conversation.append(AssistantMessage(agent="coder", text="ho"))]

    assert list(conversation.entries(after=1)) == appended


def test_position_and_digest_are_those_of_the_last_entry(conversation: Conversation) -> None:
    assert (conversation.position, conversation.digest) == (0, "")
    entry = conversation.append(HI)
    assert (conversation.position, conversation.digest) == (entry.position, entry.digest)


def test_ids_and_times_are_made_at_the_edge_unless_they_are_given(conversation: Conversation) -> None:
    at = datetime(2020, 2, 29, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=2)))

    made, given = conversation.append(HI), conversation.append(HI, id="mine", time=at)

    assert (made.id, made.time) == ("e1", START)
    assert (given.id, given.time) == ("mine", at)
    assert given.time.tzinfo is UTC


def test_real_ids_are_random_and_times_are_now() -> None:
    with stenolog.open(":memory:") as log:
        first, second = log["a"].append(HI), log["b"].append(HI)

    assert first.id != second.id
    assert abs(first.time - datetime.now(UTC)) < timedelta(minutes=1)


def test_a_time_without_a_zone_is_refused(conversation: Conversation) -> None:
    with pytest.raises(InvalidEventError, match="aware"):
        conversation.append(HI, time=datetime(2026, 1, 1))


@pytest.mark.parametrize("id", ["", " ", "a\n", "x" * 201, "a\0"])
def test_an_id_that_cannot_be_printed_is_refused(conversation: Conversation, id: str) -> None:
    with pytest.raises(InvalidEventError, match="entry id"):
        conversation.append(HI, id=id)
    assert conversation.position == 0


def test_several_events_are_appended_together(conversation: Conversation) -> None:
    entries = conversation.extend([HI, NewEntry(UserMessage(text="ho"), id="second", time=START)])

    assert [entry.position for entry in entries] == [2, 3]
    assert list(conversation.entries(after=1)) == entries


def test_appending_nothing_writes_nothing(conversation: Conversation) -> None:
    assert conversation.extend([]) == []
    assert conversation.position == 0


class TestStrict:
    """`expected=` is the position that the conversation must stand at."""

    def test_the_expected_position_lets_an_append_through(self, conversation: Conversation) -> None:
        assert conversation.append(HI, expected=0).position == 2
        assert conversation.append(HI, expected=2).position == 3

    def test_another_position_is_stale_and_nothing_is_written(self, conversation: Conversation) -> None:
        said(conversation, "hi")

        for expected in (0, 1, 3):
            with pytest.raises(VersionConflictError) as caught:
                conversation.append(HI, expected=expected)
            assert (caught.value.expected, caught.value.found) == (expected, 2)
        assert conversation.position == 2

    def test_of_two_handles_that_expect_the_same_position_one_is_stale(self, log: Log) -> None:
        one, other = log["demo"], log["demo"]
        one.append(HI, expected=0)

        with pytest.raises(VersionConflictError):
            other.append(HI, expected=0)

    def test_a_commuting_append_lands_wherever_the_conversation_stands(self, log: Log) -> None:
        one, other = log["demo"], log["demo"]
        said(one, "1")
        said(other, "2")
        said(one, "3")

        assert texts(one) == ["1", "2", "3"]

    def test_a_mode_switch_says_which_position_it_was_decided_at(self, conversation: Conversation) -> None:
        said(conversation, "hi")

        with pytest.raises(InvalidEventError, match="expected="):
            conversation.append(ModeSwitch(mode="agent"))
        assert conversation.append(ModeSwitch(mode="agent"), expected=2).position == 3


class TestIdempotent:
    """An append that is repeated with its id is done once."""

    def test_the_same_id_and_event_give_the_entry_that_stands_there(self, conversation: Conversation) -> None:
        first = conversation.append(HI, id="m1")
        said(conversation, "something else")

        assert conversation.append(HI, id="m1") == first
        assert conversation.append(HI, id="m1", time=START + timedelta(days=1)) == first
        assert conversation.position == 3

    def test_that_holds_under_an_expected_position_too(self, conversation: Conversation) -> None:
        first = conversation.append(HI, id="m1", expected=0)

        assert conversation.append(HI, id="m1", expected=0) == first

    def test_and_for_a_mode_switch(self, conversation: Conversation) -> None:
        first = conversation.append(ModeSwitch(mode="agent"), id="m1")

        assert conversation.append(ModeSwitch(mode="agent"), id="m1") == first

    def test_the_same_id_with_another_event_is_refused(self, conversation: Conversation) -> None:
        conversation.append(HI, id="m1")

        for other in (UserMessage(text="ho"), AssistantMessage(agent="a")):
            with pytest.raises(DuplicateIdError, match="m1"):
                conversation.append(other, id="m1")
        assert conversation.position == 2

    def test_an_id_is_taken_in_its_own_conversation_alone(self, log: Log) -> None:
        log["a"].append(HI, id="m1")

        assert log["b"].append(UserMessage(text="ho"), id="m1").position == 2

    def test_the_part_of_a_batch_that_stands_there_already_is_not_written_again(
        self, conversation: Conversation
    ) -> None:
        drafts = [NewEntry(UserMessage(text=str(n)), id=f"m{n}") for n in range(4)]
        first = conversation.extend(drafts[:2])

        assert conversation.extend(drafts)[:2] == first
        assert texts(conversation) == ["0", "1", "2", "3"]

    def test_one_refused_event_of_a_batch_refuses_it_whole(self, conversation: Conversation) -> None:
        conversation.append(HI, id="m1")

        with pytest.raises(DuplicateIdError):
            conversation.extend([UserMessage(text="new"), NewEntry(UserMessage(text="ho"), id="m1")])
        assert texts(conversation) == ["hi"]

    def test_one_batch_cannot_give_two_events_one_id(self, conversation: Conversation) -> None:
        with pytest.raises(DuplicateIdError):
            conversation.extend([NewEntry(HI, id="m1"), NewEntry(UserMessage(text="ho"), id="m1")])
        assert len(conversation.extend([NewEntry(HI, id="m1"), NewEntry(HI, id="m1")])) == 2
        assert texts(conversation) == ["hi"]

    def test_an_id_source_that_repeats_itself_loses_nothing_silently(self) -> None:
        with stenolog.open(":memory:", ids=lambda: "always") as log:
            log["a"].append(HI)

            with pytest.raises(DuplicateIdError, match="always"):
                log["a"].append(HI)


def test_an_event_that_is_none_of_the_five_kinds_is_refused(conversation: Conversation) -> None:
    with pytest.raises(InvalidEventError, match="five kinds"):
        conversation.append("hello")  # type: ignore[arg-type]
    assert conversation.position == 0


def test_a_conversation_that_was_deleted_elsewhere_does_not_come_back(log: Log) -> None:
    one, other = log["demo"], log["demo"]
    said(one, "hi")
    said(other, "ho")
    one.delete()

    with pytest.raises(ConversationNotFoundError, match="deleted"):
        said(other, "still there?")
    assert list(log) == []


def test_an_append_costs_one_statement_and_so_do_several_together(
    log: Log, conversation: Conversation
) -> None:
    said(conversation, "hi")
    statements: list[str] = []
    connection: sqlite3.Connection = log.datastore.writer
    connection.set_trace_callback(statements.append)

    conversation.append(HI)
    conversation.append(HI, expected=3)
    conversation.extend([HI, HI])

    assert [statement.split()[0] for statement in statements] == ["INSERT"] * 3
