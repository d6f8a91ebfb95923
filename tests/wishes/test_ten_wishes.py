"""What people of other libraries would miss, as programs that are killed at every instant and go on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import pytest

import stenolog
from stenolog import Conversation, Log
from stenolog.adapters.conversation import log as log_module
from stenolog.adapters.conversation import opening
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.conversation.verifying.requests import check, prove
from stenolog.domain.lanes.effects import UNKNOWN
from stenolog.engine import Replay, Team
from stenolog.events import AssistantMessage, LlmError, ToolResult
from stenolog.projections.analysis.retry import Here, cases, tried
from stenolog.testing import CrashPoint
from tests import virtual_time
from tests.engine.given import Clock
from tests.postgres import in_schemas
from tests.postgres.crash_points import crash_points
from tests.postgres.server import Server

from .programs import PROGRAMS
from .ways import WAYS, Way, converse
from .world import Program, World, story

PATIENCE_SECONDS = 600.0
NAME = "demo"
Story = list[tuple[str, ...]]


class Whole(NamedTuple):
    """A run without a kill: its story, and the tools that had effects."""

    story: Story
    tools: frozenset[str]


def go(program: Program, way: Way, log: Log, world: World, clock: Clock) -> None:
    """Run a program to its end, be it from its beginning or from where it was killed."""
    team = program.team(world, clock.world)
    run = converse(way, program, team, log[NAME], world)
    virtual_time.run(run, PATIENCE_SECONDS)


@pytest.fixture
def store(
    request: pytest.FixtureRequest, postgres: Callable[[str], Server], monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Open the logs of a test in files, or on a server."""
    if request.param == "file" or in_schemas.is_chosen():
        yield
        return
    monkeypatch.setenv(in_schemas.VARIABLE, postgres("postgres 15").folder)
    for module in (opening, log_module):
        monkeypatch.setattr(module, "open_application", in_schemas.open_in_schema)
    with in_schemas.dropped():
        yield


# No service wakes the workers of a log in PostgreSQL.
WHOLE = [
    ("itself", "file"),
    ("itself", "postgres"),
    ("serve", "file"),
    ("claims", "file"),
    ("claims", "postgres"),
    ("worker", "file"),
    ("worker", "postgres"),
]
"""Each way to run, with the store of its log."""
CELLS = [
    *(pytest.param(program, "itself", "file", 8, id=f"{program.name}-sample") for program in PROGRAMS),
    *(
        pytest.param(program, way, store, 1, id=f"{program.name}-{way}-{store}", marks=pytest.mark.slow)
        for program in PROGRAMS
        for way, store in WHOLE
        if program.claims or way != "claims"
    ),
]
"""Each program in each way, killed at every instant; and by itself at one in eight."""


@pytest.mark.parametrize(("program", "way", "store", "each"), CELLS, indirect=["store"])
@pytest.mark.usefixtures("store")
def test_a_program_that_is_killed_anywhere_comes_to_the_same_end(
    program: Program, way: str, each: int, tmp_path: Path
) -> None:
    world, clock = World(), Clock()
    points = crash_points(
        lambda log: go(program, WAYS[way], log, world, clock), tmp_path, world=world.copy, clock=clock
    )
    first = next(points)
    with stenolog.open(tmp_path / "run.db") as log:
        expected = Whole(story(log[NAME]), frozenset(each.partition(" ")[0] for each in world.effects))
        found = [f"without a kill: {fault}" for fault in faults(program, log, world, expected)]
    for point in islice(chain([first], points), None, None, each):
        found += [f"{point.when}: {fault}" for fault in continued(program, WAYS[way], point, expected)]

    assert not found, "\n".join(found)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_recorded_program_is_run_again_without_its_models_and_tools(
    program: Program, tmp_path: Path
) -> None:
    world, clock = World(), Clock()
    with stenolog.open(tmp_path / "run.db", clock=clock) as log:
        go(program, WAYS["itself"], log, world, clock)
        untouched = World()
        team = program.team(untouched, clock.world)
        recording = Replay(log[NAME])
        agents = [recording.agent(agent) for agent in team.agents.values()]
        again = Team(agents, turns=team.turns, world=clock.world)
        run = converse(WAYS["itself"], program, again, log["again"], World())
        virtual_time.run(run, PATIENCE_SECONDS)

        assert (story(log["again"]), digests(log["again"])) == (story(log[NAME]), digests(log[NAME]))
        assert (untouched, recording.remaining) == (World(), 0)


