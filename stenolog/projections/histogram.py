"""Histogram of numbers in little memory: a count for each of some 200 ranges.

Each range is a tenth wider than the one before, and a number stands for the middle of its range: what is read
off is at most 5 % from the true number (up to 20 it is exact). Whole numbers make it the same everywhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

LARGEST = 86_400_000
"""A day in milliseconds; what is longer counts as this."""


def _bounds() -> Iterator[int]:
    bound = 0
    while True:
        yield bound
        bound = max(bound + 1, bound * 11 // 10)


BOUNDS = tuple(takewhile(lambda bound: bound <= LARGEST, _bounds()))
"""Lower bounds of the ranges."""


class Histogram(NamedTuple):
    """Count of numbers in each range, by the range's place in `BOUNDS`."""

    counts: dict[int, int] = {}  # noqa: RUF012 - never changed in place; `add` makes a new one

    def add(self, number: int) -> Histogram:
        """The histogram with one more number; one below 0 counts as 0."""
        place = bisect_right(BOUNDS, max(0, number)) - 1
        return Histogram({**self.counts, place: self.counts.get(place, 0) + 1})

    def plus(self, other: Histogram) -> Histogram:
        """Both together."""
        places = self.counts.keys() | other.counts.keys()
        return Histogram({at: self.counts.get(at, 0) + other.counts.get(at, 0) for at in sorted(places)})

    def percentile(self, percent: int) -> int | None:
        """The number that so many of a hundred do not exceed; None where there is none."""
        rank = -(-sum(self.counts.values()) * percent // 100)
        for place, count in sorted(self.counts.items()):
            rank -= count
            if rank <= 0:
                return _middle(place)
        return None


def _middle(place: int) -> int:
    end = BOUNDS[place + 1] - 1 if place + 1 < len(BOUNDS) else BOUNDS[place]
    return (BOUNDS[place] + end) // 2
