"""What cannot be meant is refused, and the message says what was expected and what was found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import Conversation, Fold, Log, ModeSwitch, UserMessage
from stenolog.errors import (
    AgentNotFoundError,
    ConversationNotFoundError,
    InvalidEventError,
    PositionNotFoundError,
)
from tests.stores.conftest import said, turns

COUNT = Fold("count", 0, lambda total, _: total + 1, state=int)
Look = Callable[[Conversation, Any], object]
LOOKS: dict[str, Look] = {
    "state": Conversation.state,
    "settings": Conversation.settings,
    "fold": lambda conversation, at: conversation.fold(COUNT, at),
    "timeline": Conversation.timeline,
    "transitions": Conversation.transitions,
}
REQUEST: Look = lambda conversation, at: conversation.request("coder", at)  # noqa: E731
NO_POSITIONS = [-1, 6, 99999, 2.5, 2.0, "2", True, [2], 10**30]


class TestPositions:
    """A conversation is looked at where it has been, and nowhere else."""

    @pytest.mark.parametrize("look", [*LOOKS.values(), Conversation.fork], ids=[*LOOKS, "fork"])
    @pytest.mark.parametrize("wrong", NO_POSITIONS, ids=repr)
    def test_one_that_is_none_is_refused_with_those_that_there_are(
        self, conversation: Conversation, look: Look, wrong: object
    ) -> None:
        conversation.extend(turns(1))

        with pytest.raises(PositionNotFoundError) as told:
            look(conversation, wrong)
        assert str(told.value) == f"'demo': expected a position from 0 to 5, found {wrong!r}"

    @pytest.mark.parametrize("wrong", [0, *NO_POSITIONS], ids=repr)
    def test_a_request_is_made_from_the_first_entry_on(
        self, conversation: Conversation, wrong: object
    ) -> None:
        conversation.extend(turns(1))

        with pytest.raises(PositionNotFoundError) as told:
            REQUEST(conversation, wrong)
        assert str(told.value) == f"'demo': expected a position from 1 to 5, found {wrong!r}"

    @pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
    def test_the_first_and_the_last_are_among_them(self, conversation: Conversation, look: Look) -> None:
        conversation.extend(turns(1))

        look(conversation, 0)
        assert look(conversation, 5) == look(conversation, None)
        assert REQUEST(conversation, 5) == REQUEST(conversation, None)
        assert REQUEST(conversation, 3) != REQUEST(conversation, None)

    @pytest.mark.parametrize("look", [*LOOKS.values(), REQUEST], ids=[*LOOKS, "request"])
    def test_what_another_has_appended_meanwhile_is_among_them(self, path: Path, look: Look) -> None:
        with stenolog.open(path) as ours, stenolog.open(path) as theirs:
            conversation = ours["demo"]
            conversation.extend(turns(1))
            with pytest.raises(PositionNotFoundError, match="to 5, found 7"):
                look(conversation, 7)
            theirs["demo"].extend(turns(1))

            look(conversation, 7)
            with pytest.raises(PositionNotFoundError, match="to 9, found 10"):
                look(conversation, 10)

    def test_entries_take_them_as_bounds(self, conversation: Conversation) -> None:
        conversation.extend(turns(1))

        assert len(list(conversation.entries(at=99999))) == len(list(conversation.records(at=99999))) == 5
        assert [*conversation.entries(at=-1), *conversation.records(after=7)] == []

    def test_they_are_the_same_for_asyncio(self, path: Path) -> None:
        async def look() -> None:
            async with stenolog.open_async(path) as log:
                await log["demo"].extend(turns(1))
                with pytest.raises(PositionNotFoundError, match="from 0 to 5, found 6"):
                    await log["demo"].state(6)
                with pytest.raises(PositionNotFoundError, match="from 1 to 5, found 0"):
                    await log["demo"].request("coder", 0)

        asyncio.run(look())


class TestNobodyBeganIt:
    """What needs a conversation says that there is none of that name; what can do without one goes on."""

    @pytest.mark.parametrize(
        ("look", "at"),
        [(REQUEST, 0), (REQUEST, 1), (REQUEST, 7), (lambda conversation, _: conversation.fork(), None)],
        ids=["at 0", "at 1", "at 7", "fork"],
    )
    def test_requests_at_a_position_and_forks_need_one(self, log: Log, look: Look, at: int | None) -> None:
        with pytest.raises(
            ConversationNotFoundError, match=r"^'nosuch': no such conversation in .*(talks\.db|:mem)"
        ):
            look(log["nosuch"], at)
        assert list(log) == []

    def test_an_export_for_an_agent_of_none_names_the_conversation_that_is_missing(self, log: Log) -> None:
        with pytest.raises(ConversationNotFoundError, match="'nosuch': no such conversation"):
            log["nosuch"].export("openai", agent="x")

    def test_one_that_was_deleted_is_none(self, conversation: Conversation) -> None:
        conversation.extend(turns(1))
        conversation.request("coder")
        conversation.delete()

        with pytest.raises(ConversationNotFoundError, match="'demo': no such"):
            conversation.request("coder", 3)
        assert conversation.request("coder").at == 0
        with pytest.raises(PositionNotFoundError, match="from 0 to 0, found 3"):
            conversation.state(at=3)

    def test_an_agent_that_takes_no_part_is_another_thing(self, conversation: Conversation) -> None:
        conversation.append(ModeSwitch(joins=["reviewer"]))

        with pytest.raises(AgentNotFoundError, match="no agent 'reviewers'"):
            conversation.request("reviewers")

    def test_its_state_and_its_entries_are_those_before_the_first(self, log: Log) -> None:
        conversation = log["nosuch"]

        assert (
            conversation.position == conversation.state().position == conversation.state(at=0).position == 0
        )
        assert [*conversation.entries(), *conversation.timeline(), *conversation.transitions()] == []
        with pytest.raises(PositionNotFoundError, match="from 0 to 0, found 1"):
            conversation.state(at=1)


@pytest.mark.parametrize("wrong", [3, None, b"demo", ["demo"]])
def test_a_name_is_text(log: Log, wrong: Any) -> None:
    said(log["demo"], "hi")
    found = f"expected text, found {wrong!r}".replace("[", r"\[")

    for call in (lambda: log[wrong], lambda: log["demo"].rename(wrong)):
        with pytest.raises(InvalidEventError, match=f"^conversation: {found}"):
            call()
    if wrong is not None:
        with pytest.raises(InvalidEventError, match=f"^fork: {found}"):
            log["demo"].fork(name=wrong)
        with pytest.raises(InvalidEventError, match=f"^entry id: {found}"):
            log["demo"].append(UserMessage(text="hi"), id=wrong)


@pytest.mark.parametrize("wrong", ["2026-01-01", 7])
def test_an_entrys_time_is_a_datetime(conversation: Conversation, wrong: Any) -> None:
    with pytest.raises(InvalidEventError, match=f"^time: expected an aware datetime .*, found {wrong!r}$"):
        conversation.append(UserMessage(text="hi"), time=wrong)
    assert conversation.position == 0


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"active_since": "2026-01-01"}, "active_since: expected an aware datetime, .*, found '2026-01-01'"),
        (
            {"active_since": datetime(2026, 1, 1)},
            r"active_since: expected an aware datetime, .*, found datetime\.",
        ),
        ({"contains": 3}, "contains: expected text, found 3"),
        ({"prefix": None}, "prefix: expected text, found None"),
        ({"older_than": b"a"}, "older_than: expected text, found b'a'"),
        ({"order": "foo"}, "order: expected oldest, newest, latest, a-z, z-a; found 'foo'"),
        ({"order": ["a-z"]}, r"order: expected oldest, newest, latest, a-z, z-a; found \['a-z'\]"),
        ({"limit": -1}, "limit: expected a number from 0, found -1"),
        ({"limit": "3"}, "limit: expected a number from 0, found '3'"),
        ({"limit": 1.5}, "limit: expected a number from 0, found 1.5"),
    ],
)
def test_names_that_cannot_be_meant_are_refused(log: Log, wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidEventError, match=f"^{told}"):
        log.names(**wrong)
    if wrong.keys().isdisjoint(("limit", "order")):
        with pytest.raises(InvalidEventError, match=f"^{told}"):
            log.count(**wrong)
