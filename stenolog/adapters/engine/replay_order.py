"""Order of replayed answers: as they were recorded, because later requests include earlier answers.

An answer waits for those recorded before it, and for the requests that were made before it was there. It does
not wait for one that needs a person's later message, which may never come in a replay.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

PATIENCE = 1.0
"""Seconds without anything new after which what is early is given all the same."""


class ReplayPoint(NamedTuple):
    """Position of a recorded answer, or of a result, which has a `tool`.

    `after` is the position that had to be there for it: for an answer, the one of its request.
    """

    position: int
    after: int
    agent: str
    tool: str = ""


class ReplayOrder:
    """The places of what was recorded, and the positions of what was `said` from outside."""

    def __init__(self, places: Iterable[ReplayPoint], said: Sequence[int]) -> None:
        self._left = {each.position: each for each in sorted(places, key=lambda each: each.after)}
        self._said = said
        self._expected: set[tuple[str, str]] = set()
        self._asked: set[int] = set()
        self._waiting: list[asyncio.Event] = []

    def expect(self, agent: str, tools: Iterable[str]) -> None:
        """This agent takes part, with these tools; what was recorded of others nobody will ask for."""
        self._expected.update((agent, name) for name in ("", *tools))

    def request_seen(self, position: int) -> None:
        """The request is there that this answers."""
        self._asked.add(position)
        self._wake()

    async def turn(self, position: int, seen: int) -> None:
        """Wait until it is the turn of what was recorded there, by one who had `seen` so far."""
        while self._is_early(position, seen):
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

    def _is_early(self, position: int, seen: int) -> bool:
        until = bisect_right(self._said, seen)
        unheard = self._said[until] if until < len(self._said) else position
        for place in self._left.values():
            if place.after >= min(position, unheard):
                return False
            is_missing = place.position < position or not (place.tool or place.position in self._asked)
            if is_missing and place.position != position and (place.agent, place.tool) in self._expected:
                return True
        return False
