"""Thread in which a runner makes all calls that touch the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class LogThread:
    """One thread for the log: the journal needs no lock, and a slow disk stops no stream."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="stenolog-run")

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Call a function in the thread, to its end even if the caller is cancelled."""
        called = asyncio.get_running_loop().run_in_executor(self._pool, partial(function, *args, **kwargs))
        # Shielded: an effect whose end is not appended would keep its claim.
        return asyncio.shield(called)

    async def close(self, last: Callable[[], None]) -> None:
        """Call `last` after all other calls, and end the thread."""
        # Begun before anything is awaited, so that it is done though this caller may be cancelled.
        done = asyncio.get_running_loop().run_in_executor(self._pool, last)
        self._pool.shutdown(wait=False)
        await asyncio.shield(done)
