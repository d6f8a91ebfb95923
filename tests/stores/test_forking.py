"""Forks: a stream of their own from a position on, in which nothing is copied."""

from __future__ import annotations

import pytest

from stenolog import AssistantMessage, Conversation, Log, ModeSwitch, State, ToolCall, ToolResult
from stenolog.adapters.conversation.queries import folds
from stenolog.errors import ConversationNotFoundError, PositionNotFoundError
from stenolog.events import ConversationRef
from tests.stores.conftest import said, texts


def test_a_fork_reads_its_ancestors_entries_up_to_the_fork_and_then_its_own(
    conversation: Conversation,
) -> None:
    said(conversation, "a", "b", "c")
    fork = conversation.fork(after=3)
    said(conversation, "d")
    said(fork, "other d")

    assert texts(conversation) == ["a", "b", "c", "d"]
    assert texts(fork) == ["a", "b", "other d"]
    assert [entry.position for entry in fork.entries()] == [1, 2, 3, 4, 5]
    assert {entry.conversation for entry in fork.entries()} == {"demo~1"}
    assert texts(fork, after=2, at=3) == ["b"]


def test_it_opens_with_a_mode_switch_that_names_its_parent(conversation: Conversation) -> None:
    said(conversation, "a", "b")
    digests = [entry.digest for entry in conversation.entries()]
    fork = conversation.fork(after=2)

    (opening,) = fork.entries(after=2)
    assert opening.event == ModeSwitch(
        fork=True, parent=ConversationRef(conversation="demo", position=2, digest=digests[1])
    )


def test_without_a_position_it_forks_at_the_head(conversation: Conversation) -> None:
    said(conversation, "a", "b")

    assert texts(conversation.fork()) == ["a", "b"]


@pytest.mark.parametrize("after", [-1, 4])
def test_a_position_that_is_not_there_is_refused(conversation: Conversation, after: int) -> None:
    said(conversation, "a", "b")

    with pytest.raises(PositionNotFoundError, match="'demo'"):
        conversation.fork(after=after)


def test_nothing_can_be_forked_from_a_conversation_without_entries(log: Log) -> None:
    with pytest.raises(ConversationNotFoundError, match="'nobody': no such conversation"):
        log["nobody"].fork()


class TestPendingCalls:
    """Tool calls that are open at the fork run in the parent, if anywhere."""

    @pytest.fixture
    def working(self, conversation: Conversation) -> Conversation:
        calls = [ToolCall(id="c1", name="shell"), ToolCall(id="c2", name="browse")]
        said(conversation, "go")
        conversation.append(AssistantMessage(agent="coder", tool_calls=calls), id="calls")
        conversation.append(ToolResult(call_id="c1", text="done"))
        return conversation

    def test_they_are_closed_in_the_fork(self, working: Conversation) -> None:
        fork = working.fork()

        *_, closed = fork.entries()
        assert isinstance(closed.event, ToolResult)
        assert (closed.event.call_id, closed.event.name) == ("c2", "browse")
        assert (closed.event.text, closed.event.is_error) == ("not run in this fork", True)
        assert closed.event.call is not None
        assert (closed.event.call.entry, closed.event.call.index) == ("calls", 1)
        assert fork.state().open_calls() == ()
        assert len(working.state().open_calls()) == 1

    def test_those_that_were_answered_later_are_open_at_the_fork_all_the_same(
        self, working: Conversation
    ) -> None:
        fork = working.fork(after=3)

        closed = [entry.event for entry in fork.entries(after=4)]
        assert [event.call_id for event in closed if isinstance(event, ToolResult)] == ["c1", "c2"]

    def test_they_can_be_kept_open(self, working: Conversation) -> None:
        fork = working.fork(pending="keep")

        assert [call.id for _, call in fork.state().open_calls()] == ["c2"]


class TestLife:
    """What becomes of a family when one of it goes."""

    def test_what_was_deleted_elsewhere_cannot_be_forked(
        self, log: Log, conversation: Conversation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        said(conversation, "a")
        decided = conversation.state()

        def deleted_meanwhile(*_: object, **__: object) -> State:
            log["demo"].delete()
            return decided

        monkeypatch.setattr(folds, "fold_at", deleted_meanwhile)

        with pytest.raises(ConversationNotFoundError, match="deleted"):
            conversation.fork()
        assert log.names(archived=True) == []
