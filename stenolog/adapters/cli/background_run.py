"""A team at work in an event loop of its own, and what Ctrl-C does meanwhile."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Protocol, TypeVar

from stenolog.adapters.engine.run_events import RunEvent
from stenolog.adapters.engine.team import Team
from stenolog.adapters.log import Conversation
from stenolog.domain.errors import IllegalCommandError
from stenolog.projections.prices import Prices

from .exits import Terminated

T = TypeVar("T")
TERMINATING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
TICK = 1.0
"""Seconds between two looks at the watch."""


class Watching(Protocol):
    """A listener that is notified of a run's events."""

    def begin(self, mine: str = "") -> None: ...
    def take(self, happened: RunEvent) -> None: ...
    def tick(self) -> None: ...
    def end(self, prices: Prices) -> None: ...


class BackgroundRun:
    """Runs a team on a conversation.

    Ctrl-C stops the run where it stands, and the next goes on from there. `cancels`: pressed once, it cancels
    what the agents do, and the log says so.
    """

    def __init__(self, team: Team, conversation: Conversation, watching: Watching, *, cancels: bool) -> None:
        self.team = team
        self.conversation = conversation
        self.watching = watching
        self.cancels = cancels
        self.stopped = False
        """True once Ctrl-C has stopped the run."""
        self._runner = asyncio.Runner()
        self._run: asyncio.Task[Any] | None = None
        self._is_terminated = False
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> BackgroundRun:
        for number in TERMINATING:
            with suppress(ValueError):  # signals are handled in the main thread alone
                if (handler := signal.getsignal(number)) is not signal.SIG_IGN:  # as under nohup
                    signal.signal(number, self._terminate)
                    self._handlers[number] = handler
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.do(self.team.close())
        finally:
            self._runner.close()
            for number, handler in self._handlers.items():
                signal.signal(number, handler)

    def _terminate(self, *_: object) -> None:
        """End in good order, once: stop a run where it stands, as the last Ctrl-C does."""
        if self._is_terminated:
            return
        self._is_terminated = True
        if self._run is None:
            raise Terminated
        self._run.get_loop().call_soon_threadsafe(self._run.cancel)

    def do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Do one thing in the event loop. Raises KeyboardInterrupt where it was stopped by Ctrl-C."""
        try:
            return self._runner.run(coroutine)
        except asyncio.CancelledError:
            self.stopped = True
            raise (Terminated if self._is_terminated else KeyboardInterrupt) from None

    def go(self, message: str | None = None, to: Iterable[str] = ()) -> None:
        """Say something, if anything is given, and go on until only a person can."""
        self.watching.begin(message or "")
        self.do(self._go(message, to))

    async def _go(self, message: str | None, to: Iterable[str]) -> None:
        self._run = asyncio.current_task()
        try:
            async with (
                _pressed(self._press),
                _ticking(self.watching.tick),
                aclosing(self.team.run(self.conversation, message, to=to)) as happenings,
            ):
                async for happened in happenings:
                    self.watching.take(happened)
        finally:
            self._run = None
            self.watching.end(self.team.options.prices)

    def _press(self, times: int, run: asyncio.Task[Any]) -> asyncio.Task[None] | None:
        if times == 1 and self.cancels:
            return asyncio.create_task(self._cancel())
        run.cancel()
        return None

    async def _cancel(self) -> None:
        with suppress(IllegalCommandError):  # everything has come to rest by now
            await self.team.cancel(self.conversation)


@asynccontextmanager
async def _pressed(
    press: Callable[[int, asyncio.Task[Any]], asyncio.Task[None] | None],
) -> AsyncIterator[None]:
    """Calls `press` at each Ctrl-C, with how often it was pressed."""
    loop, run = asyncio.get_running_loop(), asyncio.current_task()
    assert run is not None, "this is a task"
    presses: list[asyncio.Task[None] | None] = []
    try:
        loop.add_signal_handler(signal.SIGINT, lambda: presses.append(press(len(presses) + 1, run)))
    except (NotImplementedError, ValueError):  # no signals on this platform, or not in this thread
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        await asyncio.gather(*filter(None, presses))


@asynccontextmanager
async def _ticking(tick: Callable[[], None]) -> AsyncIterator[None]:
    """Calls `tick` every second."""

    async def ticks() -> None:
        while True:
            await asyncio.sleep(TICK)
            tick()

    task = asyncio.create_task(ticks())
    try:
        yield
    finally:
        task.cancel()
