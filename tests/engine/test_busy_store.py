"""A store that others keep busy, and clocks that are wrong: what has finished is not lost."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import stenolog
from stenolog import LlmError, Team
from stenolog.engine import Agent, EntryAppended, RetryPolicy
from stenolog.errors import ModelError, StoreTimeoutError
from stenolog.models import ModelRequest, Scripted
from stenolog.tools import tool
from tests.engine.given import Clock, answers, call, results, run, run_team
from tests.postgres import in_schemas


@contextmanager
def kept_busy(path: Path) -> Iterator[None]:
    """Hold the write lock of a log, as another program does until it commits."""
    if in_schemas.is_chosen():
        with in_schemas.connected(path) as other:
            other.execute("LOCK TABLE conversations, claims IN EXCLUSIVE MODE")
            yield
        return
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as file:
        file.execute("BEGIN IMMEDIATE")
        yield


def payer(paid: list[int], busy: list[asyncio.Event]) -> Team:
    """Return a team with a tool that may run once alone; it ends once the store is busy."""

    @tool
    async def pay() -> str:
        """Pay."""
        paid.append(1)
        begun, go_on = busy
        begun.set()
        await go_on.wait()
        return "PAID"

    return Team([Agent("coder", llm=Scripted([call("pay")], "Done."), tools=[pay])])


async def busy_past_its_deadline(log: stenolog.Log) -> None:
    """Wait until another writer of this log has given up: as long as the result waits, too."""
    with pytest.raises(StoreTimeoutError):
        await asyncio.to_thread(log["other"].append, stenolog.UserMessage(text="x"))


def test_the_result_of_a_tool_is_written_once_a_busy_store_is_free_again(tmp_path: Path) -> None:
    async def main(log: stenolog.Log) -> None:
        busy = [asyncio.Event(), asyncio.Event()]
        working = asyncio.create_task(run_team(payer(paid, busy), log["demo"], "Pay."))
        await busy[0].wait()
        with kept_busy(tmp_path / "t.db"):
            busy[1].set()
            await busy_past_its_deadline(log)
            await busy_past_its_deadline(log)
        await working

    paid = list[int]()
    with stenolog.open(tmp_path / "t.db", deadline=0.2) as log:
        run(main(log))

        assert ([result.text for result in results(log["demo"])], paid) == (["PAID"], [1])
        assert answers(log["demo"])[-1].text == "Done."


def test_the_result_of_a_tool_is_written_though_its_run_is_stopped_while_the_store_is_busy(
    tmp_path: Path,
) -> None:
    async def main(log: stenolog.Log) -> None:
        busy = [asyncio.Event(), asyncio.Event()]
        working = asyncio.create_task(run_team(payer(paid, busy), log["demo"], "Pay."))
        await busy[0].wait()
        with kept_busy(tmp_path / "t.db"):
            busy[1].set()
            await busy_past_its_deadline(log)
            working.cancel()
            await busy_past_its_deadline(log)
        await asyncio.gather(working, return_exceptions=True)

    paid = list[int]()
    with stenolog.open(tmp_path / "t.db", deadline=0.2) as log:
        run(main(log))

        assert ([result.text for result in results(log["demo"])], paid) == (["PAID"], [1])


def test_the_next_run_of_the_process_writes_a_result_that_could_not_be_written_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(log: stenolog.Log) -> None:
        busy = [asyncio.Event(), asyncio.Event()]
        working = asyncio.create_task(run_team(payer(paid, busy), log["demo"], "Pay."))
        await busy[0].wait()
        with kept_busy(tmp_path / "t.db"):
            busy[1].set()
            await busy_past_its_deadline(log)
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    monkeypatch.setattr("stenolog.adapters.engine.journal.recovery.PATIENCE", 0.0)
    paid = list[int]()
    with stenolog.open(tmp_path / "t.db", deadline=0.2) as log:
        run(main(log))
        assert results(log["demo"]) == []
        again = Team([Agent("coder", llm=Scripted("Done."))])
        run(run_team(again, log["demo"]))

        assert ([result.text for result in results(log["demo"])], paid) == (["PAID"], [1])


@pytest.mark.parametrize("ahead", [timedelta(hours=1), timedelta(days=400_000)])
def test_a_retry_of_a_host_whose_clock_is_ahead_waits_as_long_as_was_meant(
    tmp_path: Path, ahead: timedelta
) -> None:
    def flaky(prompt: ModelRequest) -> str:
        if not asked:
            asked.append(1)
            raise ModelError("overloaded", "busy")
        return "answer"

    async def until_it_fails(conversation: stenolog.Conversation) -> None:
        running = team.run(conversation, "hi")
        async for happened in running:
            if isinstance(happened, EntryAppended) and isinstance(happened.entry.event, LlmError):
                break
        await running.aclose()

    asked, there, here = list[int](), Clock(), Clock()
    there.now += ahead
    retries = RetryPolicy(attempts={"overloaded": 3}, base=8.0, max_delay=8.0)
    team = Team([Agent("coder", llm=Scripted(flaky, endless=True), retries=retries)], world=here.world)
    with stenolog.open(tmp_path / "t.db", clock=there) as log:
        run(until_it_fails(log["demo"]))
    with stenolog.open(tmp_path / "t.db", clock=here) as log:
        run(run_team(team, log["demo"]))
        said = answers(log["demo"])[-1].text

    assert said == "answer"
    assert max(here.slept) <= 8.0


def test_a_log_that_says_to_wait_for_years_is_waited_for_no_longer_than_retries_ever_wait(
    tmp_path: Path,
) -> None:
    clock, never = Clock(), datetime(9999, 1, 1, tzinfo=UTC)
    retries = RetryPolicy(max_delay=2.0, max_retry_after=3.0)
    team = Team([Agent("coder", llm=Scripted("answer"), retries=retries)], world=clock.world)
    with stenolog.open(tmp_path / "t.db", clock=clock) as log:
        log["demo"].append(stenolog.UserMessage(text="hi", to=["coder"]))
        log["demo"].append(LlmError(agent="coder", category="overloaded", attempt=1, retry_at=never))
        run(run_team(team, log["demo"]))

        assert answers(log["demo"])[-1].text == "answer"
    assert max(clock.slept) <= 30.0  # a breaker's rest, which is longer than these retries
