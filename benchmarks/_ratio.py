"""Rows of a benchmark, and comparisons of two ways of doing the same in one run."""

from __future__ import annotations

import compileall
import gc
import math
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

import stenolog


class Row(NamedTuple):
    """One measured figure and the limit it must not pass. `unit` "x" is a ratio to the floor.

    A decision accepts figures up to `known` though they are over the limit; `why` names it and its reason.
    """

    name: str
    value: float
    limit: float
    unit: str = "x"
    note: str = ""
    known: float = 0.0
    why: str = ""

    @property
    def ok(self) -> bool:
        return self.value <= self.limit

    @property
    def is_missed(self) -> bool:
        """True if the figure is over its limit, and over what a decision accepts."""
        return self.value > max(self.limit, self.known)

    def line(self) -> str:
        """Return the row as it is printed."""
        value, limit = (
            "-" if number == math.inf else f"{number:.4g} {self.unit}" for number in (self.value, self.limit)
        )
        found = "ok" if self.ok else "MISS" if self.is_missed else "adr"
        note = "; ".join(filter(None, (self.note, "" if self.ok else self.why)))
        return f"{found:4} {value:>10} {limit:>10}  {self.name}{f' ({note})' if note else ''}"


def accepted(row: Row, known: float) -> Row:
    """Return a row that decision 25 accepts up to a figure."""
    return row._replace(known=known, why="decision 25")


def compiled() -> None:
    """Compile the package, as pip and the first import do: what is measured is not the compiler."""
    compileall.compile_dir(Path(stenolog.__file__).parent, quiet=1)


def seconds(work: Callable[[], object]) -> float:
    """Return the seconds of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compared(ours: Callable[[], object], floor: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Return median seconds of `ours` and `floor`, called in turns so that both meet the same noise."""
    ours(), floor()
    times: tuple[list[float], list[float]] = ([], [])
    gc.collect()
    gc.disable()
    try:
        for number in range(rounds):
            pair = ((ours, 0), (floor, 1)) if number % 2 else ((floor, 1), (ours, 0))
            for work, which in pair:
                times[which].append(seconds(work))
    finally:
        gc.enable()
    return median(times[0]), median(times[1])


def least(ours: Callable[[], object], floor: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Return the least seconds of CPU of `ours` and `floor`, called in turns, for work that never waits."""
    pairs = [(cpu_seconds(ours), cpu_seconds(floor)) for _ in range(rounds)]
    return min(one for one, _ in pairs), min(other for _, other in pairs)


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the seconds of CPU of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start
