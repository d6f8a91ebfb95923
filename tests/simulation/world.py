"""The world outside of the log: the agents' settings, and what models and tools have done."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

from stenolog.adapters.engine.model_calls import dispatch
from stenolog.context import Budget, FullHistory, LastN, TruncateToolOutput
from stenolog.engine import (
    Agent,
    AgentTool,
    AutoSummary,
    ByHandoff,
    Handoff,
    Output,
    Parallel,
    RoundRobin,
    Team,
)

from .checks import SCHEMA, Judge
from .decisions import Decisions
from .models import Talker
from .process import Process
from .tools import TOOLS, deeds

FORMATS = ("openai-chat", "anthropic", "openai-responses", "gemini", "plain")
POLICIES: tuple[Any, ...] = (
    None,
    LastN(4),
    FullHistory() | Budget(messages=8),
    LastN(6) | TruncateToolOutput(over=6, head=2, tail=2),
)
NAMES = ("ann", "bob", "eve", "zoe")
"""Two members of the team, a worker of the first, and a summariser."""
LONGEST = (0, 2_500, 5_000)
"""Characters of the longest request that a model takes; 0: any."""
dispatch.SAMPLED = 1.0  # the engine checks every request, also in a process that pytest did not start


class World:
    """The agents' settings, and what has happened outside of the log.

    `api` and `longest` are by a model's name. `began` counts the runs of each tool by idempotency key, once
    it has asked all that it asks. `answers` are those that were given to each question, `told` the one that
    its tool had. `faults` are broken rules.
    """

    def __init__(self, decisions: Decisions) -> None:
        self.decisions = decisions
        self.began: Counter[tuple[str, str]] = Counter()
        self.rounds = 0
        self.asked = 0
        self.faults: list[str] = []
        self.answers: defaultdict[str, list[Any]] = defaultdict(list)
        self.told: dict[str, Any] = {}
        choose = decisions.choose
        models = [(name, kind, f"{kind}-of-{name}") for name in NAMES for kind in ("model", "spare")]
        self.api = {model: FORMATS[choose(f"api.{model}", 0.7, 4)] for _, _, model in models}
        self.longest = {model: LONGEST[choose(f"longest.{model}", 0.15, 2)] for _, _, model in models}
        self.policy = {name: POLICIES[choose(f"policy.{name}", 0.5, 3)] for name in NAMES}
        self.remembers = {name: bool(choose(f"remembers.{name}", 0.15)) for name in NAMES}
        self.has_spare = {name: bool(choose(f"spare.{name}", 0.3)) for name in NAMES}
        self.summarises = {name: bool(choose(f"summarises.{name}", 0.15)) for name in NAMES}
        self.is_instructed = {name: bool(choose(f"instructed.{name}", 0.2)) for name in NAMES}
        self.turns: Any = (None, RoundRobin(max_rounds=2), Parallel())[choose("turns", 0.4, 2)]
        self.delegates = ("", "fresh", "fork", "scope")[choose("delegates", 0.4, 3)]
        self.on_unknown = ("tell", "ask")[choose("on_unknown", 0.2)]
        self.is_typed = {name: name != "zoe" and bool(choose(f"typed.{name}", 0.2)) for name in NAMES}
        self.is_judged = {name: bool(choose(f"judged.{name}", 0.35)) for name in NAMES}
        self.judge = Judge(decisions, self.answers)
        self.hands_to: dict[str, list[Any]] = {}
        if how := choose("handoffs", 0.4, 3):
            self.hands_to = {"ann": ["bob"], "bob": [Handoff("ann", filter=LastN(3))]}
            if how > 1:
                self.turns = ByHandoff("ann", returns=how == 3)
        self.mentions = (True, None, False)[choose("mentions", 0.4, 2)]

    def team(self, process: Process) -> Team:
        """Return a process's team: the same agents everywhere, with models and tools of its own."""
        ann: list[Any] = deeds(self, *TOOLS["ann"])
        if self.delegates:
            eve = self._agent("eve", deeds(self, *TOOLS["eve"]))
            ann.append(AgentTool(eve, context=self.delegates))  # type: ignore[arg-type]
        agents = [self._agent("ann", ann), self._agent("bob", deeds(self, *TOOLS["bob"]))]
        return Team(
            agents,
            turns=self.turns,
            on_unknown=self.on_unknown,  # type: ignore[arg-type]
            mentions=self.mentions,
            world=process.world,
        )

    def alone(self, name: str) -> Agent:
        """Return an agent without tools, for work in a fork."""
        return replace(self._agent(name, []), summary=None)

    def _agent(self, name: str, its: list[Any]) -> Agent:
        more: dict[str, Any] = {}
        if its:
            more["handoffs"] = self.hands_to.get(name, [])
        llm: Any = Talker(self, name)
        if self.has_spare[name]:
            llm = [llm, Talker(self, name, "spare")]
        if self.is_instructed[name]:
            more["persona"] = instructions
        is_member = name in ("ann", "bob")
        if self.is_typed[name]:
            more["output"] = Output(SCHEMA)
        if is_member and self.is_judged[name]:
            more["checks"] = self.judge.checks
        summary = AutoSummary(by=self.alone("zoe")) if is_member and self.summarises[name] else None
        return Agent(name, llm=llm, tools=its, policy=self.policy[name], summary=summary, **more)


def instructions(now: Any) -> str:
    """Return instructions that change with time."""
    return f"It is between {now.time.minute // 6} and {now.time.minute // 6 + 1}."
