"""Decisions: every choice that a simulation leaves to chance, drawn from the seed and the choice's name.

The name says where the choice stands ("p1.0.commit.killed#7"). So it stays the same choice when others are
left out, which is what makes a failing run short.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b

SCALE = 1 << 32


class Decisions:
    """Decisions as numbers: 0 is the plain course of things, any other number is a fault or a turn of events.

    `given` has the decisions other than 0 by name; None: draw them. `taken` has those that were taken.
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
