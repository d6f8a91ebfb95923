"""Effects that were taken from a runner which lives, or died just now: each is done once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import stenolog
from stenolog import AssistantMessage, ModeSwitch, Team, UserMessage
from stenolog.adapters.engine.journal.journal import Journal
from stenolog.adapters.engine.journal.recovery import DIED, recover
from stenolog.adapters.engine.options import Options
from stenolog.adapters.store.claims import Claims
from stenolog.adapters.store.contract.values import Claim
from stenolog.domain.lanes.effects import UNKNOWN
from stenolog.engine import Agent
from stenolog.models import Scripted
from stenolog.tools import ToolContext, tool
from tests.engine.given import call, opened, results, run, run_team


def test_a_runner_that_takes_its_own_effect_back_does_it_anew_and_stops_what_it_was_at(
    tmp_path: Path,
) -> None:
    began: list[str] = []
    stopped: list[str] = []

    @tool(repeat="safe")
    async def look(context: ToolContext) -> str:
        """Look, and take long the first time."""
        began.append(context.id)
        if len(began) == 2:
            waits.set()
        try:
            await asyncio.sleep({1: 1_000, 2: 0.1}.get(len(began), 0.0))
        except asyncio.CancelledError:
            stopped.append(context.id)
            raise
        return f"{context.id} is done"

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: unhandled.append(told))
        working = asyncio.create_task(run_team(team, conversation, "Go"))
        await waits.wait()
        conversation.log.take_claims("demo")
        await working

    unhandled: list[object] = []
    waits = asyncio.Event()
    model = Scripted([call("look", "long"), call("look", "short")], "It is a cat.")
    team = Team([Agent("coder", llm=model, tools=[look])])
    with opened(tmp_path / "t.db") as conversation:
        run(main())
        texts = [result.text for result in results(conversation)]

    assert sorted(texts) == ["long is done", "short is done"]
    assert began == ["long", "short", "long", "short"]
    assert stopped == ["long"]
    assert unhandled == []


def test_a_call_that_began_after_the_last_look_and_whose_process_died_is_not_run_again(
    tmp_path: Path,
) -> None:
    @tool
    def feed() -> str:
        """Feed it, once."""
        return "fed"

    with opened(tmp_path / "t.db") as conversation, stenolog.open(tmp_path / "t.db") as other:
        conversation.extend([ModeSwitch(mode="agent", joins=["coder"]), UserMessage(text="Go")])
        agents = {"coder": Agent("coder", llm=Scripted("never"), tools=[feed])}
        presence = conversation.log.recorder.claims.presence("one")
        journal = Journal(conversation, presence, agents, Options())

        other["demo"].append(AssistantMessage(agent="coder", tool_calls=[call("feed")]))
        begun = Claim(0, "coder", "tool 3/0", 3, 1, "", "somebody who died", 0)
        Claims(other.recorder, other["demo"].stream).take([begun], 3)
        for claim in journal.orphans():
            recover(journal, claim, agents, {"coder": {"feed": feed}}, Options(), DIED)
        presence.close()

        (result,) = results(conversation)
        assert result.meta == UNKNOWN
