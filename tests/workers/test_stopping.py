"""Workers that are told to stop, and runs that wait for a person: what is left is left for others, once."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any

import pytest

import stenolog
from stenolog import Agent, LlmError, Team, ToolResult
from stenolog.apps.workers import worker
from stenolog.domain.lanes.effects import UNKNOWN
from stenolog.engine import AgentTool, CircuitBreaker
from stenolog.models import ModelError, Scripted
from stenolog.tools import tool
from stenolog.workers import Worker, approve, submit
from tests.engine.given import call
from tests.workers.given import PATIENCE, texts, until, working


class Slow:
    """A team whose tool waits until it may go on."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()

    def team(self, *answers: Any) -> Team:
        """Return the team."""

        @tool
        async def wait() -> str:
            """Wait."""
            self.begun.set()
            await self.may_end.wait()
            return "waited"

        return Team([Agent("coder", llm=Scripted(*answers), tools=[wait])])


async def test_a_worker_that_stops_lets_an_effect_end_and_leaves_the_next_to_others(address: str) -> None:
    slow = Slow()
    with stenolog.open(address) as log:
        stopping = Worker(log, slow.team(call("wait"), "Not by this one."))
        running = asyncio.create_task(stopping.run())
        await submit(log["demo"], "Wait.")
        await asyncio.wait_for(slow.begun.wait(), PATIENCE)
        stopping.stop()
        await asyncio.sleep(0.2)
        assert not running.done()
        slow.may_end.set()
        await asyncio.wait_for(running, PATIENCE)

        assert texts(log["demo"]) == ["Wait.", ""]
        assert log.claims() == []
        async with working(log, slow.team("Done.")):
            await until(lambda: "Done." in texts(log["demo"]))
        results = [entry.event.text for entry in log["demo"] if isinstance(entry.event, ToolResult)]
        assert results == ["waited"]


@pytest.mark.parametrize("how", ["twice", "late", "cancelled"])
async def test_what_a_worker_closes_is_in_the_log_and_others_go_on(address: str, how: str) -> None:
    slow = Slow()
    with stenolog.open(address) as log:
        stopping = Worker(log, slow.team(call("wait")), grace=0.2 if how == "late" else 60.0)
        running = asyncio.create_task(stopping.run())
        await submit(log["demo"], "Wait.")
        await asyncio.wait_for(slow.begun.wait(), PATIENCE)
        if how == "cancelled":
            running.cancel()
        for _ in range(["cancelled", "late", "twice"].index(how)):
            stopping.stop()
        assert (await asyncio.wait({running}, timeout=10))[0]

        (result,) = [entry.event for entry in log["demo"] if isinstance(entry.event, ToolResult)]
        assert (result.meta, log.claims()) == (UNKNOWN, [])
        async with working(log, slow.team("I do not know.")):
            await until(lambda: "I do not know." in texts(log["demo"]))
        assert not any(isinstance(entry.event, LlmError) for entry in log["demo"])


async def test_a_run_whose_worker_waits_for_a_person_holds_no_slot_and_the_approval_wakes_it(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "PATIENCE", 0.3)
    deployed = []

    @tool(approval=True)
    def deploy() -> str:
        """Deploy."""
        deployed.append(1)
        return "deployed"

    helper = Agent("helper", llm=Scripted(call("deploy"), "It is deployed."), tools=[deploy])
    asking = call("ask_helper", arguments='{"task": "Deploy it."}')
    team = Team([Agent("coder", llm=Scripted(asking, "Done."), tools=[AgentTool(helper)])])
    with stenolog.open(address) as log:
        async with working(log, team) as at_work:
            await submit(log["demo"], "Deploy it.")
            await until(lambda: len(log.names()) == 2 and log[log.names()[1]].state().open_calls())
            await until(lambda: not at_work.doing and not log.claims())
            (waiting,) = await team.pending_approvals(log["demo"])
            # At the worker's own conversation, whose caller goes on by that.
            await approve(log[waiting.conversation], waiting.call)
            await until(lambda: "Done." in texts(log["demo"]))

    assert deployed == [1]


# A model that one worker leaves alone after failures is left alone by all.


def failing() -> tuple[Team, Scripted]:
    """Return a team whose model is overloaded, and that leaves it alone for a minute after one failure."""
    model = Scripted(*[ModelError("overloaded", "too many requests")] * 50)
    return Team([Agent("coder", llm=model)], breaker=partial(CircuitBreaker, 1, 60.0)), model


@pytest.mark.slow
async def test_a_model_that_failed_for_one_worker_is_asked_by_no_other(server_log: str) -> None:
    (first, _), (second, unasked) = failing(), failing()
    with stenolog.open(server_log) as log, stenolog.open(server_log) as other:
        async with working(log, first, name="first"), working(other, second, name="second"):
            await submit(log["demo"], "What is it?", team="first")
            breaker = second.options.breaker_of(unasked)
            await until(lambda: breaker.seconds_open(time.monotonic()) > 50)
            await submit(log["other"], "What is it?", team="second")
            await until(lambda: any(isinstance(entry.event, LlmError) for entry in log["other"]))

        (error,) = [entry.event for entry in log["other"] if isinstance(entry.event, LlmError)]
        assert error.receipt is None
        assert "not called" in error.message
