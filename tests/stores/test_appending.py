"""Appends: where they land, what they refuse, and that they are repeated without harm."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta, timezone

import pytest

import stenolog
from stenolog import AssistantMessage, Conversation, Log, ModeSwitch, NewEntry, UserMessage
from stenolog.errors import ConversationNotFoundError, DuplicateIdError, InvalidEventError
from tests.stores.conftest import START, said

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


@pytest.mark.parametrize("id", ["", " ", "a\n", "x" * 201, "a\0"])
def test_an_id_that_cannot_be_printed_is_refused(conversation: Conversation, id: str) -> None:
    with pytest.raises(InvalidEventError, match="entry id"):
        conversation.append(HI, id=id)
    assert conversation.position == 0


def test_several_events_are_appended_together(conversation: Conversation) -> None:
    entries = conversation.extend([HI, NewEntry(UserMessage(text="ho"), id="second", time=START)])

    assert [entry.position for entry in entries] == [2, 3]
    assert list(conversation.entries(after=1)) == entries


class TestIdempotent:
    """An append that is repeated with its id is done once."""

    def test_the_same_id_and_event_give_the_entry_that_stands_there(self, conversation: Conversation) -> None:
        first = conversation.append(HI, id="m1")
        said(conversation, "something else")

        assert conversation.append(HI, id="m1") == first
        assert conversation.append(HI, id="m1", time=START + timedelta(days=1)) == first
        assert conversation.position == 3

    def test_and_for_a_mode_switch(self, conversation: Conversation) -> None:
        first = conversation.append(ModeSwitch(mode="agent"), id="m1")

        assert conversation.append(ModeSwitch(mode="agent"), id="m1") == first

    def test_an_id_source_that_repeats_itself_loses_nothing_silently(self) -> None:
        with stenolog.open(":memory:", ids=lambda: "always") as log:
            log["a"].append(HI)

            with pytest.raises(DuplicateIdError, match="always"):
                log["a"].append(HI)


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
