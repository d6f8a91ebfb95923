"""Decisions: whatever is left to chance in a simulation, each with a name, drawn from the seed and its name.

Since a name says where a decision stands ("p1.commit#7"), it is the same decision when others are left out:
that is what lets a failing run be made short.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b

SCALE = 1 << 32


class Decisions:
    """Decisions as numbers: 0 is the plain course of things, everything else is an event worth telling.

    `given` has all that are not 0, by their names; without it they are drawn. `taken` has those that were.
    """

    def __init__(self, seed: int, given: Mapping[str, int] | None = None) -> None:
        self.seed = seed
        self.taken: dict[str, int] = {}
        self._given = given
        self._asked: Counter[str] = Counter()

    def choose(self, what: str, odds: float, most: int = 1) -> int:
        """Return 0, or with these odds a number from 1 to `most`."""
        self._asked[what] += 1
        name = f"{what}#{self._asked[what]}"
        if self._given is not None:
            value = min(most, self._given.get(name, 0))
        else:
            drawn = int.from_bytes(blake2b(f"{self.seed}/{name}".encode(), digest_size=8).digest())
            value = 1 + (drawn // SCALE) % most if drawn % SCALE < odds * SCALE else 0
        if value:
            self.taken[name] = value
        return value
