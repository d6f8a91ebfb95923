"""The timed parts: turns at several lengths, ways back, a cold start, many conversations; and the bytes.

Stores take turns in blocks, so that all meet the same noise; of each block its median is kept, with those of
the floors beside it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from statistics import median
from typing import Any

from benchmarks.peers.bench import AT_ONCE, Bench
from benchmarks.peers.registry import FLOORS, OURS
from benchmarks.peers.running import Running

TALK = "talk"
SLOW_S = 1.0
FEW = 3
"""Rounds for a store whose turn takes longer than that, and for the others where a round is long."""
SETTLED, WARM, FAST_S = 1_000, 200, 0.03
"""Behind so many turns, stores run so many more if a turn takes no longer than that, and are timed again."""
PATIENCE = 600.0

Answers = dict[str, dict[str, Any]]


class Field:
    """Stores that stand ready, each in its process with a file open; who fails is out."""

    def __init__(self, bench: Bench, stack: ExitStack, what: str, names: list[str] | None = None) -> None:
        self.bench, self.stack, self.what = bench, stack, what
        self.children: dict[str, Running] = {}
        bench.each(what, self._open, names)

    def ask(self, do: str, names: list[str] | None = None, at_once: int = 1, **given: Any) -> Answers:
        """Have the same done by all, one after the other or some at once; what came of it."""
        answers: Answers = {}

        def work(name: str) -> None:
            answers[name] = self.children[name].ask(do, PATIENCE, **given)

        asked = [name for name in self.children if names is None or name in names]
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(lambda name: self.bench.tried(self.what, work, name), asked))
        for name in asked:
            if self.children[name].process.poll() is not None:
                del self.children[name]
        return answers

    def _open(self, name: str) -> None:
        child = self.stack.enter_context(self.bench.running(name))
        child.ask("open", path=self.bench.path(name, self.what))
        self.children[name] = child


def run(bench: Bench) -> None:
    """Run all of them."""
    for length in bench.plan.lengths:
        (young if length < 100 else grown)(bench, length)
    ways_back(bench)
    cyrillic(bench)
    cold(bench)
    interleaved(bench)


def young(bench: Bench, length: int) -> None:
    """Time turns around the tenth, say, of a new conversation, one for each round."""
    before = length - bench.plan.block // 2
    with ExitStack() as stack:
        field = Field(bench, stack, f"young{length}")
        for number in range(bench.plan.rounds):
            talk = f"{TALK}{number}"
            field.ask("turns", conversation=talk, first=1, count=before)
            answers = field.ask("turns", conversation=talk, first=before + 1, count=bench.plan.block)
            keep(bench, f"turn {length}", medians(answers))


def grown(bench: Bench, length: int) -> None:
    """Time turns behind a history that was written at once, in a process that has just opened it."""
    block = bench.plan.block
    with ExitStack() as stack:
        field = Field(bench, stack, f"grown{length}")
        field.ask("fill", at_once=AT_ONCE, conversation=TALK, turns=length)
        field.ask("reopen")
        warm = field.ask("turns", conversation=TALK, first=length + 1, count=2)
        slow = {name for name, answer in warm.items() if answer["wall"][1] > SLOW_S}
        for number in range(bench.plan.rounds):
            names = [name for name in warm if name not in slow or number < FEW]
            given: dict[str, Any] = {
                "first": length + 3 + number * block,
                "count": block,
                "allowed_s": SLOW_S,
            }
            answers = field.ask("turns", names, conversation=TALK, **given)
            keep(bench, f"turn {length}", medians(answers))
        if length == SETTLED:
            fast = [name for name, seconds in medians(answers).items() if seconds < FAST_S]
            settled(bench, field, fast, first=length + 3 + bench.plan.rounds * block)
        field.ask("close")


def settled(bench: Bench, field: Field, names: list[str], first: int) -> None:
    """Time turns of some stores with the write-ahead log at its longest, when commits cost the least."""
    block = bench.plan.block
    field.ask("turns", names, conversation=TALK, first=first, count=WARM)
    for number in range(bench.plan.rounds):
        given: dict[str, Any] = {"first": first + WARM + number * block, "count": block}
        answers = field.ask("turns", names, conversation=TALK, **given)
        keep(bench, "turn settled", medians(answers))


def ways_back(bench: Bench) -> None:
    """Measure the bytes after single turns, the list at half of them, and a fork there."""
    short, half = bench.plan.short, bench.plan.short // 2
    with ExitStack() as stack:
        field = Field(bench, stack, "short")
        field.ask("turns", at_once=AT_ONCE, conversation=TALK, first=1, count=short)
        for name, answer in field.ask("reopen").items():
            sizes = {"bytes latin": answer["bytes"], "beside latin": answer["beside"]}
            bench.found[name] |= {"short": short, **sizes}
        for name, answer in field.ask("exact", conversation=TALK, turns=short).items():
            bench.found[name]["exact"] = answer["exact"]
        for number in range(bench.plan.rounds):
            answers = field.ask("at", conversation=TALK, turn=half - number)
            keep(bench, "state at the half", {name: answer["at_s"] for name, answer in answers.items()})
        for number in range(bench.plan.rounds):
            answers = field.ask("fork", conversation=TALK, turn=half, name=f"fork{number}")
            keep(bench, "fork", {name: answer["fork_s"] for name, answer in answers.items()})


def cyrillic(bench: Bench) -> None:
    """Measure the bytes of the same turns in Cyrillic."""
    with ExitStack() as stack:
        field = Field(bench, stack, "cyrillic")
        given: dict[str, Any] = {"first": 1, "count": bench.plan.short, "alphabet": "cyrillic"}
        field.ask("turns", at_once=AT_ONCE, conversation=TALK, **given)
        for name, answer in field.ask("close").items():
            sizes = {"bytes cyrillic": answer["bytes"], "beside cyrillic": answer["beside"]}
            bench.found[name] |= sizes


def cold(bench: Bench) -> None:
    """Measure the time from the start of a process to the list of a stored conversation."""
    for _ in range(FEW):
        imports: dict[str, float] = {}
        lists: dict[str, float] = {}
        wholes: dict[str, float] = {}

        def start(name: str) -> None:
            begun = time.perf_counter()
            with bench.running(name) as child:
                path = bench.path(name, f"grown{bench.plan.left}")
                lists[name] = child.ask("fresh", path=path, conversation=TALK)["list_s"]  # noqa: B023
                wholes[name] = time.perf_counter() - begun  # noqa: B023
                imports[name] = child.loaded["import_s"]  # noqa: B023

        bench.each("cold", start)
        keep(bench, "cold import", imports)
        keep(bench, "cold list", lists)
        keep(bench, "cold whole", wholes)


def interleaved(bench: Bench) -> None:
    """Time a turn of each of many conversations in turns, in seconds for an event."""
    plan = bench.plan
    for number in range(FEW):
        names = [name for name in bench.names if number == 0 or name in (*FLOORS, *OURS)]
        with ExitStack() as stack:
            field = Field(bench, stack, f"interleaved{number}", names)
            given: dict[str, Any] = {
                "conversations": plan.conversations,
                "turns": plan.each,
                "allowed_s": plan.allowed_s,
            }
            answers = field.ask("interleave", **given)
        keep(bench, "interleaved", {n: a["wall"] / a["events"] for n, a in answers.items()})
        for name, answer in answers.items():
            bench.found[name]["interleaved turns"] = answer["turns"]


def medians(answers: Answers) -> dict[str, float]:
    """Return the median seconds of a turn of each store."""
    return {name: median(answer["wall"]) for name, answer in answers.items()}


def keep(bench: Bench, what: str, seconds: dict[str, float]) -> None:
    """Keep a round: of each store its seconds, and those of the floors in the same round."""
    floors = [seconds.get(floor) for floor in FLOORS]
    for name, own in seconds.items():
        bench.found[name].setdefault(what, []).append([own, *floors])
    bench.save()


def ratio(found: dict[str, Any], what: str, floor: str) -> float | None:
    """Return the median ratio to a floor's seconds in the same round."""
    return middle(own / other for own, other in pairs(found, what, floor))


def against(found: dict[str, Any], what: str, floor: str) -> float | None:
    """Return the seconds of a floor, in the middle of the same rounds."""
    return middle(other for _, other in pairs(found, what, floor))


def pairs(found: dict[str, Any], what: str, floor: str) -> list[tuple[float, float]]:
    """Return the seconds of a store and of a floor, round by round."""
    beside = 1 + FLOORS.index(floor)
    return [(round[0], round[beside]) for round in found.get(what, []) if round[beside]]


def seconds(found: dict[str, Any], what: str) -> float | None:
    """Return the seconds, in the middle of all rounds."""
    return middle(round[0] for round in found.get(what, []))


def middle(numbers: Iterable[float]) -> float | None:
    """Return the median, if there is one."""
    series = list(numbers)
    return median(series) if series else None
