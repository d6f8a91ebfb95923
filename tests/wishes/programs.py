"""The programs: what people of other libraries would miss, as a team, a script and a person each."""

from __future__ import annotations

from stenolog.engine import Agent, Runtime, Team
from stenolog.tools import ToolContext, tool

from .world import Asked, Program, World, call


def approving(world: World, runtime: Runtime) -> Team:
    """Return a team whose tool waits for an approval."""

    @tool(approval=True)
    def pay(euro: int, context: ToolContext) -> str:
        """Pay."""
        world.effects.append(f"pay {euro} {context.key}")
        return f"{euro} euro were paid"

    def turn(asked: Asked) -> object:
        return "It is paid." if asked.knows("c1") else call("pay", "c1", euro=12)

    return Team([Agent("clerk", llm=world.model(turn), tools=[pay])], world=runtime)


PROGRAMS = [
    Program("approval", approving, ("Pay the bill.",), "It is paid.", {"pay": {"euro": 11}}),
]
