"""The queue that wakes workers, as a port: three methods.

A job is a wake-up and nothing else: the key of a conversation that has something new, and the name of a team.
The log alone says what is to be done, so a wake-up too many does no harm, and none may be lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeAlias

Advance: TypeAlias = Callable[[int], Coroutine[Any, Any, float | None]]
"""Runs the conversation of a key; returns the seconds after which it is to be woken again, None: it rests.

It raises nothing, and where it is stopped it returns 0.
"""


class Queue(Protocol):
    """Wakes the workers of a team. A conversation is given to one of its workers at a time."""

    names_teams: bool
    """True if a wake-up says which team it is for; else every worker is given every conversation."""

    def defer(self, key: int, team: str, within: Any) -> None:
        """Wake a worker; `within` is the connection of the transaction that appends what it is woken for."""

    async def work(self, team: str, advance: Advance, *, concurrency: int, stopping: asyncio.Event) -> None:
        """Take wake-ups, and `advance` their conversations, until `stopping` is set and all have ended."""

    async def janitor(self) -> int:
        """Wake others for what dead workers have left; return the number of these wake-ups."""