def digests(conversation: Conversation) -> list[str]:
    """Return the digests of all requests."""
    events = (entry.event for entry in conversation.entries())
    return [e.receipt.sha256 for e in events if isinstance(e, AssistantMessage | LlmError) and e.receipt]


def continued(program: Program, way: Way, point: CrashPoint, expected: Whole) -> Iterator[str]:
    """Run a program from where it was killed to its end, and yield what is wrong there."""
    world, clock = point.world, Clock()
    with stenolog.open(point.path, clock=clock) as log:
        before, claimed = [*log[NAME].entries()], len(log.claims())
        go(program, way, log, world, clock)
        if [*log[NAME].entries(at=len(before))] != before:
            yield "entries have changed"
        unknown = [each for each in results(log) if each.meta == UNKNOWN]
        if len(unknown) > claimed:
            yield f"{len(unknown)} outcomes are unknown, and {claimed} effects were begun"
        yield from faults(program, log, world, expected)


def faults(program: Program, log: Log, world: World, expected: Whole) -> Iterator[str]:
    """Yield what is wrong with a program's end."""
    conversation = log[NAME]
    state, entries = conversation.state(), [*conversation.entries()]
    if any(lane.status != "idle" or lane.calls for lane in state.lanes.values()) or state.anomalies:
        yield f"ended in {state.lanes}, {state.anomalies} anomalies"
    if log.claims():
        yield f"claims are left: {log.claims()}"
    yield from (f"refused by the provider: {each}" for each in world.refused)
    yield from (f"the log is damaged: {each}" for each in verify(log).problems)
    for each in check(log, [NAME], all_prefixes=True):
        yield from (f"an invalid request: {one}" for one in each.invalid)
    for _, proofs in prove(log):
        yield from (f"not what was sent: {proof}" for proof in proofs if proof.outcome != "same")
    again = tried(entries, cases(entries), means=Here(blobs=log.blobs))
    if {one.what for one in again} != {"same"}:
        yield f"built again: {again}"
    last = [e.event.text for e in entries if isinstance(e.event, AssistantMessage)][-1:]
    if last != [program.last] and not any(each.meta == UNKNOWN for each in results(log)):
        yield f"the last words are {last}"
    yield from told_otherwise(story(conversation), expected.story)
    yield from effects_of(log, world, expected.tools)
    yield from program.holds(conversation, world)


def told_otherwise(found: Story, expected: Story) -> Iterator[str]:
    """Yield where a story differs from the one without a kill, up to an outcome that is unknown."""
    unknown = [nth for nth, each in enumerate(found) if each[0] == "result" and each[-1] == "?"]
    if unknown:
        found, expected = found[: unknown[0]], expected[: unknown[0]]
    if found != expected:
        same = [now == then for now, then in zip(found, expected, strict=False)]
        at = same.index(False) if False in same else len(same)
        yield f"the story differs: {found[at : at + 2]} for {expected[at : at + 2]}"


def effects_of(log: Log, world: World, tools: Iterable[str]) -> Iterator[str]:
    """Yield the effects that came twice, or not at all though their result says that they did."""
    yield from (f"{each}: {n} times" for each, n in Counter(world.effects).items() if n > 1)
    for name in tools:
        ran = sum(each.startswith(f"{name} ") for each in world.effects)
        found = [each for each in results(log) if each.name == name]
        told = sum(not each.is_error for each in found)
        unknown = sum(each.meta == UNKNOWN for each in found)
        if not told <= ran <= told + unknown:
            yield f"{name} had {ran} effects for {told} results and {unknown} unknown ones"


def results(log: Log) -> list[ToolResult]:
    """Return the results of all tools."""
    return [e.event for name in log for e in log[name].entries() if isinstance(e.event, ToolResult)]
