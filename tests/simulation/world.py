"""The world outside of the log: models whose answers are decisions, and tools that count their runs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any

from stenolog import TextPart, Tool, ToolCall
from stenolog.adapters.engine.model_calls import dispatch
from stenolog.adapters.tools.base import RetrySafety
from stenolog.context import Budget, FullHistory, LastN, TruncateToolOutput
from stenolog.engine import Agent, AgentTool, Parallel, RoundRobin, Team
from stenolog.errors import ModelError
from stenolog.events import Usage
from stenolog.models import Model, ModelRequest, ModelResponse, ResponseDelta, Timeouts
from stenolog.requests import validate
from stenolog.tools import BaseTool, ToolContext, ToolOutput

from .decisions import Decisions
from .process import Process

FORMATS = ("openai-chat", "anthropic", "openai-responses", "gemini", "plain")
PAUSES = (0.0, 0.05, 2.0, 45.0)
POLICIES: tuple[Any, ...] = (
    None,
    LastN(4),
    FullHistory() | Budget(messages=8),
    LastN(6) | TruncateToolOutput(over=6, head=2, tail=2),
)
TOOL_ROUNDS = 6
"""Maximum number of answers that call tools in one simulation, so that it ends."""
NAMES = ("ann", "bob", "eve", "zoe")
"""Two members of the team, a worker of the first, and a summariser."""
dispatch.SAMPLED = 1.0  # the engine checks every request, also in a process that pytest did not start
FAILURES = ("rate_limited", "overloaded", "network", "invalid_response", "context_length")


class World:
    """The agents' settings, and how often each tool has run by idempotency key; `faults` are broken rules."""

    def __init__(self, decisions: Decisions) -> None:
        self.decisions = decisions
        self.began: Counter[tuple[str, str]] = Counter()
        self.rounds = 0
        self.asked = 0
        self.faults: list[str] = []
        choose = decisions.choose
        self.api = {name: FORMATS[choose(f"api.{name}", 0.7, 4)] for name in NAMES}
        self.policy = {name: POLICIES[choose(f"policy.{name}", 0.5, 3)] for name in NAMES}
        self.remembers = {name: bool(choose(f"remembers.{name}", 0.15)) for name in NAMES}
        self.turns = (None, RoundRobin(max_rounds=2), Parallel())[choose("turns", 0.4, 2)]
        self.delegates = ("", "fresh", "fork", "scope")[choose("delegates", 0.4, 3)]
        self.on_unknown = ("tell", "ask")[choose("on_unknown", 0.2)]

    def team(self, process: Process) -> Team:
        """Return a process's team: the same agents everywhere, with models and tools of its own."""
        ann: list[Any] = deeds(self, "look", "feed", "note", "deploy", "finish")
        if self.delegates:
            eve = self._agent("eve", process, deeds(self, "look", "feed"))
            ann.append(AgentTool(eve, context=self.delegates))  # type: ignore[arg-type]
        agents = [
            self._agent("ann", process, ann),
            self._agent("bob", process, deeds(self, "look", "feed", "finish")),
        ]
        return Team(agents, turns=self.turns, on_unknown=self.on_unknown, world=process.world)  # type: ignore[arg-type]

    def alone(self, name: str) -> Agent:
        """Return an agent without tools, for work in a fork."""
        return Agent(name, llm=Talker(self, name), policy=self.policy[name])

    def _agent(self, name: str, process: Process, its: list[Any]) -> Agent:
        return Agent(name, llm=Talker(self, name), tools=its, policy=self.policy[name])


