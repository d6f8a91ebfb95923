"""Tools of the simulated world: they wait, ask and fail as decided, and count their runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from stenolog import Tool
from stenolog.adapters.tools.base import RetrySafety
from stenolog.tools import BaseTool, ToolContext, ToolOutput

if TYPE_CHECKING:
    from .world import World

PAUSES = (0.0, 0.05, 2.0, 45.0)
PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}
DEEDS: dict[str, tuple[RetrySafety, int, dict[str, Any]]] = {
    "look": ("safe", 0, {}),
    "feed": ("never", 0, {}),
    "note": ("keyed", 0, {}),
    "deploy": ("never", 0, {"approval": True}),
    "finish": ("never", 0, {"ends_run": True}),
    "pay": ("never", 1, {}),
    "plan": ("keyed", 2, {"ends_run": True}),
    "ship": ("safe", 1, {"approval": True}),
}
"""The tools: may they run again, how many questions do they ask, and what else their cards say."""
TOOLS = {
    "ann": ("look", "feed", "note", "deploy", "finish", "pay", "plan"),
    "bob": ("look", "feed", "finish", "ship"),
    "eve": ("look", "feed", "pay"),
}
DONE_BY = "is done by "
CHOICES = ("left", "right")


class Deed(BaseTool):
    """A tool that waits as long as decided, and counts its runs."""

    stops = True

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.repeat, self.questions, marks = DEEDS[name]
        self.spec = Tool(name=name, description="Do it.", parameters=PARAMETERS, **marks)

    async def run(self, call: ToolContext) -> ToolOutput:
        world = self.world
        for nth in range(self.questions):
            await self._ask(call, nth)
        if fault := world.judge.call_fault(call):
            world.faults.append(fault)
        world.began[call.name, call.key] += 1
        if self.repeat == "never" and world.began[call.name, call.key] > 1:
            world.faults.append(f"twice: {call.name}, which must not run twice, has: {call.key}")
        if pause := world.decisions.choose(f"tool.{call.name}", 0.4, len(PAUSES) - 1):
            await asyncio.sleep(PAUSES[pause])
        if world.decisions.choose(f"tool.{call.name}.fails", 0.05):
            raise ValueError("as decided")
        return ToolOutput((f"{call.name} {DONE_BY}{call.key}, and that was quite some work",))

    async def _ask(self, call: ToolContext, nth: int) -> None:
        """Ask a person; the answer must be theirs, and the same in each run of the call."""
        world, question = self.world, f"{nth} of {call.key}?"
        said = await (call.ask(question, schema=int) if nth else call.ask(question, choices=CHOICES))
        if said not in world.answers[question] or world.told.setdefault(question, said) != said:
            known = world.answers[question], world.told.get(question)
            world.faults.append(f"answers: {question} has the answer {said}, with {known}")


def deeds(world: World, *names: str) -> list[Any]:
    """Return the tools of these names."""
    return [Deed(world, name) for name in names]
