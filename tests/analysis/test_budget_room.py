"""The arithmetic of a budget says which budget would cut nothing, and what a cut leaves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import stenolog
from stenolog import AssistantMessage, Conversation, UserMessage
from stenolog.context import Budget
from stenolog.domain.policy import Policy
from stenolog.projections.analysis.budget import BudgetRoom, budget_room
from stenolog.projections.formats import FORMATS


@pytest.fixture
def talk() -> Iterator[Conversation]:
    """Yield a conversation of many short messages."""
    with stenolog.open(":memory:") as log:
        log["x"].join("guide", model="m", persona="Be brief.")
        for number in range(12):
            log["x"].append(UserMessage(f"What is {number} in words?"))
            log["x"].append(AssistantMessage(agent="guide", text=f"It is number {number}."))
        log["x"].append(UserMessage("And now?"))
        yield log["x"]


def room_of(talk: Conversation, policy: Policy | Budget, api: str = "openai-chat") -> tuple[BudgetRoom, ...]:
    return budget_room(talk.request("guide", api=api, policy=policy), talk.entries())


def test_the_smallest_budget_that_cuts_nothing_is_the_measured_size_and_what_is_around_it(
    talk: Conversation,
) -> None:
    (room,) = room_of(talk, Budget(tokens=200))
    least = room.measured + room.limit - room.room

    assert talk.request("guide", policy=Budget(tokens=least)).cuts == 0
    assert talk.request("guide", policy=Budget(tokens=least - 1)).cuts == 1
    assert room_of(talk, Budget(tokens=least))[0].shown == room.measured


def test_it_is_the_same_on_every_api_and_never_below_what_is_sent(talk: Conversation) -> None:
    rooms = {room_of(talk, Budget(tokens=200), api) for api in FORMATS}
    ((room,),) = rooms
    sent = [talk.request("guide", api=api).size.tokens for api in FORMATS]

    assert room.measured + room.limit - room.room > max(sent)


def test_a_cut_leaves_its_target_of_the_room(talk: Conversation) -> None:
    (room,) = room_of(talk, Budget(tokens=400, cut_to=50))

    assert room.target == room.room // 2
    assert room.target <= room.room < room.measured


def test_each_limit_has_its_own(talk: Conversation) -> None:
    rooms = room_of(talk, Budget(messages=9, tokens=4_000, bytes=9_000))

    assert [(room.unit, room.limit) for room in rooms] == [
        ("messages", 9),
        ("tokens", 4_000),
        ("bytes", 9_000),
    ]
    assert rooms[0].measured == 25


def test_without_a_budget_there_is_none(talk: Conversation) -> None:
    assert budget_room(talk.request("guide"), talk.entries()) == ()
