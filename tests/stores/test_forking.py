"""Forks: a stream of their own from a position on, in which nothing is copied."""

from __future__ import annotations

import pytest

from stenolog import (
    AssistantMessage,
    Conversation,
    ConversationInUse,
    Link,
    Log,
    ModeSwitch,
    State,
    ToolCall,
    ToolResult,
    UnknownConversation,
    UnknownPosition,
    UserMessage,
)
from stenolog.adapters.verify import verify
from tests.stores.conftest import said, texts


def rows(log: Log) -> int:
    with log.datastore.reading() as connection:
        (count,) = connection.execute("SELECT count(*) FROM stored_events").fetchone()
    return int(count)


def test_a_fork_reads_its_ancestors_entries_up_to_the_fork_and_then_its_own(talk: Conversation) -> None:
    said(talk, "a", "b", "c")
    fork = talk.fork(after=3)
    said(talk, "d")
    said(fork, "other d")

    assert texts(talk) == ["a", "b", "c", "d"]
    assert texts(fork) == ["a", "b", "other d"]
    assert [entry.position for entry in fork.entries()] == [1, 2, 3, 4, 5]
    assert {entry.conversation for entry in fork.entries()} == {"demo~1"}
    assert texts(fork, after=2, upto=3) == ["b"]


def test_a_fork_copies_no_entry(log: Log, talk: Conversation) -> None:
    said(talk, *"abcdefgh")
    before = rows(log)

    talk.fork(after=5)

    assert rows(log) == before + 1


def test_it_opens_with_a_mode_switch_that_names_its_parent(talk: Conversation) -> None:
    said(talk, "a", "b")
    digests = [entry.digest for entry in talk.entries()]
    fork = talk.fork(after=2)

    (opening,) = fork.entries(after=2)
    assert opening.event == ModeSwitch(
        fork=True, parent=Link(conversation="demo", position=2, digest=digests[1])
    )


def test_without_a_position_it_forks_at_the_head(talk: Conversation) -> None:
    said(talk, "a", "b")

    assert texts(talk.fork()) == ["a", "b"]


def test_it_can_fork_before_the_first_entry(talk: Conversation) -> None:
    said(talk, "a")
    fork = talk.fork(after=0)

    assert [entry.position for entry in fork.entries()] == [1]
    assert verify(fork).ok


@pytest.mark.parametrize("after", [-1, 4])
def test_a_position_that_is_not_there_is_refused(talk: Conversation, after: int) -> None:
    said(talk, "a", "b")

    with pytest.raises(UnknownPosition, match="'demo'"):
        talk.fork(after=after)


def test_nothing_can_be_forked_from_a_conversation_without_entries(log: Log) -> None:
    with pytest.raises(UnknownConversation, match="'nobody': no such conversation"):
        log["nobody"].fork()


def test_forks_of_forks_read_through_all_their_ancestors(talk: Conversation) -> None:
    said(talk, "a", "b", "c")
    child = talk.fork(after=3)
    said(child, "d")
    grandchild = child.fork()
    said(grandchild, "e")
    early = grandchild.fork(after=2)
    said(early, "f")

    assert texts(grandchild) == ["a", "b", "d", "e"]
    assert texts(early) == ["a", "f"]
    assert (child.name, grandchild.name, early.name) == ("demo~1", "demo~1~1", "demo~1~1~1")
    assert verify(early).ok


def test_a_long_line_of_forks_is_read(log: Log, talk: Conversation) -> None:
    said(talk, "0")
    line = talk
    for number in range(1, 60):
        line = line.fork(name=f"fork {number}")
        said(line, str(number))

    assert texts(line) == [str(number) for number in range(60)]
    assert verify(log).ok


class TestNames:
    """A fork is named after its parent, unless it is given a name."""

    def test_names_are_counted(self, talk: Conversation) -> None:
        said(talk, "a")

        assert [talk.fork().name for _ in range(3)] == ["demo~1", "demo~2", "demo~3"]

    def test_a_number_that_is_taken_is_passed_over(self, log: Log, talk: Conversation) -> None:
        said(talk, "a")
        said(log["demo~1"], "not a fork")

        assert talk.fork().name == "demo~2"

    def test_a_given_name_that_is_taken_is_refused(self, log: Log, talk: Conversation) -> None:
        said(talk, "a")
        said(log["other"], "b")

        assert talk.fork(name="new").name == "new"
        with pytest.raises(ConversationInUse, match="other"):
            talk.fork(name="other")
        assert list(log) == ["demo", "other", "new"]


class TestPendingCalls:
    """Tool calls that are open at the fork run in the parent, if anywhere."""

    @pytest.fixture
    def working(self, talk: Conversation) -> Conversation:
        calls = [ToolCall(id="c1", name="shell"), ToolCall(id="c2", name="browse")]
        said(talk, "go")
        talk.append(AssistantMessage(agent="coder", tool_calls=calls), id="calls")
        talk.append(ToolResult(call_id="c1", text="done"))
        return talk

    def test_they_are_closed_in_the_fork(self, working: Conversation) -> None:
        fork = working.fork()

        *_, closed = fork.entries()
        assert isinstance(closed.event, ToolResult)
        assert (closed.event.call_id, closed.event.name) == ("c2", "browse")
        assert (closed.event.text, closed.event.is_error) == ("not run in this fork", True)
        assert closed.event.call is not None
        assert (closed.event.call.entry, closed.event.call.index) == ("calls", 1)
        assert [*fork.state().open_calls()] == []
        assert len([*working.state().open_calls()]) == 1

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

    def test_an_ancestor_with_living_forks_cannot_be_deleted(self, log: Log, talk: Conversation) -> None:
        said(talk, "a")
        fork = talk.fork()

        with pytest.raises(ConversationInUse, match="demo~1"):
            talk.delete()
        fork.delete()
        talk.delete()
        assert log.names(archived=True) == []

    def test_what_was_deleted_elsewhere_cannot_be_forked(
        self, log: Log, talk: Conversation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        said(talk, "a")
        decided = talk.state()

        def deleted_meanwhile(*_: object, **__: object) -> State:
            log["demo"].delete()
            return decided

        monkeypatch.setattr(Conversation, "state", deleted_meanwhile)

        with pytest.raises(UnknownConversation, match="deleted"):
            talk.fork()
        assert log.names(archived=True) == []

    def test_a_renamed_ancestor_is_still_the_ancestor(self, log: Log, talk: Conversation) -> None:
        said(talk, "a")
        fork = talk.fork()
        talk.rename("origin")

        assert texts(fork) == ["a"]
        assert verify(log).ok

    def test_an_id_of_the_parent_is_free_in_the_fork(self, talk: Conversation) -> None:
        talk.append(UserMessage(text="a"), id="m1")
        fork = talk.fork()

        assert fork.append(UserMessage(text="other"), id="m1").position == 4
