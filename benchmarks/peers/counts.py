"""The counts: kills, two writers at once, a clock that is wrong, and what each store is."""

from __future__ import annotations

import random
import sqlite3
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.peers.bench import Bench
from benchmarks.peers.registry import OURS
from benchmarks.peers.running import PeerFailedError
from benchmarks.peers.workload import STEPS

TALK = "talk"
AHEAD_S = 3600.0
WRITERS = (1_000, 2_000)
"""Where the numbers of each writer's turns begin."""
MOST = 120
"""Turns that a process can run before it is killed."""


def run(bench: Bench) -> None:
    """Run all of them."""
    bench.side_by_side("about", lambda name: about(bench, name))
    bench.side_by_side("race", lambda name: race(bench, name))
    bench.side_by_side("clock", lambda name: clock(bench, name))
    bench.side_by_side("kills", lambda name: kills(bench, name))


def about(bench: Bench, name: str) -> None:
    """Record versions, and the durability of a turn by its own statements."""
    with bench.running(name) as child:
        found = child.ask("about") | child.ask("durability", path=bench.path(name, "durable"))
    bench.found[name]["about"] = found


def race(bench: Bench, name: str) -> None:
    """Run turns of one conversation in two processes at once."""
    count, path = bench.plan.race, bench.path(name, "race")
    with bench.running(name) as one, bench.running(name) as other:
        one.ask("open", path=path)
        one.ask("turns", conversation=TALK, first=1, count=1)
        other.ask("open", path=path)
        for child, first in zip((one, other), WRITERS, strict=True):
            child.tell("race", conversation=TALK, first=first, count=count)
        answers = [one.answer(), other.answer()]
    told = [id for answer in answers for id in answer["acknowledged"]]
    numbers = [1, *(first + number for first in WRITERS for number in range(count))]
    found = kept(bench, name, path, numbers)
    bench.found[name]["race"] = compared(told, found["ids"]) | {
        "broken": found["broken"],
        "refused": sum(len(answer["failed"]) for answer in answers),
        "turns": 2 * count,
        "errors": [error for answer in answers for error in answer["failed"][:1]],
    }


def clock(bench: Bench, name: str) -> None:
    """Write a turn in a process whose clock is an hour ahead, then two in processes with the right time."""
    path = bench.path(name, "clock")
    for number, ahead in ((1, AHEAD_S), (2, 0.0), (3, 0.0)):
        with bench.running(name, ahead) as child:
            child.ask("open", path=path)
            child.ask("turns", conversation=TALK, first=number, count=1)
            child.ask("close")
    found = kept(bench, name, path, [1, 2, 3])
    told = [id for number in (1, 2, 3) for id in ids(number)]
    bench.found[name]["clock"] = compared(told, found["ids"])


def kills(bench: Bench, name: str) -> None:
    """Kill a process (`kill -9`) at a random moment of a turn, again and again; a new file each time."""
    chance, tally = (
        random.Random(name),
        dict.fromkeys(("kills", "corrupt", "lost", "doubled", "reordered", "broken"), 0),
    )
    wanted = bench.plan.kills if name in OURS else bench.plan.other_kills
    with bench.running(name) as other:
        for number in range(wanted):
            path = bench.path(name, f"kill{number}")
            told = killed(bench, name, path, chance)
            tally["corrupt"] += integrity(path) != "ok"
            other.ask("open", path=path)
            found = other.ask("kept", conversation=TALK, turns=list(range(1, MOST + 1)))
            other.ask("close")
            tally["kills"] += 1
            tally["broken"] += found["broken"] > 0
            for what, many in compared(told, found["ids"]).items():
                tally[what] += many
            bench.found[name]["kills"] = dict(tally)
            for file in bench.data.glob(f"{name}-kill{number}.db*"):
                file.unlink()


def killed(bench: Bench, name: str, path: str, chance: random.Random) -> list[str]:
    """Return the ids that a process acknowledged before it was killed."""
    acks, wanted = Path(f"{path}.acks"), chance.randint(6, 30)
    with bench.running(name) as child:
        child.ask("open", path=path)
        child.tell("endless", conversation=TALK, acks=str(acks))
        deadline = time.monotonic() + 60
        while not acks.exists() or acks.read_bytes().count(b"\n") < wanted:
            if child.process.poll() is not None or time.monotonic() > deadline:
                raise PeerFailedError("it ended by itself, or wrote nothing for a minute")
            time.sleep(0.0005)
        time.sleep(chance.random() * 0.004)
        child.end(kill=True)
    return acks.read_text().split()


def kept(bench: Bench, name: str, path: str, turns: list[int]) -> dict[str, Any]:
    """Return the entries that a new process finds in a file."""
    with bench.running(name) as child:
        child.ask("open", path=path)
        return child.ask("kept", conversation=TALK, turns=turns)


def compared(told: list[str], found: list[str]) -> dict[str, int]:
    """Count acknowledged events that are lost, events that are doubled, and events in the wrong order."""
    seen = list(dict.fromkeys(found))
    order = [tuple(map(int, id.split("/")[1:])) for id in seen if id != "?"]
    writers = {turn // 1_000 for turn, _ in order}
    lines = [[place for place in order if place[0] // 1_000 == writer] for writer in writers]
    return {
        "lost": len(set(told) - set(seen)),
        "doubled": len(found) - len(seen),
        "reordered": sum(one > other for line in lines for one, other in pairwise(line)),
    }


def integrity(path: str) -> str:
    """Return SQLite's report on a file."""
    database = sqlite3.connect(path)
    try:
        return str(database.execute("PRAGMA integrity_check").fetchone()[0])
    finally:
        database.close()


def ids(number: int) -> list[str]:
    """Return the ids of a turn."""
    return [f"{TALK}/{number}/{step}" for step in range(STEPS)]
