"""Conversations in a log: their names, and how they are renamed, archived and deleted."""

from __future__ import annotations

import pytest

from stenolog import Conversation, Log
from stenolog.errors import ConversationNotFoundError, InvalidEventError
from stenolog.maintenance import verify
from tests.stores.conftest import said, texts


def test_a_log_lists_its_conversations_the_oldest_first(log: Log) -> None:
    for name in ("zoo", "apple", "moon"):
        said(log[name], "hi")

    assert list(log) == ["zoo", "apple", "moon"]
    assert len(log) == 3
    assert "moon" in log
    assert "mars" not in log
    assert 7 not in log


def test_asking_for_a_conversation_does_not_make_one(log: Log) -> None:
    assert log["demo"].position == 0
    assert "demo" not in log


@pytest.mark.parametrize("name", ["", " demo", "a\nb", "x" * 201, "tab\t", "\u202e"])
def test_a_name_that_cannot_be_printed_is_refused(log: Log, name: str) -> None:
    with pytest.raises(InvalidEventError, match="conversation"):
        log[name]


@pytest.mark.parametrize(
    "name", ["Übergröße", "日本語", "a/b", "../../etc/passwd", "'; DROP TABLE x; --", "x" * 200]
)
def test_any_printable_name_will_do(log: Log, name: str) -> None:
    said(log[name], "hi")

    assert list(log) == [name]
    assert texts(log[name]) == ["hi"]


class TestRename:
    """A conversation keeps its entries and its digests under another name."""

    def test_entries_and_digests_stay(self, log: Log, conversation: Conversation) -> None:
        said(conversation, "a")
        digest = conversation.digest
        conversation.rename("new")
        said(conversation, "b")

        assert (conversation.name, list(log)) == ("new", ["new"])
        assert texts(log["new"]) == ["a", "b"]
        assert [entry.digest for entry in log["new"].entries()][1] == digest
        assert {entry.conversation for entry in conversation.entries()} == {"new"}
        assert verify(log).ok

    def test_what_is_not_there_cannot_be_renamed(self, log: Log) -> None:
        with pytest.raises(ConversationNotFoundError, match="nobody"):
            log["nobody"].rename("somebody")


class TestArchive:
    """An archived conversation is left out of the list, and that is all."""

    def test_it_is_not_listed_but_read_and_written_as_before(
        self, log: Log, conversation: Conversation
    ) -> None:
        said(conversation, "a")
        said(log["other"], "b")
        conversation.archive()
        said(conversation, "c")

        assert list(log) == ["other"]
        assert len(log) == 1
        assert log.names(archived=True) == ["demo", "other"]
        assert "demo" in log
        assert texts(log["demo"]) == ["a", "c"]


class TestDelete:
    """A deleted conversation is gone for good; the others stay whole."""

    def test_entries_go_and_others_stay(self, log: Log, conversation: Conversation) -> None:
        said(conversation, "a")
        said(log["other"], "b")
        conversation.delete()

        assert list(log) == ["other"]
        assert list(log["demo"].entries()) == []
        assert verify(log).ok

    def test_what_is_not_there_cannot_be_deleted(self, log: Log) -> None:
        with pytest.raises(ConversationNotFoundError):
            log["nobody"].delete()
