"""What is followed: every entry once and in order, and the pieces of answers before their entries."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import pytest

import stenolog
from stenolog import Agent, AssistantMessage, Conversation, Log, Team, UserMessage
from stenolog.adapters.conversation.log import extend
from stenolog.adapters.store.claims import Claims
from stenolog.adapters.store.contract.values import Claim
from stenolog.engine import EntryAppended, RunEvent, StreamDelta
from stenolog.errors import PositionNotFoundError
from stenolog.models import Scripted
from stenolog.workers import follow
from tests.postgres.server import Server

PATIENCE = 20.0
"""Seconds after which something that should long have come is given up."""


@pytest.fixture
def log(address: str) -> Iterator[Log]:
    with stenolog.open(address) as opened:
        yield opened


@pytest.fixture
def elsewhere(address: str) -> Iterator[Log]:
    """Return the same log as another process has it."""
    with stenolog.open(address) as opened:
        yield opened


class Followed:
    """What a follower has got, in a task of its own."""

    def __init__(self, conversation: Any, after: int | None) -> None:
        self.got: list[RunEvent] = []
        self._grown = asyncio.Event()
        self.task = asyncio.create_task(self._follow(conversation, after))

    async def _follow(self, conversation: Any, after: int | None) -> None:
        async with aclosing(follow(conversation, after=after)) as happening:
            async for happened in happening:
                self.got.append(happened)
                self._grown.set()

    @property
    def positions(self) -> list[int]:
        return [each.entry.position for each in self.got if isinstance(each, EntryAppended)]

    @property
    def text(self) -> str:
        return "".join(each.text for each in self.got if isinstance(each, StreamDelta))

    async def until(self, what: Callable[[], object]) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(PATIENCE):
            while not what():
                self._grown.clear()
                await self._grown.wait()


@asynccontextmanager
async def following(conversation: Any, after: int | None = 0) -> AsyncIterator[Followed]:
    followed = Followed(conversation, after)
    try:
        yield followed
    finally:
        followed.task.cancel()
        await asyncio.wait([followed.task])


@contextmanager
def answering(conversation: Conversation) -> Iterator[tuple[Claims, Claim]]:
    """Take the claim on an answer to the last entry."""
    head = conversation.position
    claims = Claims(conversation.log.recorder, conversation.stream)
    (held,) = claims.take([Claim(0, "coder", "model", head, 1, "key", "runner", 0)], head)
    assert held is not None
    yield claims, held


def has(followed: Followed, positions: list[int]) -> bool:
    """Return whether these entries have come."""
    return followed.positions == positions


def ends(followed: Followed, text: str) -> bool:
    """Return whether the pieces so far end with a text."""
    return followed.text.endswith(text)


def piece(text: str, part: int = 0, kind: str = "text") -> bytes:
    """Return a row of a draft with one piece."""
    return json.dumps([[part, kind, text, "", ""], {"model": "m"}]).encode()


async def test_entries_of_another_process_come_once_and_in_order(log: Log, elsewhere: Log) -> None:
    await asyncio.to_thread(log["demo"].append, UserMessage(text="before"))
    async with following(elsewhere["demo"]) as followed:
        for number in range(30):
            await asyncio.to_thread(log["demo"].append, UserMessage(text=str(number)))
        head = log["demo"].position
        await followed.until(lambda: len(followed.positions) >= head)

    assert followed.positions == [*range(1, head + 1)]
    assert [each.entry for each in followed.got if isinstance(each, EntryAppended)] == [*log["demo"]]


async def test_only_what_is_behind_the_given_position_comes(log: Log, elsewhere: Log) -> None:
    for text in "abcdef":
        log["demo"].append(UserMessage(text=text))
    async with following(elsewhere["demo"], 4) as some, following(elsewhere["demo"], None) as new:
        await some.until(lambda: len(some.positions) == 3)
        # Nobody is told when the other one has begun to follow.
        while not new.positions:
            await asyncio.to_thread(log["demo"].append, UserMessage(text="g"))
            await asyncio.sleep(0.2)
        head = log["demo"].position
        await some.until(lambda: some.positions[-1] == head)
        await new.until(lambda: new.positions[-1] == head)

    assert some.positions == [*range(5, head + 1)]
    assert new.positions == [*range(new.positions[0], head + 1)]
    assert new.positions[0] > 7


async def test_a_conversation_is_followed_before_it_has_entries(log: Log, elsewhere: Log) -> None:
    async with following(elsewhere["demo"]) as followed:
        await asyncio.sleep(0.2)
        await asyncio.to_thread(log["demo"].append, UserMessage(text="first"))
        await followed.until(lambda: len(followed.positions) == 2)

    assert followed.positions == [1, 2]


async def test_a_position_beyond_the_head_is_refused(log: Log) -> None:
    log["demo"].append(UserMessage(text="a"))
    with pytest.raises(PositionNotFoundError):
        await anext(follow(log["demo"], after=9))


async def test_a_renamed_conversation_is_followed_on_and_not_the_next_of_its_name(
    log: Log, elsewhere: Log
) -> None:
    for has_begun in (True, False):
        name = f"demo {has_begun}"
        if has_begun:
            log[name].append(UserMessage("one"))
        async with following(elsewhere[name]) as first:
            if not has_begun:
                log[name].append(UserMessage("one"))
            await first.until(partial(has, first, [1, 2]))
            log[name].rename(f"old {has_begun}")
            log[name].append(UserMessage("another"))
            async with (
                following(elsewhere[name]) as another,
                following(elsewhere[f"old {has_begun}"]) as late,
            ):
                await another.until(partial(has, another, [1, 2]))
                log[f"old {has_begun}"].append(UserMessage("two"))
                await first.until(partial(has, first, [1, 2, 3]))
                await late.until(partial(has, late, [1, 2, 3]))
                assert another.positions == [1, 2]


async def test_those_who_came_before_the_first_entry_and_after_it_follow_alike(
    log: Log, elsewhere: Log
) -> None:
    for number in range(20):
        name = f"demo {number}"
        async with following(elsewhere[name]) as early:
            log[name].append(UserMessage("one"))
            async with following(elsewhere[name]) as late:
                for _ in range(3):
                    log[name].append(UserMessage("more"))
                await early.until(partial(has, early, [1, 2, 3, 4, 5]))
                await late.until(partial(has, late, [1, 2, 3, 4, 5]))
            log[name].append(UserMessage("the last"))
            await early.until(partial(has, early, [1, 2, 3, 4, 5, 6]))


async def test_a_fork_is_followed_with_what_it_inherits(log: Log, elsewhere: Log) -> None:
    log["demo"].append(UserMessage(text="a"))
    child = log["demo"].fork(name="child")
    async with following(elsewhere["child"]) as followed:
        child.append(UserMessage(text="b"))
        await followed.until(lambda: len(followed.positions) == child.position)

    assert followed.positions == [*range(1, child.position + 1)]


async def test_an_asynchronous_conversation_is_followed_too(address: str, log: Log) -> None:
    async with stenolog.open_async(address) as opened, following(opened["demo"]) as followed:
        await opened["demo"].append(UserMessage(text="a"))
        await followed.until(lambda: len(followed.positions) == 2)


async def test_pieces_come_as_they_are_stored_each_once_and_then_the_entry(log: Log, elsewhere: Log) -> None:
    log["demo"].append(UserMessage(text="Say abc"))
    with answering(log["demo"]) as (claims, held):
        async with following(elsewhere["demo"]) as followed:
            for letter in "abc":
                claims.draft([(held.fence, piece(letter))])
                await followed.until(partial(ends, followed, letter))
            extend(log["demo"], [AssistantMessage(agent="coder", text="abc", cause=2)], None, held.fence)
            await followed.until(lambda: followed.positions[-1:] == [3])

    assert followed.got[2:-1] == [StreamDelta("coder", 2, letter) for letter in "abc"]
    assert isinstance(followed.got[-1], EntryAppended)


async def test_who_comes_later_gets_the_answer_from_its_beginning(log: Log, elsewhere: Log) -> None:
    log["demo"].append(UserMessage(text="Say abc"))
    with answering(log["demo"]) as (claims, held):
        async with following(elsewhere["demo"]) as first:
            for letter in "abc":
                claims.draft([(held.fence, piece(letter))])
            claims.draft([(held.fence, piece("{}", 1, "tool_call"))])
            await first.until(lambda: first.text == "abc{}")
            async with following(elsewhere["demo"], 2) as later:
                await later.until(lambda: later.text == "abc{}")

    assert later.got == [StreamDelta("coder", 2, "abc"), StreamDelta("coder", 2, "{}", "tool_call", 1)]


async def test_a_draft_whose_claim_is_gone_is_not_shown(log: Log, elsewhere: Log) -> None:
    log["demo"].append(UserMessage(text="Say abc"))
    with answering(log["demo"]) as (claims, held):
        claims.draft([(held.fence, piece("gone"))])
        claims.release(held)
    with answering(log["demo"]) as (claims, held):
        claims.draft([(held.fence, piece("anew"))])
        async with following(elsewhere["demo"]) as followed:
            await followed.until(lambda: followed.text)

    assert followed.text == "anew"


async def test_pieces_of_a_claim_that_was_taken_over_do_not_come_again(log: Log, elsewhere: Log) -> None:
    log["demo"].append(UserMessage(text="Say abc"))
    with answering(log["demo"]) as (claims, held):
        claims.draft([(held.fence, piece("a"))])
        async with following(elsewhere["demo"]) as followed:
            await followed.until(lambda: followed.text == "a")
            later = claims.take_over(held, "another")
            assert later is not None
            claims.draft([(later.fence, piece("b"))])
            await followed.until(lambda: len(followed.text) > 1)

    assert followed.text == "ab"


async def test_what_a_team_streams_elsewhere_is_what_it_gives_its_own_caller(
    log: Log, elsewhere: Log
) -> None:
    team = Team([Agent("coder", llm=Scripted("The quick brown fox jumps.", piece=4, pause=0.05))])
    async with following(elsewhere["demo"]) as followed:
        own = [happened async for happened in team.run(log["demo"], "Say it")]
        await followed.until(lambda: len(followed.positions) == log["demo"].position)

    entries = [each for each in own if isinstance(each, EntryAppended)]
    assert [each for each in followed.got if isinstance(each, EntryAppended)] == entries
    assert len(followed.text) > 4
    assert "The quick brown fox jumps.".startswith(followed.text)
    last = max(index for index, each in enumerate(followed.got) if isinstance(each, StreamDelta))
    answered = [index for index, each in enumerate(followed.got) if each == own[-1]]
    assert last < answered[0]


async def test_a_slow_follower_holds_no_other_and_misses_nothing(log: Log, elsewhere: Log) -> None:
    slow = follow(elsewhere["demo"], after=0)
    log["demo"].append(UserMessage(text="0"))
    async with aclosing(slow):
        got = [await anext(slow)]
        async with following(elsewhere["demo"]) as quick:
            for number in range(100):
                await asyncio.to_thread(log["demo"].append, UserMessage(text=str(number)))
            await quick.until(lambda: len(quick.positions) == 102)
        while len(got) < 102:
            got.append(await asyncio.wait_for(anext(slow), PATIENCE))

    assert [each.entry.position for each in got if isinstance(each, EntryAppended)] == [*range(1, 103)]


async def test_followers_that_come_and_go_at_random_miss_nothing(log: Log, elsewhere: Log) -> None:
    chance = random.Random(7)

    async def append() -> None:
        for number in range(60):
            await asyncio.to_thread(log["demo"].append, UserMessage(text=str(number)))

    async def look() -> list[int]:
        met: list[int] = []
        while len(met) < 61:
            async with aclosing(follow(elsewhere["demo"], after=met[-1] if met else 0)) as happening:
                left = chance.randrange(1, 9)
                async for happened in happening:
                    assert isinstance(happened, EntryAppended)
                    met.append(happened.entry.position)
                    left -= 1
                    if not left or len(met) == 61:
                        break
        return met

    async with asyncio.timeout(3 * PATIENCE):
        _, *found = await asyncio.gather(append(), *(look() for _ in range(8)))

    assert found == [[*range(1, 62)]] * 8


async def test_many_followers_share_one_thread(log: Log, elsewhere: Log) -> None:
    names = [f"talk {number}" for number in range(50)]
    for name in names:
        log[name].append(UserMessage(text="a"))
    before = threading.active_count()
    all_of_them = [Followed(elsewhere[name], 2) for name in names for _ in range(4)]
    await asyncio.sleep(0.5)
    for name in names:
        await asyncio.to_thread(log[name].append, UserMessage(text="b"))
    await asyncio.gather(*(each.until(partial(getattr, each, "positions")) for each in all_of_them))
    threads = {thread.name for thread in threading.enumerate()}
    for each in all_of_them:
        each.task.cancel()
    await asyncio.wait([each.task for each in all_of_them])

    assert {"stenolog-live"} <= threads
    # Beside it the threads in which asyncio runs what blocks, and those of the news of commits.
    assert threading.active_count() - before < 45
    assert [each.positions for each in all_of_them] == [[3]] * 200


async def test_following_ends_when_the_log_is_closed(address: str, log: Log) -> None:
    log["demo"].append(UserMessage(text="a"))
    closing = stenolog.open(address)
    followed = Followed(closing["demo"], 0)
    await followed.until(lambda: len(followed.positions) == 2)
    closing.close()

    await asyncio.wait_for(followed.task, PATIENCE)


async def test_a_server_that_starts_again_ends_no_following(postgres: Callable[[str], Server]) -> None:
    server = postgres("postgres 18")
    with server.schema() as address, stenolog.open(address) as log:
        log["demo"].append(UserMessage(text="a"))
        async with following(log["demo"]) as followed:
            await followed.until(lambda: len(followed.positions) == 2)
            await asyncio.to_thread(server.crash)
            await asyncio.to_thread(log["demo"].append, UserMessage(text="b"))
            await followed.until(lambda: len(followed.positions) == 3)


def test_a_log_in_memory_is_followed() -> None:
    async def look() -> str:
        with stenolog.open(":memory:") as log:
            team = Team([Agent("coder", llm=Scripted("Hello there, all of you", piece=4, pause=0.08))])
            async with following(log["demo"]) as followed:
                async for _ in team.run(log["demo"], "Hi"):
                    pass
                await followed.until(lambda: len(followed.positions) == log["demo"].position)
            return followed.text

    assert asyncio.run(look())
