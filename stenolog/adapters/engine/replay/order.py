"""Order in which a replay gives recorded answers and results."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

# A run that does something else than the recording must not wait for ever.
PATIENCE = 1.0
"""Seconds without anything new after which an early answer is given all the same."""


class ReplayPoint(NamedTuple):
    """Position of a recorded answer, or of a result, which has a `tool`.

    `after` is the position that came before it: for an answer, that of its request.
    """

    position: int
    after: int
    agent: str
    tool: str = ""


class ReplayOrder:
    """Order of recorded answers and results, and the positions that were `said` from outside."""

    def __init__(self, places: Iterable[ReplayPoint], said: Sequence[int]) -> None:
        self._left = {each.position: each for each in sorted(places, key=lambda each: each.after)}
        self._said = said
        self._expected: set[tuple[str, str]] = set()
        self._asked: set[int] = set()
        self._waiting: list[asyncio.Event] = []

    def expect(self, agent: str, tools: Iterable[str]) -> None:
        """Expect an agent with these tools; recordings of other agents are ignored."""
        self._expected.update((agent, name) for name in ("", *tools))

    def request_seen(self, position: int) -> None:
        """Note that the request of this answer was seen."""
        self._asked.add(position)
        self._wake()

    async def turn(self, position: int, seen: int) -> None:
        """Wait until the answer at `position`, made after `seen`, may be given."""
        while self._is_early(position, seen):
            # One for each wait, since a recording may be used in several event loops.
            changed = asyncio.Event()
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

    def _is_early(self, position: int, seen: int) -> bool:
        until = bisect_right(self._said, seen)
        # What a person said later may never be said in the replay, so nothing waits for what followed it.
        unheard = self._said[until] if until < len(self._said) else position
        for place in self._left.values():
            if place.after >= min(position, unheard):
                return False
            is_missing = place.position < position or not (place.tool or place.position in self._asked)
            if is_missing and place.position != position and (place.agent, place.tool) in self._expected:
                return True
        return False