class Talker(Model):
    """A model that answers, calls tools, fails, is slow or hangs, as decided."""

    provider = "simulated"
    charges = "nothing"

    def __init__(self, world: World, agent: str) -> None:
        self.world = world
        self.name = f"model-of-{agent}"
        self.api = world.api[agent]
        self.agent = agent
        self.remembers = world.remembers[agent]
        self.timeouts = Timeouts(first_token=20.0, idle=20.0, total=120.0)

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[ResponseDelta | ModelResponse, None]:
        world, choose, me = self.world, self.world.decisions.choose, f"model.{self.agent}"
        world.asked += 1
        if broken := validate(str(self.api), prompt.body):
            world.faults.append(f"law: a request of {prompt.lane} was sent that breaks {broken[0]}")
        if pause := choose(f"{me}.pause", 0.3, len(PAUSES) - 1):
            await asyncio.sleep(PAUSES[pause])
        if failure := choose(f"{me}.fails", 0.1, len(FAILURES)):
            yield ResponseDelta(0, "text", "I beg")
            await asyncio.sleep(0.2)
            raise ModelError(FAILURES[failure - 1], "as decided", retry_after=choose(f"{me}.again", 0.2, 50))
        said = f"answer {world.asked}"
        if choose(f"{me}.hands_on", 0.1):
            said += " @bob" if self.agent == "ann" else " @ann"
        if choose(f"{me}.streams", 0.3):
            for word in said.split():
                yield ResponseDelta(0, "text", f"{word} ")
                await asyncio.sleep(0.15)
        parts: list[Any] = [TextPart(text=said)]
        names = self._tools(prompt)
        calls = choose(f"{me}.calls", 0.45, 3) if names and world.rounds < TOOL_ROUNDS else 0
        world.rounds += bool(calls)
        for nth in range(calls):
            name = names[choose(f"{me}.tool", 0.7, len(names) - 1)]
            arguments = '{"task": "Do it."}' if name.startswith("ask_") else "{}"
            parts.append(ToolCall(id=f"c{world.asked}-{nth}", name=name, arguments=arguments))
        session = (prompt.session or f"session {world.asked}") if self.remembers else ""
        yield ModelResponse(tuple(parts), usage=Usage(input=10, output=5), session=session)

    async def lost(self, lane: str, conversation: str, session: str) -> str:
        if pause := self.world.decisions.choose(f"model.{self.agent}.asked", 0.2, len(PAUSES) - 1):
            await asyncio.sleep(PAUSES[pause])
        return "as decided" if self.world.decisions.choose(f"model.{self.agent}.lost", 0.2) else ""

    def _tools(self, prompt: ModelRequest) -> list[str]:
        if self.agent == "zoe" or not prompt.body.get("tools", self.api == "plain"):
            return []
        if self.agent == "eve":
            return ["look", "feed"]
        known = ["look", "feed", "finish"]
        if self.agent == "ann":
            known += ["note", "deploy", *(["ask_eve"] if self.world.delegates else [])]
        return known


class Deed(BaseTool):
    """A tool that waits as long as decided, and counts its runs."""

    stops = True

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.repeat, marks = DEEDS[name]
        self.spec = Tool(name=name, description="Do it.", parameters=PARAMETERS, **marks)

    async def run(self, call: ToolContext) -> ToolOutput:
        world = self.world
        world.began[call.name, call.key] += 1
        if self.repeat == "never" and world.began[call.name, call.key] > 1:
            world.faults.append(f"twice: {call.name}, which must not run twice, has: {call.key}")
        if pause := world.decisions.choose(f"tool.{call.name}", 0.4, len(PAUSES) - 1):
            await asyncio.sleep(PAUSES[pause])
        if world.decisions.choose(f"tool.{call.name}.fails", 0.05):
            raise ValueError("as decided")
        return ToolOutput((f"{call.name} is done, and that was quite some work",))


PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}
DEEDS: dict[str, tuple[RetrySafety, dict[str, Any]]] = {
    "look": ("safe", {}),
    "feed": ("never", {}),
    "note": ("keyed", {}),
    "deploy": ("never", {"approval": True}),
    "finish": ("never", {"ends_run": True}),
}


def deeds(world: World, *names: str) -> list[Any]:
    """Return the tools of these names."""
    return [Deed(world, name) for name in names]
