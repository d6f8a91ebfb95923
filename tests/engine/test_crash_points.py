"""Runs, cut off at every entry, claim and draft: each goes on from there to its end."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import stenolog
from stenolog import Entry, Log, Team, ToolResult, UserMessage
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.store.claims import Claims
from stenolog.domain.lanes.effects import UNKNOWN
from stenolog.engine import Agent, AgentTool, ByHandoff, Handoff
from stenolog.errors import ModelError
from stenolog.models import ModelRequest, Scripted
from stenolog.testing import CrashPoint
from stenolog.tools import ToolContext, tool
from tests.engine.given import Clock, call, run, run_team
from tests.postgres.crash_points import crash_points

SLOW: dict[str, Any] = {"piece": 6, "pause": 0.06, "endless": True}
"""An answer that streams for so long is drafted before it is whole."""


class World:
    """What is outside of the log: which tools have run, by idempotency key."""

    def __init__(self, ran: tuple[str, ...] = (), failures: int = 0) -> None:
        self.ran = list(ran)
        self.failures = failures

    def seen(self) -> tuple[tuple[str, ...], int]:
        """Return a copy."""
        return tuple(self.ran), self.failures


class Told(NamedTuple):
    """What a model sees of a conversation: roles and texts."""

    roles: list[str]
    text: str


def told(prompt: ModelRequest) -> Told:
    messages = prompt.body["messages"]
    return Told([message["role"] for message in messages], json.dumps(messages))


def tools(world: World) -> list[Any]:
    """Return one tool that may be run again, and two that must not."""

    @tool(repeat="safe")
    def look(call: ToolContext) -> str:
        """Look."""
        world.ran.append(f"look {call.key}")
        return "a cat"

    @tool
    def feed(call: ToolContext) -> str:
        """Feed it."""
        world.ran.append(f"feed {call.key}")
        return "fed"

    @tool
    async def pet(call: ToolContext) -> str:
        """Pet it."""
        world.ran.append(f"pet {call.key}")
        await asyncio.sleep(0.01)
        raise ValueError("it bites")

    return [look, feed, pet]


def calls_once(*names: str) -> Callable[[ModelRequest], object]:
    """Return a model that calls these tools at once, and answers when it has their results."""

    def turn(prompt: ModelRequest) -> object:
        if "tool" in told(prompt).roles:
            return "It is a cat, and it has been fed."
        return ["Let me see.", *(call(name, f"c{n}") for n, name in enumerate(names))]

    return turn


def fails_first(world: World) -> Callable[[ModelRequest], object]:
    """Return a model that is overloaded twice."""

    def turn(prompt: ModelRequest) -> object:
        world.failures += 1
        if world.failures < 3:
            raise ModelError("overloaded", "busy")
        return "There."

    return turn


def says(text: str) -> Callable[[ModelRequest], object]:
    return lambda prompt: text


def streaming(world: World, clock: Clock) -> Team:
    return Team([Agent("a", llm=Scripted(says("A long answer in pieces."), **SLOW))], world=clock.world)


def one_tool(world: World, clock: Clock) -> Team:
    model = Scripted(calls_once("feed"), endless=True)
    return Team([Agent("a", llm=model, tools=tools(world))], world=clock.world)


def parallel_tools(world: World, clock: Clock) -> Team:
    model = Scripted(calls_once("look", "feed", "pet", "nothing_like_it"), endless=True)
    return Team([Agent("a", llm=model, tools=tools(world))], world=clock.world)


def retries(world: World, clock: Clock) -> Team:
    return Team([Agent("a", llm=Scripted(fails_first(world), endless=True))], world=clock.world)


def two_lanes(world: World, clock: Clock) -> Team:
    agents = [
        Agent("a", llm=Scripted(calls_once("feed", "look"), endless=True), tools=tools(world)),
        Agent("b", llm=Scripted(says("I watch."), **SLOW)),
    ]
    return Team(agents, world=clock.world)


def delegating(world: World, clock: Clock, calls: int, **options: Any) -> Team:
    """Return an agent that has a worker feed something, several times at once."""
    reader = Agent("reader", llm=Scripted(calls_once("feed"), endless=True), tools=tools(world))

    def lead(prompt: ModelRequest) -> object:
        if "tool" in told(prompt).roles:
            return "Done."
        return [call("ask_reader", f"d{nth}", f'{{"task": "Feed number {nth}."}}') for nth in range(calls)]

    agent = Agent("a", llm=Scripted(lead, endless=True), tools=[AgentTool(reader, **options)])
    return Team([agent], world=clock.world)


def worker(world: World, clock: Clock) -> Team:
    return delegating(world, clock, 1)


def worker_with_a_fork(world: World, clock: Clock) -> Team:
    return delegating(world, clock, 1, context="fork")


def two_workers_in_a_scope(world: World, clock: Clock) -> Team:
    return delegating(world, clock, 2, context="scope")


def handing_on(world: World, clock: Clock) -> Team:
    """Return an agent that hands on to another, whose context is then another one, while a tool runs."""

    def triage(prompt: ModelRequest) -> object:
        return [call("look"), call("transfer_to_b", "c2", '{"message": "Feed it."}')]

    other = Agent("b", llm=Scripted(calls_once("feed"), endless=True), tools=tools(world))
    first = Agent(
        "a",
        llm=Scripted(triage, endless=True),
        tools=tools(world),
        handoffs=[Handoff(other, filter="last:8")],
    )
    return Team([first, other], turns=ByHandoff("a"), world=clock.world)


RUNS = [
    streaming,
    one_tool,
    parallel_tools,
    retries,
    two_lanes,
    handing_on,
    worker,
    worker_with_a_fork,
    pytest.param(two_workers_in_a_scope, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("made", RUNS, ids=lambda made: made.__name__)
def test_a_run_that_is_cut_off_anywhere_goes_on_to_its_end(made: Any, tmp_path: Path) -> None:
    world, clock = World(), Clock()

    def begin(log: Log) -> None:
        run(run_team(made(world, clock), log["demo"], "What is it?"))

    when, found = set[str](), list[str]()
    for point in crash_points(begin, tmp_path, world=world.seen, clock=clock):
        when.add(point.when.split()[0])
        found += faults(point, made)

    assert when == {"after", "before"}
    assert found == []


def faults(point: CrashPoint, made: Any) -> Iterator[str]:
    """Yield the faults after the run has continued from a point."""
    world, clock = World(*point.world), Clock()
    with stenolog.open(point.path, clock=clock) as log:
        conversation = log["demo"]
        before = list(conversation.entries())
        claimed = {claim.key for name in log for claim in Claims(log.recorder, log[name].stream).all()}
        words = [] if any(isinstance(entry.event, UserMessage) for entry in before) else ["What is it?"]
        run(run_team(made(world, clock), conversation, *words))
        after = list(conversation.entries())
        state = conversation.state()
        if after[: len(before)] != before:
            yield f"{point.when}: entries have changed"
        if any(lane.status != "idle" or lane.calls for lane in state.lanes.values()) or state.anomalies:
            yield f"{point.when}: ended in {state}"
        if any(len(others) != 1 for others in told_by_handoffs(after)):
            yield f"{point.when}: a hand-off without its message, or with two"
        if not verify(log).ok:
            yield f"{point.when}: the log is damaged"
        left = [c for name in log for c in Claims(log.recorder, log[name].stream).all()]
        if left:
            yield f"{point.when}: claims are left: {left}"
        yield from (f"{point.when}: {fault}" for fault in twice(world, claimed, log))


def twice(world: World, claimed: set[str], log: Log) -> Iterator[str]:
    """Yield the tools that must not run twice and did, or that were never begun and did not run."""
    for ran, times in Counter(world.ran).items():
        name = ran.partition(" ")[0]
        if times > (2 if name == "look" else 1):
            yield f"{name} ran {times} times"
    results = [e.event for name in log for e in log[name].entries() if isinstance(e.event, ToolResult)]
    unknown = [result for result in results if result.meta == UNKNOWN]
    if len(unknown) > len(claimed):
        yield "a call that was never begun has an unknown outcome"


def told_by_handoffs(entries: list[Entry]) -> list[list[str]]:
    """Return whom the messages of each call that hands on are for."""
    called = [
        entry.position
        for entry in entries
        if any(call.name.startswith("transfer_") for call in getattr(entry.event, "tool_calls", ()))
    ]
    briefs = [e.event for e in entries if isinstance(e.event, UserMessage) and e.event.author_kind == "agent"]
    return [[to for brief in briefs if brief.cause == position for to in brief.to] for position in called]


def test_the_fixture_names_entries_claims_and_drafts(tmp_path: Path) -> None:
    def begin(log: Log) -> None:
        run(run_team(streaming(World(), Clock()), log["demo"], "Go"))

    names = {word for point in crash_points(begin, tmp_path) for word in point.when.split()}

    assert {"entry", "claim", "draft"} <= names
