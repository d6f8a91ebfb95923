"""`kill -9` of the five examples at instants all over their runs: each ends as it does when it is left alone.

    python -m benchmarks examples [--kills 40]

A run that nobody kills is timed first, and cut into as many equal spans as there are kills; each span has one
kill, at a random instant. Every third round kills the second start too, within what is left of the run.
`--kills` counts for each example.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import NamedTuple

from benchmarks._ratio import Row
from tests.examples.harness import asked, killed_after, outcome, paced

SEED = 1
EXAMPLES = ("crewagent", "neurocrew", "stakeholder_mail", "tenex", "worker_agent")
CHECKED = 10
"""Every so many rounds the log is verified too, with its requests."""
TWICE = 3
"""Every so many rounds the second start is killed, too."""
TRIES = 5
"""A run that has ended before its kill is begun anew, so often at most."""


class Story(NamedTuple):
    """The kills of an example, in how many rounds, and what was wrong after each."""

    kills: int
    rounds: int
    faults: list[str]


def run(kills: int = 40) -> Iterable[Row]:
    """Yield the rounds of each example that had another outcome, or did not end."""
    for name in EXAMPLES:
        story = happened(name, kills)
        for fault in story.faults:
            print(fault, file=sys.stderr)
        note = f"{story.kills} kills, {story.rounds} rounds"
        yield Row(f"examples: {name} killed, rounds with another outcome", len(story.faults), 0, "", note)


def happened(name: str, rounds: int) -> Story:
    """Kill an example once in each of so many equal spans of its run."""
    chance, hits, faults = Random(SEED), 0, list[str]()
    with tempfile.TemporaryDirectory() as place:
        whole = Path(place) / "whole"
        whole.mkdir()
        seconds = paced(name, whole)
        expected = outcome(name, whole / f"{name}.db")
        for number in range(rounds):
            folder, hit, fault = _round(name, Path(place), number, rounds, seconds, chance, expected)
            if not fault and number % CHECKED == 0:
                fault = asked("check", "log", "--requests", "--db", str(folder / f"{name}.db"))
            faults += [f"{name}, round {number}: {fault}"] if fault else []
            hits += hit
    return Story(hits, rounds, faults)


def _round(
    name: str, place: Path, number: int, rounds: int, seconds: float, chance: Random, expected: object
) -> tuple[Path, int, str]:
    """Kill it in one span of its run; the folder, the kills, and the fault (empty: none)."""
    for attempt in range(TRIES):
        folder = place / f"{number}-{attempt}"
        folder.mkdir()
        first = seconds * (number + chance.random()) / rounds
        again = [chance.uniform(0.05, max(0.1, seconds - first))] if number % TWICE == 0 else []
        try:
            hit = killed_after(name, folder, first, *again)
            found = outcome(name, folder / f"{name}.db")
        except AssertionError as error:
            return folder, 0, str(error)
        if found != expected:
            return folder, hit, f"expected {expected!r:.300}, found {found!r:.300}"
        if hit:
            return folder, hit, ""
        timed = folder / "timed"
        timed.mkdir()
        seconds = paced(name, timed)  # this machine is quicker now than when the whole run was timed
    return folder, 0, f"not killed in {TRIES} runs"
