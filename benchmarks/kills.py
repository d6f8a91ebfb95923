"""`kill -9` of a program of agents, again and again, and eight writers at once: what is lost, or done twice.

    python -m benchmarks kills [--kills 300]

Each kill falls at a random moment into the work of nine lanes in three conversations.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks._ratio import Row
from tests.engine import together
from tests.engine.killing import KEPT, Story, killed, told
from tests.engine.workload import Files, lines

SEED = 1
RUNS = 50
"""How often eight writers write at once."""
WRONG = {
    "entry": "acknowledged entries lost or changed",
    "twice": "calls run twice that may not be repeated",
    "once": "calls that no kill fell into and that did not run just once",
    "result": "calls without one result",
    "call": "calls run that stand in no answer",
    "repeat": "calls that may be repeated and were not, or too often",
    "key": "calls repeated under another key",
    "model": "model calls repeated beyond those in flight",
    "finished": "lanes that did not come to their end",
    "verify": "faults of the log, or requests that cannot be proved",
    "request": "faults of the requests of every prefix",
}


def run(kills: int = 300) -> Iterable[Row]:
    """Count the broken promises, with the number of checks in the note."""
    yield from rows(happened(kills, processes=1))
    pair = happened(kills // 3, processes=2)
    note = counted(pair, "kills", "entries", "calls that may not be repeated", "calls repeated")
    yield Row("kills of one of two processes: faults of any kind", len(pair.faults), 0, "", note)
    yield writers()


def happened(kills: int, processes: int) -> Story:
    """Run a workload in so many processes, kill it, and print its faults on standard error."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = killed(folder, kills, SEED, processes)
        story = told(folder, made, every=max(1, kills // 30), shared=processes > 1)
    for fault in story.faults:
        print(fault, file=sys.stderr)
    return story


def rows(story: Story) -> Iterator[Row]:
    """Yield a row for each promise."""
    notes = {
        "entry": counted(story, "entries acknowledged", "kills", "kills with effects in flight"),
        "twice": counted(story, "calls that may not be repeated", "calls whose outcome is unknown"),
        "repeat": counted(story, "calls that may be repeated", "calls repeated"),
        "model": counted(
            story, "model calls", "model calls repeated", "model calls in flight at a kill",
            "model calls that failed by script",
        ),
        "finished": counted(story, "entries"),
        "request": counted(story, "requests of prefixes"),
    }  # fmt: skip
    for kind, what in WRONG.items():
        yield Row(f"kills: {what}", len(story.wrong(kind)), 0, "", notes.get(kind, ""))
    older = counted(story, "pieces streamed", "pieces older than 250 ms when their process was killed")
    yield Row(
        "kills: pieces lost that had been told more than 250 ms before",
        len(story.wrong("piece")),
        0,
        "",
        older,
    )
    younger = counted(story, "pieces lost that were younger")
    yield Row(
        "kills: how long before a lost piece was told, at most",
        story.oldest_lost * 1e3,
        KEPT * 1e3,
        "ms",
        younger,
    )


def counted(story: Story, *names: str) -> str:
    """Return the counts in words."""
    return ", ".join(f"{story.counts[name]:,} {name}" for name in names)


def writers() -> Row:
    """Write into one conversation on eight lanes at once."""
    with tempfile.TemporaryDirectory() as folder:
        together.write(folder, RUNS)
        lost = together.lost_words(Files(Path(folder)))
        written = len(lines(Files(Path(folder)).pieces))
    note = f"{written} texts in {RUNS} runs"
    return Row("writers: texts of eight at once that are lost or mixed", len(lost), 0, "", note)
