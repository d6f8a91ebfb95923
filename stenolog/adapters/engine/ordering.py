"""When an answer from a recording is given: in the order in which they came, for who asks next hears them all.

An answer waits for those recorded before it, and for the requests that were made before it was there. What
a person has said since its own request it waits for not at all, since that may not be said this time.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

PATIENCE = 1.0
"""Seconds without anything new after which an answer is given although it is early."""


class Place(NamedTuple):
    """Where an answer stands, and the position that its request was made at."""

    position: int
    view: int
    agent: str


class Ordering:
    """The places of recorded answers, and the positions of what was `said` from outside.

    `agents` are those that take part; the answers of others nobody will ask for.
    """

    def __init__(self, places: Iterable[Place], said: Sequence[int]) -> None:
        self.agents: set[str] = set()
        self._left = {each.position: each for each in sorted(places, key=lambda each: each.view)}
        self._said = said
        self._asked: set[int] = set()
        self._waiting: list[asyncio.Event] = []

    def asked(self, position: int) -> None:
        """The request is there that this answers."""
        self._asked.add(position)
        self._wake()

    async def turn(self, position: int, view: int) -> None:
        """Wait until it is the turn of what was recorded there, and came of what stood at `view`."""
        while self._is_early(position, view):
            changed = asyncio.Event()  # one for each wait: a recording may be used in several event loops
            self._waiting.append(changed)
            try:
                await asyncio.wait_for(changed.wait(), PATIENCE)
            except TimeoutError:
                break
        self._left.pop(position, None)
        self._wake()

    def _wake(self) -> None:
        for changed in self._waiting:
            changed.set()
        self._waiting.clear()

    def _is_early(self, position: int, view: int) -> bool:
        until = bisect_right(self._said, view)
        heard = self._said[until] if until < len(self._said) else position
        for place in self._left.values():
            if place.view >= min(position, heard):
                return False
            is_missing = place.position < position or place.position not in self._asked
            if is_missing and place.position != position and place.agent in self.agents:
                return True
        return False
