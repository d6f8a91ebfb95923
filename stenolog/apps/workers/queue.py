"""Port of the queue that wakes workers.

A job is only a wake-up: the key of a conversation with news, and a team's name. The log says what is to be
done, so an extra wake-up does no harm, but none may be lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeAlias

Advance: TypeAlias = Callable[[int], Coroutine[Any, Any, float | None]]
"""Runs the conversation of a key; returns the seconds after which it is to be woken again, None: it rests. It
raises nothing, and if it is stopped it returns 0."""


class Queue(Protocol):
    """Waker of a team's workers. A conversation has one worker at a time."""

    names_teams: bool
    """True if a wake-up says which team it is for; else every worker is given every conversation."""

    def defer(self, key: int, team: str, within: Any) -> None:
        """Wake a worker; `within` is the connection of the transaction that appends the cause."""

    async def work(self, team: str, advance: Advance, *, concurrency: int, stopping: asyncio.Event) -> None:
        """Handle wake-ups by `advance` until `stopping` is set and all have ended."""

    async def janitor(self) -> int:
        """Wake others for dead workers' jobs; return their number."""
