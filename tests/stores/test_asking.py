"""What cannot be meant is refused, and the message says what was expected and what was found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import (
    AssistantMessage,
    CallerError,
    Conversation,
    InvalidEvent,
    Log,
    ModeSwitch,
    UnknownAgent,
    UnknownConversation,
    UnknownPosition,
    UserMessage,
)
from stenolog.adapters.keeping import STATE
from tests.stores.conftest import said, turns

Look = Callable[[Conversation, Any], object]
LOOKS: dict[str, Look] = {
    "state": Conversation.state,
    "settings": Conversation.settings,
    "fold": lambda talk, upto: talk.fold(STATE, upto),
    "timeline": Conversation.timeline,
    "transitions": Conversation.transitions,
}
REQUEST: Look = lambda talk, upto: talk.request("coder", upto)  # noqa: E731
NO_POSITIONS = [-1, 6, 99999, 2.5, 2.0, "2", True, [2], 10**30]


class TestPositions:
    """A conversation is looked at where it has been, and nowhere else."""

    @pytest.mark.parametrize("look", [*LOOKS.values(), Conversation.fork], ids=[*LOOKS, "fork"])
    @pytest.mark.parametrize("wrong", NO_POSITIONS, ids=repr)
    def test_one_that_is_none_is_refused_with_those_that_there_are(
        self, talk: Conversation, look: Look, wrong: object
    ) -> None:
        talk.extend(turns(1))

        with pytest.raises(UnknownPosition) as told:
            look(talk, wrong)
        assert str(told.value) == f"'demo': expected a position from 0 to 5, found {wrong!r}"

    @pytest.mark.parametrize("wrong", [0, *NO_POSITIONS], ids=repr)
    def test_a_request_is_made_from_the_first_entry_on(self, talk: Conversation, wrong: object) -> None:
        talk.extend(turns(1))

        with pytest.raises(UnknownPosition) as told:
            REQUEST(talk, wrong)
        assert str(told.value) == f"'demo': expected a position from 1 to 5, found {wrong!r}"

    @pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
    def test_the_first_and_the_last_are_among_them(self, talk: Conversation, look: Look) -> None:
        talk.extend(turns(1))

        look(talk, 0)
        assert look(talk, 5) == look(talk, None)
        assert REQUEST(talk, 5) == REQUEST(talk, None)
        assert REQUEST(talk, 3) != REQUEST(talk, None)

    @pytest.mark.parametrize("look", [*LOOKS.values(), REQUEST], ids=[*LOOKS, "request"])
    def test_what_another_has_appended_meanwhile_is_among_them(self, path: Path, look: Look) -> None:
        with stenolog.open(path) as ours, stenolog.open(path) as theirs:
            talk = ours["demo"]
            talk.extend(turns(1))
            with pytest.raises(UnknownPosition, match="to 5, found 7"):
                look(talk, 7)
            theirs["demo"].extend(turns(1))

            look(talk, 7)
            with pytest.raises(UnknownPosition, match="to 9, found 10"):
                look(talk, 10)

    def test_entries_take_them_as_bounds(self, talk: Conversation) -> None:
        talk.extend(turns(1))

        assert len(list(talk.entries(upto=99999))) == len(list(talk.records(upto=99999))) == 5
        assert [*talk.entries(upto=-1), *talk.records(after=7)] == []

    def test_they_are_the_same_for_asyncio(self, path: Path) -> None:
        async def look() -> None:
            async with stenolog.open_async(path) as log:
                await log["demo"].extend(turns(1))
                with pytest.raises(UnknownPosition, match="from 0 to 5, found 6"):
                    await log["demo"].state(6)
                with pytest.raises(UnknownPosition, match="from 1 to 5, found 0"):
                    await log["demo"].request("coder", 0)

        asyncio.run(look())


class TestNobodyBeganIt:
    """What needs a conversation says that there is none of that name; what can do without one goes on."""

    @pytest.mark.parametrize(
        ("look", "upto"),
        [(REQUEST, 0), (REQUEST, 1), (REQUEST, 7), (lambda talk, _: talk.fork(), None)],
        ids=["at 0", "at 1", "at 7", "fork"],
    )
    def test_requests_at_a_position_and_forks_need_one(self, log: Log, look: Look, upto: int | None) -> None:
        with pytest.raises(
            UnknownConversation, match=r"^'nosuch': no such conversation in .*(talks\.db|:mem)"
        ):
            look(log["nosuch"], upto)
        assert list(log) == []

    def test_one_that_was_deleted_is_none(self, talk: Conversation) -> None:
        talk.extend(turns(1))
        talk.request("coder")
        talk.delete()

        with pytest.raises(UnknownConversation, match="'demo': no such"):
            talk.request("coder", 3)
        assert talk.request("coder").upto == 0
        with pytest.raises(UnknownPosition, match="from 0 to 0, found 3"):
            talk.state(upto=3)

    def test_an_agent_that_takes_no_part_is_another_thing(self, talk: Conversation) -> None:
        talk.append(ModeSwitch(joins=["reviewer"]))

        with pytest.raises(UnknownAgent, match="no agent 'coder' takes part"):
            talk.request("coder")

    def test_its_state_and_its_entries_are_those_before_the_first(self, log: Log) -> None:
        talk = log["nosuch"]

        assert talk.position == talk.state().position == talk.state(upto=0).position == 0
        assert [*talk.entries(), *talk.timeline(), *talk.transitions()] == []
        with pytest.raises(UnknownPosition, match="from 0 to 0, found 1"):
            talk.state(upto=1)


@pytest.mark.parametrize("wrong", [3, None, b"demo", ["demo"]])
def test_a_name_is_text(log: Log, wrong: Any) -> None:
    said(log["demo"], "hi")
    found = f"expected text, found {wrong!r}".replace("[", r"\[")

    for call in (lambda: log[wrong], lambda: log["demo"].rename(wrong)):
        with pytest.raises(InvalidEvent, match=f"^conversation: {found}"):
            call()
    if wrong is not None:
        with pytest.raises(InvalidEvent, match=f"^fork: {found}"):
            log["demo"].fork(name=wrong)
        with pytest.raises(InvalidEvent, match=f"^entry id: {found}"):
            log["demo"].append(UserMessage(text="hi"), id=wrong)


@pytest.mark.parametrize("wrong", ["2026-01-01", 7])
def test_an_entrys_time_is_a_datetime(talk: Conversation, wrong: Any) -> None:
    with pytest.raises(InvalidEvent, match=f"^at: expected an aware datetime .*, found {wrong!r}$"):
        talk.append(UserMessage(text="hi"), at=wrong)
    assert talk.position == 0


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"since": "2026-01-01"}, "since: expected an aware datetime, .*, found '2026-01-01'"),
        ({"since": datetime(2026, 1, 1)}, r"since: expected an aware datetime, .*, found datetime\."),
        ({"like": 3}, "like: expected text, found 3"),
        ({"begins": None}, "begins: expected text, found None"),
        ({"before": b"a"}, "before: expected text, found b'a'"),
        ({"order": "foo"}, "order: expected oldest, newest, latest, a-z, z-a; found 'foo'"),
        ({"order": ["a-z"]}, r"order: expected oldest, newest, latest, a-z, z-a; found \['a-z'\]"),
        ({"limit": -1}, "limit: expected a number from 0, found -1"),
        ({"limit": "3"}, "limit: expected a number from 0, found '3'"),
        ({"limit": 1.5}, "limit: expected a number from 0, found 1.5"),
    ],
)
def test_names_that_cannot_be_meant_are_refused(log: Log, wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidEvent, match=f"^{told}"):
        log.names(**wrong)
    if wrong.keys().isdisjoint(("limit", "order")):
        with pytest.raises(InvalidEvent, match=f"^{told}"):
            log.count(**wrong)


def test_a_field_that_is_missing_is_named() -> None:
    make: Any = AssistantMessage

    with pytest.raises(CallerError) as told:
        make(text="x")
    assert str(told.value) == "AssistantMessage: /agent: expected a value, found none"


def test_whoever_appends_a_dict_is_told_how_an_event_is_made_of_it(talk: Conversation) -> None:
    fields: Any = {"text": "hi"}

    with pytest.raises(InvalidEvent, match=r"found dict; .* UserMessage\(\*\*fields\)"):
        talk.append(fields)
    assert talk.append(UserMessage(**fields)).position == 2
