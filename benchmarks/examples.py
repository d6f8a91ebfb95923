"""`kill -9` of the five examples at random instants: each ends as it does when it is left alone.

    python -m benchmarks examples [--kills 60]

Each round kills one to three times, then lets the example come to its end. `--kills` counts for each example.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import NamedTuple

from benchmarks._ratio import Row
from tests.examples.harness import asked, finished, killed, outcome

SEED = 1
EXAMPLES = ("crewagent", "neurocrew", "stakeholder_mail", "tenex", "worker_agent")
CHECKED = 10
"""Every so many rounds the log is verified too, with its requests."""


class Story(NamedTuple):
    """The kills of an example, in how many rounds, and what was wrong after each."""

    kills: int
    rounds: int
    faults: list[str]


def run(kills: int = 60) -> Iterable[Row]:
    """Yield the rounds of each example that had another outcome, or did not end."""
    for name in EXAMPLES:
        story = happened(name, kills)
        for fault in story.faults:
            print(fault, file=sys.stderr)
        note = f"{story.kills} kills, {story.rounds} rounds"
        yield Row(f"examples: {name} killed, rounds with another outcome", len(story.faults), 0, "", note)


def happened(name: str, kills: int) -> Story:
    """Kill an example so often, over as many rounds as that takes."""
    chance, done, rounds, faults = Random(SEED), 0, 0, list[str]()
    with tempfile.TemporaryDirectory() as place:
        whole = Path(place) / "whole"
        whole.mkdir()
        begun = time.monotonic()
        expected = outcome(name, finished(name, whole))
        seconds = time.monotonic() - begun
        while done < kills:
            rounds, number = rounds + 1, min(chance.choice((1, 1, 2, 3)), kills - done)
            folder = Path(place) / f"{rounds}"
            folder.mkdir()
            fault = _fault(name, folder, number, seconds, chance.randrange(2**32), expected)
            if not fault and rounds % CHECKED == 0:
                path = next(folder.rglob(f"{name}.db"))
                fault = asked("check", "log", "--requests", "--strict", "--db", str(path))
            faults += [f"{name}, round {rounds}: {fault}"] if fault else []
            done += number
    return Story(done, rounds, faults)


def _fault(name: str, folder: Path, number: int, seconds: float, seed: int, expected: object) -> str:
    """Return the fault after so many kills at any time of the whole run; empty if there is none."""
    try:
        found = outcome(name, killed(name, folder, kills=number, seed=seed, most=seconds))
    except AssertionError as error:
        return str(error)
    return "" if found == expected else f"expected {expected!r:.300}, found {found!r:.300}"
