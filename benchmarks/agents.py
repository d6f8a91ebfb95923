"""Twenty agents that are processes, a thousand turns, killed between and within them: what is left behind."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import aclosing
from pathlib import Path
from typing import NamedTuple

from benchmarks._ratio import Row
from stenolog import AssistantMessage, Conversation, LlmError, Log
from stenolog.adapters.agents import groups
from stenolog.adapters.agents.command_line import CommandLine
from stenolog.adapters.conversation import log as logs
from stenolog.adapters.conversation.queries.requests.window_cache import windows_of
from stenolog.context import SinceLastTurn
from stenolog.engine import Agent, RetryPolicy, Team
from tests.agents import given

AGENTS, ROUNDS = 20, 50
NAMES = [f"agent {number}" for number in range(AGENTS)]
WORDS = [f"word{number}" for number in range(ROUNDS)]
KILLED_EACH_ROUND = 3


class Left(NamedTuple):
    """The holdings of this process: pipes and sockets, tasks, children, memory blocks, resident bytes."""

    descriptors: int
    tasks: int
    children: int
    blocks: int
    resident: int


def run() -> Iterable[Row]:
    with tempfile.TemporaryDirectory() as folder, logs.open(Path(folder, "talks.db")) as log:
        start = time.perf_counter()
        before, half, end, after = asyncio.run(turns(log))
        elapsed = time.perf_counter() - start
        yield from rows(log["talk"], before, half, end, after, elapsed)


async def turns(log: Log) -> list[Left]:
    """Run all turns; return the resources before, at the half, at the end, and after the team is closed.

    Cached windows, of which a log has up to 50,000 entries, and the watcher of programs are left out.
    """
    held, talk = [left()], log["talk"]
    model = given.runs_on(env={"BRIEF": "1"})
    agents = [Agent(name, llm=model, policy=SinceLastTurn(), retries=RetryPolicy(base=0.0)) for name in NAMES]
    async with Team(agents) as team:
        for number, word in enumerate(WORDS):
            await killed(model, number)
            dying = NAMES[number % AGENTS]
            await worked(team, talk, word, [name for name in NAMES if name != dying])
            await worked(team, talk, f"{word} die-later", [dying])
            if number + 1 in (ROUNDS // 2, ROUNDS):
                windows_of(log).clear()
                held.append(left())
    groups.WATCHER.close()
    return [*held, left()]


async def killed(model: CommandLine, number: int) -> None:
    """Kill some between two turns, others each round."""
    for step in range(KILLED_EACH_ROUND if number else 0):
        await given.killed(model, NAMES[(number * KILLED_EACH_ROUND + step) % AGENTS])


async def worked(team: Team, talk: Conversation, text: str, to: list[str]) -> None:
    """Say it, and wait until all have answered."""
    async with aclosing(team.run(talk, text, to=to)) as run:
        async for _ in run:
            pass


def rows(
    talk: Conversation, before: Left, half: Left, end: Left, after: Left, elapsed: float
) -> Iterable[Row]:
    events = [entry.event for entry in talk.entries()]
    answers = [event for event in events if isinstance(event, AssistantMessage)]
    deaths = sum(isinstance(event, LlmError) and event.category == "process_exited" for event in events)
    last = {event.agent: event.text for event in answers}
    forgotten = sum(word not in last[name].split() for name in NAMES for word in WORDS)
    what = f"{AGENTS} agents, {len(answers):,} turns"
    note = f"{deaths} deaths, {elapsed:.0f} s, {elapsed / len(answers) * 1e3:.0f} ms a turn"
    yield Row(f"{what}: turns missing", AGENTS * ROUNDS - len(answers), 0, "", note)
    yield Row(f"{what}: words that an agent has forgotten", forgotten, 0, "")
    for name in ("descriptors", "tasks", "children"):
        more = getattr(end, name) - getattr(half, name)
        note = f"{getattr(end, name)} at the end"
        yield Row(f"{what}: {name} more than at the half", more, 0, "", note)
        yield Row(f"{what}: {name} left when closed", getattr(after, name) - getattr(before, name), 0, "")
    note = f"{end.blocks:,} blocks, {end.resident / 1e6:.0f} MB resident at the end"
    yield Row(f"{what}: blocks of memory against the half", end.blocks / half.blocks, 1.05, note=note)


def left() -> Left:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    memory = pages * os.sysconf("SC_PAGE_SIZE")
    return Left(given.descriptors(), len(asyncio.all_tasks()), children(), sys.getallocatedblocks(), memory)


def children() -> int:
    """Return the number of children of this process, zombies too."""
    stats = (Path("/proc", pid, "stat") for pid in os.listdir("/proc") if pid.isdigit())
    return sum(parent(stat) == os.getpid() for stat in stats)


def parent(stat: Path) -> int:
    try:
        return int(stat.read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
