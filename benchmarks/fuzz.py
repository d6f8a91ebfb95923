"""Random histories, however damaged: every request is valid, told in full, and the same when built again.

    python -m benchmarks fuzz [--seeds 20000]

Each history under a policy that its seed chooses, on four APIs, at its end and at one position before.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from random import Random

from benchmarks._pool import Found, together
from benchmarks._ratio import Row
from stenolog import Entry
from stenolog.projections.requests import lanes
from stenolog.projections.requests.incremental.series import from_window, window, windows
from stenolog.projections.requests.incremental.window import Window
from stenolog.projections.requests.sendable import takes_part
from tests.requests.histories import BLOBS, at_work, crowded, history
from tests.requests.judging import HERE, MODELS, faults
from tests.requests.lossless import unaccounted
from tests.requests.policies import SMALL
from tests.requests.sizes import oversize, uneven
from tests.requests.stages import summary_laws

STRETCH = 250
"""Histories a job."""


def run(seeds: int = 20_000) -> Iterable[Row]:
    """Count the faults by the check that found them."""
    begun = time.perf_counter()
    stretches = [range(first, min(first + STRETCH, seeds)) for first in range(0, seeds, STRETCH)]
    laws = together(summarised, stretches)
    note = f"{seeds:,} histories of several agents in {time.perf_counter() - begun:.0f} s"
    yield Row("fuzz: entries hidden by a summary that may not hide them", laws.wrong("summary"), 0, "", note)
    if not HERE:
        return
    begun = time.perf_counter()
    found = together(tried, stretches)
    note = (
        f"{found.counts['requests']:,} requests of {seeds:,} histories under {len(SMALL)} policies "
        f"in {time.perf_counter() - begun:.0f} s"
    )
    for what, name in FAULTS.items():
        yield Row(f"fuzz: {name}", found.wrong(what), 0, "", note)


FAULTS = {
    "judge": "errors found by the judges",
    "law": "violations of the laws",
    "budget": "sendable requests over budget",
    "size": "sizes that differ between APIs by more than framing, or exceed the budget though sendable",
    "again": "requests built again from the log, or from a mark, with other bytes",
    "entry": "entries neither shown nor left out by a rule",
    "words": "words and calls that are said to be shown and are not",
}


def summarised(seeds: Iterable[int]) -> Found:
    """Return where requests of random teams break the laws of summaries."""
    found = Found()
    for seed in seeds:
        found.faults += summary_laws.faults(seed)
    return found


def tried(seeds: Iterable[int]) -> Found:
    """Return the faults of the requests of some histories."""
    found = Found()
    for seed in seeds:
        random, entries = Random(seed), (history, crowded, history, at_work)[seed % 4](seed)
        name = random.choice(list(SMALL))
        positions = {len(entries), random.randint(1, len(entries))}
        for lane in lanes(entries):
            for made in windows(entries, lane, SMALL[name]):
                if made.position in positions and made.state.blocked is None and takes_part(made):
                    where = f"(seed {seed}, {name}, {lane.address}@{made.position}, "
                    found.faults += (f"{fault} {where}*)" for fault in _uneven(made))
                    for api in MODELS:
                        found.counts["requests"] += 1
                        found.faults += (f"{fault} {where}{api})" for fault in _faults(made, api, entries))
    return found


def _faults(made: Window, api: str, entries: list[Entry]) -> Iterator[str]:
    request = from_window(made, api, BLOBS)
    yield from faults(api, request)
    for how, again in (("from the log", afresh(made, entries)), ("from a mark", taken_up(made, entries))):
        if from_window(again, api, BLOBS).bytes != request.bytes:
            yield f"again: other bytes {how}"
    yield from unaccounted(entries[: made.position], request)
    yield from oversize(request)


def _uneven(made: Window) -> Iterator[str]:
    return uneven({api: from_window(made, api, BLOBS) for api in MODELS})


def afresh(made: Window, entries: list[Entry]) -> Window:
    """Return the window folded once more from the first entry on."""
    return window(made.lane, made.policy, entries[: made.position], made.counter)


def taken_up(made: Window, entries: list[Entry]) -> Window:
    """Return the window rebuilt from its own mark, with no entries but those that the mark names."""
    mark = made.snapshot
    held = {position for first, last in mark.rows for position in range(first, last + 1)}
    return Window(made.lane, made.policy, made.counter, mark, [e for e in entries if e.position in held])
