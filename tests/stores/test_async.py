"""The log for asyncio: the same answers, awaited."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import (
    AssistantMessage,
    AsyncConversation,
    AsyncLog,
    Conversation,
    Fold,
    ModeSwitch,
    UserMessage,
    VersionConflictError,
    open_async,
)
from stenolog.errors import DuplicateIdError, StoreError
from tests.stores.conftest import fixed_clock, fixed_ids

HI = UserMessage(text="hi")


def run(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Return the test in an event loop of its own."""

    @wraps(test)
    def runs(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))  # type: ignore[arg-type]

    return runs


def opened(path: Path | str = ":memory:") -> AsyncLog:
    return open_async(path, clock=fixed_clock(), ids=fixed_ids(), entropy=bytes)


def test_help_says_what_each_method_does_and_which_are_awaited() -> None:
    methods = {name: it for name, it in vars(AsyncConversation).items() if not name.startswith("_")}
    plain = {"name", "log", "entries", "records", "tail"}

    assert {name for name, it in methods.items() if not inspect.getdoc(it)} <= {"name"}
    assert {name for name, it in methods.items() if not inspect.iscoroutinefunction(it)} <= plain
    assert inspect.getdoc(AsyncConversation.join) == inspect.getdoc(Conversation.join)


@run
async def test_closing_again_does_nothing(path: Path) -> None:
    async with opened(path) as log:
        await log["demo"].append(HI)
        await log.close()
        await log.close()

    assert log.sync.datastore.closed


@run
async def test_every_answer_is_that_of_the_log_itself(path: Path) -> None:
    async with opened(path) as log:
        conversation = log["demo"]
        entry = await conversation.append(HI, id="m1")
        await conversation.extend([AssistantMessage(agent="coder", text="ho")], expected=2)
        sync = log.sync["demo"]

        assert entry == next(sync.entries(after=1))
        assert (conversation.name, await conversation.position(), await conversation.digest()) == (
            "demo",
            3,
            sync.digest,
        )
        assert [e async for e in conversation.entries()] == list(sync.entries())
        assert [r async for r in conversation.records(after=1, at=2)] == list(sync.records(1, 2))
        assert await conversation.entry(2) == await conversation.entry_by_id("m1") == entry
        assert await conversation.state() == sync.state()
        assert await conversation.settings() == sync.settings()
        assert await conversation.timeline() == sync.timeline()
        assert await conversation.transitions() == sync.transitions()
        assert (await conversation.request("coder")).sha256 == sync.request("coder").sha256
        assert await conversation.fold(Fold("count", 0, lambda n, _: n + 1, state=int)) == 3
        with pytest.raises(DuplicateIdError):
            await conversation.append(AssistantMessage(agent="a"), id="m1")


@run
async def test_conversations_are_forked_renamed_archived_and_deleted(path: Path) -> None:
    async with opened(path) as log:
        conversation = log["demo"]
        await conversation.append(ModeSwitch(mode="agent"))
        await conversation.submit(HI)
        fork = await conversation.fork(after=1)
        await conversation.rename("new")
        assert await log.names() == ["new", "demo~1"]
        await fork.archive()
        assert await log.names() == ["new"]
        await fork.unarchive()
        await fork.delete()
        assert await log.names(archived=True) == ["new"]
        assert (await log.exists("new"), await log.exists("demo")) == (True, False)


@run
async def test_blobs_and_backups(tmp_path: Path) -> None:
    async with opened() as log:
        sha = await log.put_blob(b"a")
        assert await log.blob(sha) == b"a"
        await log.backup(tmp_path / "copy.db")
    assert (tmp_path / "copy.db").exists()


@run
async def test_a_log_can_be_opened_without_a_block() -> None:
    log = await opened()
    await log["demo"].append(HI)
    await log.close()

    with pytest.raises((StoreError, RuntimeError)):
        await log["demo"].append(HI)


