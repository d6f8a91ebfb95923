"""Ctrl-C in a tool of a loop of one's own: the program stops, the log is whole, the next start goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import stenolog
from stenolog import Agent, AssistantMessage, Conversation, Team, ToolCall, UserMessage
from stenolog.adapters.tools.functions import ToolLike
from stenolog.models import Scripted
from stenolog.tools import run_calls, run_calls_async

CALLS = [ToolCall(id=f"c{nth}", name="work") for nth in range(2)]


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Conversation]:
    with stenolog.open(tmp_path / "a.db") as log:
        yield log["x"]


def called(talk: Conversation) -> None:
    talk.join("coder", model="m")
    talk.append(UserMessage("Go"))
    talk.append(AssistantMessage(agent="coder", tool_calls=CALLS))


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def blocked() -> str:
    """Do work that does not end by itself."""
    press()
    time.sleep(30)
    return "late"


async def awaited() -> str:
    """Do work that is cancelled."""
    press()
    await asyncio.sleep(30)
    return "late"


async def stubborn() -> str:
    """Do work, and say how far it came when it is cancelled."""
    press()
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        return "half"
    return "late"


def done() -> str:
    """Do the work."""
    return "done"


for each in (blocked, awaited, stubborn, done):
    each.__name__ = "work"


def results(talk: Conversation) -> list[str]:
    return [getattr(entry.event, "text", "") for entry in talk if entry.event.kind == "tool_result"]


@pytest.mark.parametrize("work", [blocked, awaited], ids=["thread", "coroutine"])
def test_a_call_that_is_interrupted_stays_open_and_runs_at_the_next_start(
    work: ToolLike, talk: Conversation
) -> None:
    called(talk)

    with pytest.raises(KeyboardInterrupt):
        run_calls(talk, "coder", [work])

    assert results(talk) == []
    assert len(run_calls(talk, "coder", [done])) == 2
    assert results(talk) == ["done", "done"]
    assert talk.request("coder").sendable


def test_a_result_that_an_interrupted_tool_gives_is_kept_and_the_program_stops(talk: Conversation) -> None:
    called(talk)

    with pytest.raises(KeyboardInterrupt):
        run_calls(talk, "coder", [stubborn])

    assert results(talk) == ["half"]
    assert len(run_calls(talk, "coder", [done])) == 1


def test_a_cancelled_task_keeps_such_a_result_and_runs_no_further_call(tmp_path: Path) -> None:
    begun = threading.Event()

    async def work() -> str:
        """Do work, and say how far it came when it is cancelled."""
        begun.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return "half"
        return "late"

    async def run() -> list[str]:
        async with stenolog.open_async(tmp_path / "a.db") as log:
            called(await log["x"].sync())
            task = asyncio.create_task(run_calls_async(log["x"], "coder", [work]))
            await asyncio.to_thread(begun.wait, 30)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return results(await log["x"].sync())

    assert asyncio.run(run()) == ["half"]


def test_a_team_that_is_interrupted_says_so_and_its_next_run_goes_on(talk: Conversation) -> None:
    script = Scripted(CALLS[:1], "All done.")
    with pytest.raises(KeyboardInterrupt):
        Team([Agent("coder", llm=script, tools=[blocked])]).ask_sync(talk, "Go")

    assert "the program stopped here" in results(talk)[0]
    again = Team([Agent("coder", llm=Scripted("All done."), tools=[blocked])])
    assert again.ask_sync(talk) == "All done."
