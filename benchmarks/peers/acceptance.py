"""The limits that stenolog must keep to, as rows, and the measures that only these rows need."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from statistics import median
from typing import Any

from benchmarks._ratio import Row
from benchmarks.imports import cpu_s
from benchmarks.peers.bench import Bench
from benchmarks.peers.speed import TALK, against, ratio, seconds
from benchmarks.peers.workload import STEPS, content

Found = dict[str, Any]

FEW, MANY = 100, 4_000
"""Turns of the two conversations that are forked in the middle."""
FORKS = 15
"""Forks of each, and rounds of what takes turns."""
COLD, COLD_ROUNDS = 1_000, 9
"""Turns of the conversation that a new process opens, and how often."""
PAYLOAD, ENTRY = 1.3, 450
"""Bytes that may be stored: for a byte that is said, and for an entry."""
IMPORT = "import stenolog"
NEXT = """import stenolog; from stenolog.context import Budget
conversation = stenolog.open({path!r})["talk"]
conversation.request("assistant", api="openai-chat", policy=Budget(tokens=32_000))"""
OPENED = "a new process: open and the whole history, against floor"
NEXT_OF = f"a new process: the next request of {COLD * STEPS:,} entries, against the import alone"
SETTLED = "turn 1,200, settled, against floor_cached"
MANY_TALKS = "an event in many conversations, against floor"
HALF = "the list at the half of a conversation, against floor"
KNOWN = {
    "turn 10 against floor": 1.5,
    "turn 1,000 against floor_cached": 2.3,
    "turn 4,000 against floor_cached": 2.3,
    SETTLED: 3.7,
    MANY_TALKS: 2.2,
    HALF: 12,
    OPENED: 2.7,
}
"""The figures that decision 24 accepts, which has the reasons."""
WHY = "decision 24"
NOTHING = {
    "race": ("lost", "doubled", "reordered", "broken", "refused"),
    "clock": ("lost", "doubled", "reordered"),
    "kills": ("corrupt", "lost", "doubled", "reordered", "broken"),
}


def run(bench: Bench) -> None:
    """Run the measures that only these rows need, if stenolog takes part."""
    for name, work in (("stenolog_32k", growth), ("stenolog_32k", cold), ("stenolog", forks)):
        if name in bench.names:
            bench.each(work.__name__, lambda _, work=work: work(bench), [name])  # type: ignore[misc]


def growth(bench: Bench) -> None:
    """Measure turns under a budget in the middle of the first and the last tenth, alternating processes."""
    whole, block = bench.plan.growth // STEPS, bench.plan.block
    at = {"first": whole // 20, "last": whole - whole // 20}
    walls: dict[str, list[float]] = {which: [] for which in at}
    with ExitStack() as stack:
        children = {which: stack.enter_context(bench.running("stenolog_32k")) for which in at}
        for which, child in children.items():
            child.ask("open", path=bench.path("stenolog_32k", f"growth-{which}"))
            child.ask("turns", patience=3_600, conversation=TALK, first=1, count=at[which])
        for number in range(FORKS):
            for which, child in children.items():
                first = at[which] + 1 + number * block
                walls[which] += child.ask("turns", conversation=TALK, first=first, count=block)["wall"]
    times = {which: median(wall) for which, wall in walls.items()}
    bench.found["stenolog_32k"]["growth"] = {"entries": whole * STEPS, **times}


def cold(bench: Bench) -> None:
    """Measure the CPU of a process that builds the next request, and of one that only imports."""
    path = bench.path("stenolog_32k", "cold")
    with bench.running("stenolog_32k") as child:
        child.ask("open", path=path)
        child.ask("fill", conversation=TALK, turns=COLD)
        child.ask("turns", conversation=TALK, first=COLD + 1, count=1)
        child.ask("close")
    pairs = [(cpu_s(NEXT.format(path=path)), cpu_s(IMPORT)) for _ in range(COLD_ROUNDS)]
    ours, floor = (median(side) for side in zip(*pairs, strict=True))
    bench.found["stenolog_32k"]["next request"] = {"ours": ours, "import": floor}


def forks(bench: Bench) -> None:
    """Measure forks in the middle of a short and of a long conversation, and the rows that one adds."""
    seconds: dict[int, list[float]] = {FEW: [], MANY: []}
    with ExitStack() as stack:
        children = {}
        for turns in seconds:
            child = children[turns] = stack.enter_context(bench.running("stenolog"))
            child.ask("open", path=bench.path("stenolog", f"fork{turns}"))
            child.ask("fill", conversation=TALK, turns=turns)
        before = rows_of(bench, MANY)
        for number in range(FORKS):
            for turns, child in children.items():
                given: dict[str, Any] = {"turn": turns // 2, "name": f"fork{number}"}
                seconds[turns].append(child.ask("fork", conversation=TALK, **given)["fork_s"])
        added = rows_of(bench, MANY) - before
    few, many = median(seconds[FEW]), median(seconds[MANY])
    bench.found["stenolog"]["forks"] = {"few": few, "many": many, "entries": added / FORKS}


def rows_of(bench: Bench, turns: int) -> int:
    """Return the number of entries in the file."""
    database = sqlite3.connect(bench.path("stenolog", f"fork{turns}"))
    try:
        return int(database.execute("SELECT count(*) FROM stored_events").fetchone()[0])
    finally:
        database.close()


def rows(found: dict[str, Found]) -> Iterator[Row]:
    """Yield the measures against their limits; an unmeasured one has no row."""
    for row in limited(found):
        yield row._replace(known=KNOWN[row.name], why=WHY) if row.name in KNOWN else row


def limited(found: dict[str, Found]) -> Iterator[Row]:
    """Yield the rows, each with its figures."""
    ours, bounded = found.get("stenolog", {}), found.get("stenolog_32k", {})
    yield from turn_rows(ours)
    yield from budget_rows(bounded)
    yield from size_rows(ours)
    yield from timed(OPENED, ours, "cold list", "floor", 1.2)
    yield from timed(MANY_TALKS, ours, "interleaved", "floor", 1)
    yield from timed(HALF, ours, "state at the half", "floor", 3)
    for name, store in (("stenolog", ours), ("stenolog, 32,000 tokens", bounded)):
        yield from count_rows(name, store)


def turn_rows(ours: Found) -> Iterator[Row]:
    """Yield the cost of a turn against those of the floors."""
    for length, floor, limit in (
        (10, "floor", 1.3),
        (1_000, "floor_cached", 1.5),
        (4_000, "floor_cached", 1.5),
    ):
        yield from timed(f"turn {length:,} against {floor}", ours, f"turn {length}", floor, limit)
    yield from timed(SETTLED, ours, "turn settled", "floor_cached", 2)


def timed(name: str, ours: Found, what: str, floor: str, limit: float) -> Iterator[Row]:
    """Yield a row for the ratios to a floor within each round; its note has both medians."""
    value, own, other = ratio(ours, what, floor), seconds(ours, what), against(ours, what, floor)
    if value and own and other:
        yield Row(name, value, limit, note=f"{own * 1e3:.2f} against {other * 1e3:.2f} ms")


def budget_rows(bounded: Found) -> Iterator[Row]:
    """Yield the measures that must not grow, and that of a new process, under a budget."""
    if grown := bounded.get("growth"):
        note = f"{grown['last'] * 1e3:.2f} against {grown['first'] * 1e3:.2f} ms"
        name = f"turns under 32,000 tokens, the last tenth of {grown['entries']:,} entries against the first"
        yield Row(name, grown["last"] / grown["first"], 1.2, note=note)
    if next_ := bounded.get("next request"):
        note = f"{next_['ours'] * 1e3:.0f} against {next_['import'] * 1e3:.0f} ms of CPU"
        yield Row(NEXT_OF, next_["ours"] / next_["import"], 1.5, note=note)


def size_rows(ours: Found) -> Iterator[Row]:
    """Measure the bytes on disk, and those that a fork adds."""
    for alphabet in ("latin", "cyrillic"):
        if stored := ours.get(f"bytes {alphabet}"):
            turns = ours["short"]
            most = PAYLOAD * content(TALK, turns, alphabet) + ENTRY * (1 + turns * STEPS)
            name = f"bytes, {alphabet}, against {PAYLOAD} of what is said and {ENTRY} an entry"
            yield Row(name, stored / most, 1.0, note=f"{stored:,} bytes")
    if forked := ours.get("forks"):
        note = f"{forked['many'] * 1e3:.2f} against {forked['few'] * 1e3:.2f} ms"
        yield Row("entries that a fork in the middle adds", forked["entries"], 1, "")
        yield Row(
            f"a fork in the middle of {MANY:,} turns against {FEW}",
            forked["many"] / forked["few"],
            1.5,
            note=note,
        )


def count_rows(name: str, store: Found) -> Iterator[Row]:
    """Yield the counts of faults, each of which must be 0."""
    for measure, kinds in NOTHING.items():
        if counted := store.get(measure):
            faults = {kind: counted[kind] for kind in kinds if counted[kind]}
            of = f"{counted['kills']} kills" if measure == "kills" else ""
            note = ", ".join([*(f"{many} {kind}" for kind, many in faults.items()), *([of] if of else [])])
            yield Row(f"{name}: faults of {measure}", sum(faults.values()), 0, "", note)
