"""A runner from which a person has taken an effect, and which comes back to it itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

from stenolog import Team
from stenolog.engine import Agent
from stenolog.models import Scripted
from stenolog.tools import ToolContext, tool
from tests.engine.given import call, opened, results, run, worked


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
        working = asyncio.create_task(worked(team, conversation, "Go"))
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
