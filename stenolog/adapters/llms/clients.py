"""The HTTP clients of a model: one for each event loop, to which its connections belong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

C = TypeVar("C")


class Clients(Generic[C]):
    """Makes a client when one is first asked for in an event loop, and closes it.

    It is closed by `close` in that loop, and otherwise when the loop ends: a loop closes its asynchronous
    generators before it goes, and the client lives in one.
    """

    def __init__(self, make: Callable[[], C], shut: Callable[[C], Awaitable[None]]) -> None:
        self._make = make
        self._shut = shut
        self._kept: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[AsyncGenerator[C, None], C]]
        self._kept = WeakKeyDictionary()

    async def get(self) -> C:
        """The client of the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._kept:
            living = self._live(loop)
            self._kept[loop] = living, await anext(living)
        return self._kept[loop][1]

    async def close(self) -> None:
        """Close the running loop's client; the next that is asked for is a new one."""
        living, _ = self._kept.get(asyncio.get_running_loop(), (None, None))
        if living is not None:
            await living.aclose()

    async def _live(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[C, None]:
        client = self._make()
        try:
            yield client
        finally:
            del self._kept[loop]
            await self._shut(client)