@run
async def test_appends_at_once_keep_their_order_and_a_conflict_fails_its_own_alone() -> None:
    async with opened() as log:
        conversation, other = log["demo"], log["other"]
        made: Any = await asyncio.gather(
            conversation.append(HI, id="one"),
            conversation.append(HI, expected=7),
            other.append(HI),
            conversation.extend([HI, HI]),
            conversation.append(AssistantMessage(agent="a"), id="one"),
            conversation.append(HI),
            return_exceptions=True,
        )

        one, stale, another, two, taken, last = made
        assert (type(stale), type(taken)) == (VersionConflictError, DuplicateIdError)
        assert [one.position, another.position, *(e.position for e in two), last.position] == [2, 2, 3, 4, 5]
        assert [e async for e in conversation.entries(after=1)] == [one, *two, last]


@run
async def test_tasks_that_append_at_once_share_a_commit(path: Path) -> None:
    async with opened(path) as log:
        conversations = [log[str(number)] for number in range(64)]
        commits: list[str] = []
        log.sync.datastore.writer.set_trace_callback(
            lambda text: commits.append(text) if text == "COMMIT" else None
        )
        with log.sync.datastore.writing():
            tasks = [asyncio.create_task(conversation.append(HI)) for conversation in conversations]
            await asyncio.sleep(0)
        entries = await asyncio.gather(*tasks)

        assert [entry.position for entry in entries] == [2] * 64
        assert len(commits) == 2


@run
async def test_a_cancelled_append_holds_up_nobody() -> None:
    async with opened() as log:
        conversation = log["demo"]
        with log.sync.datastore.reading():
            cancelled, waits = (
                asyncio.create_task(conversation.append(HI)),
                asyncio.create_task(conversation.append(HI)),
            )
            await asyncio.sleep(0)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
        assert (await waits).position == 3  # what was cancelled had been queued already


def test_a_log_goes_on_in_another_event_loop(path: Path) -> None:
    log = opened(path)
    asyncio.run(log.__aenter__())
    assert asyncio.run(log["demo"].append(HI)).position == 2
    assert asyncio.run(log["demo"].append(HI)).position == 3
    asyncio.run(log.close())


@run
async def test_long_conversations_come_in_batches() -> None:
    async with opened() as log:
        await log["demo"].extend([HI] * 300)

        assert [e.position async for e in log["demo"].entries()] == list(range(1, 302))


async def following(conversation: AsyncConversation, count: int, after: int | None = 0) -> list[int]:
    seen: list[int] = []
    async for entry in conversation.tail(after=after, timeout=20):
        seen.append(entry.position)
        if len(seen) == count:
            break
    return seen


@run
async def test_a_tail_wakes_for_each_append() -> None:
    async with opened() as log:
        conversation = log["demo"]
        async with asyncio.TaskGroup() as group:
            tails = [group.create_task(following(conversation, 21)) for _ in range(20)]
            for _ in range(20):
                await conversation.append(HI)

        assert [tail.result() for tail in tails] == [list(range(1, 22))] * 20


@run
async def test_a_tail_ends_after_its_timeout() -> None:
    async with opened() as log:
        await log["demo"].append(HI)

        assert [e.position async for e in log["demo"].tail(after=1, timeout=0.01)] == [2]
        assert [e.position async for e in log["demo"].tail(timeout=0.01)] == []


@run
@pytest.mark.parametrize("read", [100, 128])
async def test_a_tail_ends_when_the_log_is_closed_while_it_is_read(read: int) -> None:
    async with opened() as log:
        await log["demo"].extend([HI] * 300)
        seen = 0
        async for _ in log["demo"].tail(after=0, timeout=20):
            seen += 1
            if seen == read:
                await log.close()

    assert seen == 128


@run
async def test_a_closed_log_says_so() -> None:
    async with opened() as log:
        await log.close()
        with pytest.raises(StoreError, match="the log was closed"):
            await log["demo"].position()


@run
async def test_a_tail_wakes_for_another_process(path: Path) -> None:
    append = "import sys, stenolog as s; s.open(sys.argv[1])['demo'].append(s.UserMessage(text='x'))"
    async with opened(path) as log:
        await log["demo"].append(HI)
        async with asyncio.TaskGroup() as group:
            tail = group.create_task(following(log["demo"], 1, after=2))
            with subprocess.Popen([sys.executable, "-c", append, str(path)]):
                await tail

        assert tail.result() == [3]


def test_the_names_are_found_in_the_package() -> None:
    assert stenolog.open_async is open_async
