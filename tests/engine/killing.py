"""Kills the workload again and again, lets it finish, and tells what became of every word and every call."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import NamedTuple

import stenolog
from stenolog import AssistantMessage, Entry, LlmError, Log, ToolResult
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.conversation.verifying.requests import prove
from stenolog.adapters.store.claims import Claims
from stenolog.adapters.store.contract.values import Claim
from stenolog.domain.lanes.effects import MODEL, UNKNOWN
from stenolog.projections.requests import lanes
from stenolog.projections.requests.incremental.series import from_window, windows
from stenolog.projections.requests.sendable import takes_part
from tests.engine.workload import NEVER, TALKS, Files, lines, work
from tests.requests.judging import HERE, faults
from tests.stores import workers

ALIVE = (0.02, 0.7)
"""Seconds that a process has until it is killed, at least and at most."""
EARLY = 0.2
"""The share of kills that count those seconds from the start of the process. The others count them from its
first call of a model or tool: when that comes depends on what else the machine does."""
KEPT = 0.25
"""Seconds after which what has streamed must be kept."""


class Kill(NamedTuple):
    """One kill: when (monotonic seconds), of which process, what was claimed then in each conversation."""

    at: float
    process: int
    claims: Mapping[str, list[Claim]]

    @property
    def in_flight(self) -> int:
        """How many effects were under way."""
        return sum(map(len, self.claims.values()))

    def of(self, model: bool) -> int:
        """Return the number of model calls, or of tool calls."""
        return sum((claim.effect == MODEL) is model for claims in self.claims.values() for claim in claims)


@dataclass
class Story:
    """What was counted, and each fault in a line that begins with its kind.

    `shared`: several processes were at it at the same time.
    """

    shared: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    oldest_lost: float = 0.0
    """Seconds before its kill that the oldest piece was told that is lost."""

    def wrong(self, kind: str) -> list[str]:
        """Return the faults of a kind."""
        return [fault for fault in self.faults if fault.startswith(f"{kind}:")]


def killed(folder: Path, kills: int, seed: int, processes: int = 1) -> list[Kill]:
    """Kill the workload at random moments, and let it come to its end.

    It runs in so many processes at once, and one of them is killed so many times.
    """
    files, chance = Files(folder), Random(seed)
    workers.CONTEXT.set_forkserver_preload(["stenolog", "tests.stores.workers", "tests.engine.workload"])
    running: list[BaseProcess] = []
    made: list[Kill] = []
    for _ in range(kills):
        running += [workers.started(work, str(folder)) for _ in range(processes - len(running))]
        if chance.random() > EARLY:
            _wait_for_more_work(files)
        time.sleep(chance.uniform(*ALIVE))
        made.append(_kill(files, running.pop(chance.randrange(processes))))
    files.enough.touch()
    running.append(workers.started(work, str(folder)))
    for process in running:
        process.join(workers.PATIENCE)
        assert process.exitcode == 0, f"the last run ended with {process.exitcode}"
    return made


def _wait_for_more_work(files: Files) -> None:
    until, begun = time.monotonic() + workers.PATIENCE, _begun(files)
    while _begun(files) == begun:
        assert time.monotonic() < until, f"nothing was begun in {workers.PATIENCE} s"
        time.sleep(0.002)


def _begun(files: Files) -> int:
    """Return the bytes written about model calls and tools."""
    return sum(file.stat().st_size for file in (files.models, files.tools) if file.exists())


def _kill(files: Files, process: BaseProcess) -> Kill:
    assert process.pid is not None
    at = time.monotonic()
    os.kill(process.pid, signal.SIGKILL)
    process.join(workers.PATIENCE)
    assert process.exitcode == -signal.SIGKILL, f"a run ended by itself with {process.exitcode}"
    with stenolog.open(files.log) as log:
        claims = {name: Claims(log.recorder, log[name].stream).all() for name in TALKS}
    return Kill(at, process.pid, claims)


def told(folder: Path, kills: list[Kill], every: int = 1, shared: bool = False) -> Story:
    """Return the story of the workload; every so many prefixes are checked for requests."""
    files, story = Files(folder), Story(shared)
    story.counts["kills"] = len(kills)
    story.counts["kills with effects in flight"] = sum(kill.in_flight > 0 for kill in kills)
    with stenolog.open(files.log) as log:
        conversations = {name: [*log[name].entries()] for name in TALKS}
        for found in (
            _acknowledged(files, conversations, story),
            _tools(files, conversations, kills, story),
            _pieces(files, conversations, kills, story),
            _models(files, conversations, kills, story),
            _finished(log, story),
            _proved(log),
            _clean(conversations, every, story),
        ):
            story.faults += found
    return story


def _acknowledged(files: Files, conversations: Mapping[str, list[Entry]], story: Story) -> Iterator[str]:
    for name, position, digest in lines(files.told):
        story.counts["entries acknowledged"] += 1
        stands = conversations[name][int(position) - 1 :][:1]
        if [entry.digest for entry in stands] != [digest]:
            yield f"entry: {name}@{position} was acknowledged, and does not stand there"


class Asked(NamedTuple):
    """A call as the log has it: its tool, the effect that it is claimed as, and its results."""

    tool: str
    claimed_as: tuple[str, str, str]
    results: list[ToolResult]


def _tools(
    files: Files, conversations: Mapping[str, list[Entry]], kills: list[Kill], story: Story
) -> Iterator[str]:
    starts, ends, keys = Counter[str](), Counter[str](), dict[str, set[str]]()
    for what, _, id, key in lines(files.tools):
        (starts if what == "start" else ends)[id] += 1
        keys.setdefault(id, set()).add(key)
    cut = Counter(
        (name, claim.lane, claim.effect)
        for kill in kills
        for name, claims in kill.claims.items()
        for claim in claims
    )
    calls = {id: call for name, entries in conversations.items() for id, call in _calls(name, entries)}
    yield from (f"call: {id} ran and is in no answer" for id in starts if id not in calls)
    yield from (f"key: {id} had {len(each)} keys" for id, each in keys.items() if len(each) > 1)
    for id, call in calls.items():
        never, unknown = call.tool == NEVER, [result.meta == UNKNOWN for result in call.results]
        story.counts["calls that may not be repeated" if never else "calls that may be repeated"] += 1
        story.counts["calls whose outcome is unknown"] += sum(unknown)
        story.counts["calls repeated"] += max(0, starts[id] - 1)
        if len(unknown) != 1:
            yield f"result: {id} has {len(unknown)} results"
        if never and starts[id] > 1:
            yield f"twice: {id} may not be repeated, and ran {starts[id]} times"
        # where others live, one of them may have taken a claim over before anybody could look
        cuts = cut[call.claimed_as] or (story.shared and (any(unknown) or starts[id] > 1))
        if not cuts and (starts[id], ends[id], unknown) != (1, 1, [False]):
            yield f"once: {id} was never cut off, ran {starts[id]} times, ended {ends[id]} times"
        if not never and (not ends[id] or any(unknown) or starts[id] > 1 + cuts):
            yield f"repeat: {id} ran {starts[id]} times and was cut off {cuts} times"


def _calls(name: str, entries: list[Entry]) -> Iterator[tuple[str, Asked]]:
    results: dict[str, list[ToolResult]] = {}
    for entry in entries:
        if isinstance(entry.event, ToolResult):
            results.setdefault(entry.event.call_id, []).append(entry.event)
    for entry in entries:
        if isinstance(entry.event, AssistantMessage):
            for nth, call in enumerate(entry.event.tool_calls):
                effect = name, entry.event.agent, f"tool {entry.position}/{nth}"
                yield call.id, Asked(call.name, effect, results.get(call.id, []))


def _pieces(
    files: Files, conversations: Mapping[str, list[Entry]], kills: list[Kill], story: Story
) -> Iterator[str]:
    kept = {
        (name, word)
        for name, entries in conversations.items()
        for entry in entries
        if isinstance(entry.event, AssistantMessage | LlmError)
        for word in entry.event.text.split()
    }
    ends = {str(kill.process): kill.at for kill in kills}
    for name, piece, at, process in lines(files.pieces):
        story.counts["pieces streamed"] += 1
        cut = ends.get(process, float("inf"))
        story.counts["pieces older than 250 ms when their process was killed"] += KEPT < cut - float(at) < 10
        if (name, piece) not in kept:
            age = cut - float(at)
            story.counts["pieces lost that were younger"] += age <= KEPT
            story.oldest_lost = max(story.oldest_lost, age)
            if age > KEPT:
                yield f"piece: {name} {piece} was told {age:.3f} s before the kill, and is lost"


def _models(
    files: Files, conversations: Mapping[str, list[Entry]], kills: list[Kill], story: Story
) -> Iterator[str]:
    starts = Counter(key for what, key, *_ in lines(files.models) if what == "start")
    events = [entry.event for entries in conversations.values() for entry in entries]
    answers = sum(isinstance(event, AssistantMessage) for event in events)
    errors = Counter(event.category for event in events if isinstance(event, LlmError))
    cut, in_flight = errors.pop("process_exited", 0), sum(kill.of(model=True) for kill in kills)
    repeated = starts.total() - answers - errors.total()
    story.counts += Counter(
        {
            "model calls": starts.total(),
            "model calls that failed by script": errors.total(),
            "model calls repeated": repeated,
            "model calls in flight at a kill": in_flight,
        }
    )
    if not 0 <= repeated <= cut or (cut > in_flight and not story.shared):
        yield f"model: {repeated} repeated, {cut} said to be cut off, {in_flight} in flight"
    yield from (f"model: {key} was begun {count} times" for key, count in starts.items() if count > 1)


def _finished(log: Log, story: Story) -> Iterator[str]:
    for name in TALKS:
        state = log[name].state()
        story.counts["entries"] += state.position
        for lane in state.lanes.values():
            if lane.status != "idle" or lane.calls or lane.asked > lane.seen:
                yield f"finished: {name} {lane}"
        if left := Claims(log.recorder, log[name].stream).all():
            yield f"finished: {name} has claims left: {left}"


def _proved(log: Log) -> Iterator[str]:
    yield from (f"verify: {problem}" for problem in verify(log).problems)
    for name, proofs in prove(log):
        yield from (f"verify: {name} {proof}" for proof in proofs if proof.outcome != "same")


def _clean(conversations: Mapping[str, list[Entry]], every: int, story: Story) -> Iterator[str]:
    for name, entries in conversations.items() if HERE else ():
        for lane in lanes(entries):
            for made in windows(entries, lane, None):
                if made.position % every == 0 and takes_part(made):
                    story.counts["requests of prefixes"] += 1
                    request = from_window(made, "openai-chat")
                    where = f"{name} {lane.address}@{made.position}"
                    yield from (f"request: {where}: {fault}" for fault in faults("openai-chat", request))
