"""An event loop in one thread for many processes, with a virtual clock and one heap of pending steps.

A call that a process makes in a thread is a job here, and runs at its time. A process can be held up in the
middle of a job, as by SIGSTOP: the loop then runs the steps of the others. Steps of dead processes are
dropped.
"""

from __future__ import annotations

import asyncio
import heapq
import sys
from asyncio import events
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import Context, ContextVar, copy_context
from functools import partial
from itertools import count
from typing import Any, Protocol, TypeVar, TypeVarTuple

MOST = 3_000_000
"""Steps of a whole run, and more than a runner needs that looks four times a second for another."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
STEP = 1e-5
"""Seconds of virtual time that a step takes."""


class BusyLoopError(RuntimeError):
    """A run did not come to rest: somebody does without end what changes nothing."""


class Owner(Protocol):
    """A process, as far as the loop knows it."""

    is_dead: bool
    held_until: float
    tasks: list[asyncio.Task[Any]]

    def latency(self) -> float:
        """Return the seconds until a job of it begins."""

    def befall(self) -> None:
        """Decide what happens to it before its next step."""


OWNER: ContextVar[Owner | None] = ContextVar("owner", default=None)
"""The process whose code is running; None: the simulation itself."""


class NumberedTask(asyncio.Task[Any]):
    """A task whose hash is its number: sets of tasks have the same order in every run."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class ClockLoop(asyncio.BaseEventLoop):
    """The loop with a virtual clock.

    `job` is the number of the running job's thread, 0 outside of jobs. `faults` are errors of living
    processes that nothing has handled.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.job = 0
        self.faults: list[BaseException | str] = []
        self._heap: list[tuple[float, int, asyncio.Handle]] = []
        self._numbers = count(1)
        self._steps = 0
        self._last: dict[int, float] = {}
        self._busy: dict[int, list[asyncio.Handle]] = {}
        self._generators: dict[int, Owner | None] = {}
        self.set_task_factory(self._new_task)
        self.set_exception_handler(self._unhandled)

    # The interface of asyncio.

    def time(self) -> float:
        return self.now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self._push(self.now, asyncio.Handle(callback, args, self, context))

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._push(when, handle)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: `step` skips cancelled handles."""

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Schedule a job. Jobs of one executor run in turn; the default executor has many threads."""
        owner, future = OWNER.get(), self.create_future()
        when = self.now + (owner.latency() if owner else 0.0)
        number = next(self._numbers)
        if executor is not None:
            number = id(executor)
            when = self._last[number] = max(when, self._last.get(number, 0.0))
        job = partial(self._do, number, future, partial(func, *args))
        self._push(when, asyncio.Handle(job, (), self, copy_context()))
        return future

    # The interface of the simulation.

    def step(self) -> None:
        """Run the next step."""
        when, _, handle = heapq.heappop(self._heap)
        if handle._cancelled:
            return
        owner = handle._context.get(OWNER)  # type: ignore[attr-defined]
        if owner is not None:
            owner.befall()
            if owner.is_dead:
                return
            if owner.held_until > max(when, self.now):
                self._push(owner.held_until, handle)
                return
        self.now = max(self.now, when) + STEP
        self.job = 0  # another process's may be held up
        handle._run()

    def play(self, until: float) -> bool:
        """Run all steps up to that time; return whether no step is left at all. Raises `BusyLoopError`."""
        while self._heap and self._heap[0][0] <= until:
            self.step()
            self._steps += 1
            if self._steps > MOST:
                raise BusyLoopError(f"more than {MOST} steps, at {self.now:.2f} s: {self._heap[0][2]!r:.300}")
        return not self._heap

    def play_others(self, owner: Owner, seconds: float) -> None:
        """Hold a process up within its job, and run the others for so many seconds."""
        owner.held_until, job = self.now + seconds, self.job
        self.play(owner.held_until)
        self.now, self.job = max(self.now, owner.held_until), job

    def running(self) -> LoopRunning:
        """Return a context manager that makes this the running loop."""
        return LoopRunning(self)

    def spawn(self, main: Coroutine[Any, Any, Any], context: Context) -> asyncio.Task[Any]:
        """Create a task in the context of a process."""
        return self.create_task(main, context=context)

    def _push(self, when: float, handle: asyncio.Handle) -> asyncio.Handle:
        heapq.heappush(self._heap, (when, next(self._numbers), handle))
        return handle

    def _do(self, job: int, future: asyncio.Future[T], work: Callable[[], T]) -> None:
        if job in self._busy:  # its thread is held up in another job
            again = partial(self._do, job, future, work)
            self._busy[job].append(asyncio.Handle(again, (), self, copy_context()))
            return
        if future.cancelled():
            return
        owner, before = OWNER.get(), self.job
        self.job, self._busy[job] = job, []
        try:
            result = work()
        except BaseException as error:
            if not (owner and owner.is_dead) and not future.cancelled():
                future.set_exception(error)
            return
        finally:
            self.job = before
            for handle in self._busy.pop(job):
                self._push(self.now, handle)
        if not (owner and owner.is_dead) and not future.cancelled():
            future.set_result(result)

    def _new_task(
        self, loop: Any, main: Any, context: Context | None = None, **options: Any
    ) -> asyncio.Task[Any]:
        task = NumberedTask.__new__(NumberedTask)
        task.number = next(self._numbers)
        task.__init__(main, loop=loop, context=context, **options)  # type: ignore[misc]
        owner = (context or copy_context()).get(OWNER)
        if owner is not None:
            owner.tasks.append(task)
        return task

    def _unhandled(self, _: object, context: dict[str, Any]) -> None:
        owner = OWNER.get()
        if not (owner and owner.is_dead):
            self.faults.append(context.get("exception") or str(context.get("message")))

    def begun(self, generator: Any) -> None:
        """Note which process has started an asynchronous generator."""
        self._generators[id(generator)] = OWNER.get()

    def dropped(self, generator: Any) -> None:
        """Close a generator that was dropped, unless its process is dead."""
        owner = self._generators.pop(id(generator), None)
        if not (owner and owner.is_dead):
            self.call_soon(lambda: self.create_task(generator.aclose()))


class LoopRunning:
    """Makes a loop the running one."""

    def __init__(self, loop: ClockLoop) -> None:
        self._loop = loop

    def __enter__(self) -> None:
        self._hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._loop.begun, finalizer=self._loop.dropped)
        events._set_running_loop(self._loop)

    def __exit__(self, *_: object) -> None:
        events._set_running_loop(None)
        sys.set_asyncgen_hooks(*self._hooks)
