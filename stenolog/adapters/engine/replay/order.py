"""Order in which a replay gives recorded answers and results."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from threading import Lock
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
    """Order of recorded answers and results, and the positions that were `said` from outside.

    Each has its turn once those before it are appended. Threads may share it.
    """

    def __init__(self, places: Iterable[ReplayPoint], said: Sequence[int]) -> None:
        self._left = {each.position: each for each in sorted(places, key=lambda each: each.after)}
        self._said = said
        self._expected: set[tuple[str, str]] = set()
        self._asked: set[int] = set()
        self._appended: dict[int, int] = {}
        self._waiting: list[Callable[[], object]] = []
        self._lock = Lock()

    def expect(self, agent: str, tools: Iterable[str]) -> None:
        """Expect an agent with these tools; recordings of other agents are ignored."""
        self._expected.update((agent, name) for name in ("", *tools))

    def request_seen(self, position: int) -> None:
        """Note that the request of this answer was seen."""
        with self._lock:
            self._asked.add(position)
            self._wake()

    def appended(self, position: int, at: int) -> None:
        """Note that what was recorded at `position` is being appended at `at`: what follows may be given."""
        with self._lock:
            self._left.pop(position, None)
            self._appended[position] = at
            self._wake()

    async def turn(self, position: int, seen: int) -> None:
        """Wait until the answer at `position`, made after `seen`, may be given."""
        await self._wait_while(lambda: self._is_early(position, seen))

    async def reached(self, view: int, at: int) -> bool:
        """Return whether all up to the position `view` was there at `at`; if not, wait until it is there."""
        if await self._wait_while(lambda: self._is_missing_until(view)):
            return False
        with self._lock:
            return all(now <= at for position, now in self._appended.items() if position <= view)

    async def _wait_while(self, holds: Callable[[], bool]) -> bool:
        """Wait until it does not hold; return whether that was worth it."""
        waited = False
        while (changed := self._next_change(holds)) is not None:
            try:
                await asyncio.wait_for(changed.wait(), PATIENCE)
            except TimeoutError:
                return False
            waited = True
        return waited

    def _next_change(self, holds: Callable[[], bool]) -> asyncio.Event | None:
        """Return an event that is set when something changes; None if it does not hold now."""
        with self._lock:
            if not holds():
                return None
            # One for each wait, since a recording may be used in several event loops.
            changed = asyncio.Event()
            loop = asyncio.get_running_loop()
            self._waiting.append(partial(loop.call_soon_threadsafe, changed.set))
            return changed

    def _wake(self) -> None:
        for wake in self._waiting:
            with suppress(RuntimeError):  # its loop is closed, and nobody waits any more
                wake()
        self._waiting.clear()

    def _is_missing_until(self, view: int) -> bool:
        return any(
            place.position <= view and (place.agent, place.tool) in self._expected
            for place in self._left.values()
        )

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
