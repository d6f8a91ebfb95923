"""The same work for many jobs, side by side on all processors, counted together."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import TypeVar

T = TypeVar("T")
SHOWN = 10


@dataclass
class Found:
    """The counts by name, and the faults that were found, a line each."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def add(self, other: Found) -> None:
        """Take another's counts and faults in."""
        self.counts += other.counts
        self.faults += other.faults

    def wrong(self, what: str) -> int:
        """Return the number of faults of a kind, which they begin with."""
        return sum(fault.startswith(what) for fault in self.faults)


def together(work: Callable[[T], Found], jobs: Iterable[T]) -> Found:
    """Return the results of all jobs, and print the first faults of each kind on standard error.

    `work` is a function of a module.
    """
    whole = Found()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(work, jobs):
            whole.add(found)
    for _, faults in groupby(sorted(whole.faults), lambda fault: fault.split(" ")[0]):
        for fault in islice(faults, SHOWN):
            print(fault, file=sys.stderr)
    return whole
