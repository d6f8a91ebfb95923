"""Work that blocks, in a thread of its own that never keeps the process from ending."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T], name: str) -> T:
    """Run `work` in a thread and return its result or raise its error.

    Cancelling leaves the thread running: a thread cannot be stopped. There is no pool: hanging work would
    keep its place there, and the process from ending.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[T, None] | tuple[None, BaseException]] = loop.create_future()
    context = copy_context()

    def tell(result: tuple[T, None] | tuple[None, BaseException]) -> None:
        if not ended.done():
            ended.set_result(result)

    def run() -> None:
        result: tuple[T, None] | tuple[None, BaseException]
        try:
            result = context.run(work), None
        except BaseException as error:  # also SystemExit: it is told to who waits
            result = None, error
        with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            loop.call_soon_threadsafe(tell, result)

    threading.Thread(target=run, name=name, daemon=True).start()
    value, error = await ended
    if error is not None:
        raise error
    return value  # type: ignore[return-value]
