"""An event loop whose clock is virtual: where every task waits for a time, it is that time at once.

Retries, timeouts and pauses are tested by what comes of them, in the order in which they fall due. The loop
waits for real as long as something outside of it can still happen: while a thread works for it, or while it
listens to a socket or a pipe.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
GRACE_SECONDS = 0.001
"""A wait costs this much real time, in which threads that the loop does not know may wake it."""
LOOK_SECONDS = 0.05
"""The loop looks that often whether a thread still works."""
IDLE_THREADS = ("MainThread", "asyncio_", "stenolog", "execnet", "Dummy")
"""How names of threads begin that wait for work, which they get through the loop's executors."""
ITSELF = 1
"""The loop listens to its own pipe, by which threads wake it."""


def run(main: Coroutine[Any, Any, T], most: float) -> T:
    """Run a coroutine on a loop of virtual time. Raises `TimeoutError` after so many seconds of it."""

    async def within() -> T:
        async with asyncio.timeout(most):
            return await main

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(within())


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """`time` is the real time and what was skipped of it."""

    def __init__(self) -> None:
        self._skipped = 0.0
        self._in_threads = 0
        super().__init__(_Skipping(self))

    def time(self) -> float:
        return super().time() + self._skipped

    def skip(self, seconds: float) -> None:
        """Be that much later."""
        self._skipped += seconds

    def may_skip(self) -> bool:
        """Return whether all that can happen is that a time comes."""
        names = (thread.name for thread in threading.enumerate())
        return not self._in_threads and all(name.startswith(IDLE_THREADS) for name in names)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._in_threads += 1
        future.add_done_callback(self._returned)
        return future

    def _returned(self, _: object) -> None:
        self._in_threads -= 1


class _Skipping(selectors.DefaultSelector):
    """Skips a wait in which nothing but the time can end it."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        files: Mapping[Any, Any] = self.get_map()
        if not timeout or timeout <= GRACE_SECONDS or len(files) > ITSELF:
            return super().select(timeout)
        if not self._loop.may_skip():
            # A thread may end without waking the loop: one that an earlier test has left, say.
            return super().select(min(timeout, LOOK_SECONDS))
        found = super().select(GRACE_SECONDS)
        if not found:
            self._loop.skip(timeout - GRACE_SECONDS)
        return found
