"""A simulated process: its own log, team and memory, all of which a kill takes away.

With `in_postgres`, the only module of the simulation that reaches into private parts of stenolog: faults
around transactions, locks of runners, the notifier of commits, and the engine's memory of its process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import Context, copy_context
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from itertools import count
from types import SimpleNamespace
from typing import Any, Protocol, cast
from unittest import mock

import stenolog
import stenolog.adapters.engine.journal.journal as journal
import stenolog.adapters.engine.journal.recovery as recovery
import stenolog.adapters.engine.runner.runner as runner
from stenolog import Log, Team
from stenolog.adapters.engine.options import WORLD
from stenolog.adapters.store.contract.notifier import CommitNotifier
from stenolog.adapters.store.sqlite import liveness
from stenolog.adapters.store.sqlite.liveness import LivenessLock
from stenolog.engine import Runtime
from stenolog.errors import StoreTimeoutError
from tests.postgres.in_schemas import is_chosen

from . import in_postgres
from .clock_loop import OWNER, ClockLoop
from .decisions import Decisions

START = datetime(2026, 1, 1, 9, tzinfo=UTC)
# The first choice of each table is the plain course of things: decision 0.
HOLDS = (0.0, 0.02, 1.0, 30.0, 300.0)
"""Seconds for which a process is stopped, as by SIGSTOP."""
LATENCIES = (0.0, 0.001, 0.05, 0.7)
"""Seconds until a thread begins its next job."""
AS_DECIDED = "busy, as decided"


class Killed(BaseException):
    """The process was killed where it stood."""


class Host(Protocol):
    """The simulation, as far as a process knows it."""

    loop: ClockLoop
    decisions: Decisions
    path: str
    odds: float
    leases: dict[str, Process]

    def committed(self, by: Process) -> None:
        """Note that a process has committed a transaction."""


class Process:
    """One process; it lives until `kill`. A process that is started again has another `name`."""

    def __init__(self, host: Host, number: int, name: str, team: Callable[[Process], Team]) -> None:
        self.host = host
        self.number = number
        self.name = name
        self.is_dead = False
        self.held_from = self.held_until = 0.0
        self.tasks: list[asyncio.Task[Any]] = []
        self.locks: list[LivenessLock] = []
        self.memory: dict[Any, Any] = {}
        self.context: Context = copy_context()
        self._numbers = count(1)
        self._drawn = count(1)
        self._rings = False
        self.notifier = _Notifier(self)
        self.context.run(OWNER.set, self)
        self.log: Log = self.context.run(self._open)
        self.team: Team = self.context.run(team, self)

    @property
    def world(self) -> Runtime:
        """Return chance, waiting and time as this process has them."""
        chances = (0.0, 0.3, 0.9)
        chance = lambda: chances[self.host.decisions.choose(f"{self.name}.chance", 0.3, 2)]  # noqa: E731
        return Runtime(chance=chance, sleep=asyncio.sleep, stopwatch=self.host.loop.time)

    def latency(self) -> float:
        """Return the seconds until a job begins."""
        return LATENCIES[self.host.decisions.choose(f"{self.name}.late", 4 * self.host.odds, 3)]

    def befall(self) -> None:
        """Decide what happens before the next step: it may be held up, or killed."""
        host = self.host
        if self.is_dead or self.held_until > host.loop.now or not host.odds:
            return
        what = host.decisions.choose(f"{self.name}.step", host.odds / 4, len(HOLDS))
        if what == len(HOLDS):
            self.kill()
        elif what:
            self.hold(HOLDS[what])

    def hold(self, seconds: float) -> None:
        """Stop the process for so long."""
        self.held_from = self.host.loop.now
        self.held_until = self.held_from + seconds

    @property
    def held_for(self) -> float:
        """The seconds for which the process has been stopped."""
        now = self.host.loop.now
        return now - self.held_from if self.held_until > now else 0.0

    def kill(self) -> None:
        """End the process where it stands: no clean-up runs, and uncommitted work is lost."""
        if not self.is_dead:
            self.is_dead = True
            crash(self.log)
            for lock in self.locks:
                lock.close(keep=True)

    def bury(self) -> None:
        """Close the coroutines of a dead process, so that Python can free them."""
        self.kill()
        for task in self.tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coroutine = cast(Any, task.get_coro())
            for _ in range(20):
                try:
                    coroutine.close()
                    break
                except BaseException:
                    continue
        self.tasks.clear()

    def ring(self, seconds: float) -> None:
        """Notify the listeners of this process after a delay, as its polling thread would."""
        if not self._rings and not self.is_dead:
            self._rings = True
            self.host.loop.call_at(self.host.loop.now + seconds, self._ring, context=self.context)

    def _ring(self) -> None:
        self._rings = False
        self.notifier.notify()

    def _open(self) -> Log:
        log = stenolog.open(
            self.host.path,
            clock=self._clock,
            ids=lambda: f"{self.name}-{next(self._numbers)}",
            entropy=lambda size: blake2b(
                f"{self.name}/{next(self._drawn)}".encode(), digest_size=size
            ).digest(),
            synchronous="normal",
        )
        if is_chosen():
            in_postgres.hook(log, self, Killed)
            return log
        store: Any = log.datastore
        store.commit_notifier = self.notifier
        store.writing, store.written = self._writing(store.writing), self._written(store.written)
        store.reading = self._reading(store.reading)
        return log

    def _clock(self) -> datetime:
        return START + timedelta(seconds=round(self.host.loop.now, 6))

    def _written(self, real: Callable[..., Any]) -> Any:
        def written(work: Callable[[], Any]) -> Any:
            def killed_before_commit() -> Any:
                result = work()
                if self.dies("commit"):
                    self.kill()
                    raise Killed
                return result

            self.fault("write", busy=True)
            result = real(killed_before_commit)
            self.host.committed(self)
            self.fault("written")
            return result

        return written

    def _writing(self, real: Callable[..., AbstractContextManager[Any]]) -> Any:
        @contextmanager
        def writing() -> Iterator[Any]:
            self.fault("write", busy=True)
            with real() as connection:
                yield connection
                if self.dies("commit"):
                    self.kill()
                    raise Killed
            self.host.committed(self)
            self.fault("written")

        return writing

    def _reading(self, real: Callable[[], AbstractContextManager[Any]]) -> Any:
        @contextmanager
        def reading() -> Iterator[Any]:
            self.fault("read")
            with real() as connection:
                yield connection

        return reading

    def fault(self, where: str, *, busy: bool = False) -> None:
        """Decide what happens here: the process is held up, is killed, or finds the store busy."""
        host = self.host
        if self.is_dead:
            raise Killed
        if not host.loop.job or OWNER.get() is not self:
            return
        if busy and host.decisions.choose(f"{self.name}.busy", host.odds / 2):
            raise StoreTimeoutError(f"{host.path}: {AS_DECIDED}")
        if held := host.decisions.choose(f"{self.name}.{where}.held", host.odds, len(HOLDS) - 1):
            self.hold(HOLDS[held])
            host.loop.play_others(self, HOLDS[held])
            if self.is_dead:
                raise Killed
        if where != "read" and self.dies(where):
            self.kill()
            raise Killed

    def dies(self, where: str) -> bool:
        """Decide whether the process is killed here."""
        host = self.host
        if self.is_dead or not host.loop.job or OWNER.get() is not self:
            return False
        return bool(host.decisions.choose(f"{self.name}.{where}.killed", host.odds / 3))


def crash(log: Log) -> None:
    """Close a log as the kernel does when its process ends: open transactions are rolled back."""
    if is_chosen():
        in_postgres.crash(log)
    else:
        _crash_file(log.datastore)
    for beside in (log.checkpoints, log.index):
        with suppress(Exception):
            beside.let_go()
    log.recorder.close()


def _crash_file(store: Any) -> None:
    store._closed = True
    while store._idle:
        store._idle.pop().close()
    store.writer.close()
    if store.file_lock:
        store.file_lock.close()


class _Notifier(CommitNotifier):
    """A notifier without a thread: the simulation calls it when another process has committed."""

    def __init__(self, process: Process) -> None:
        super().__init__(None)
        self._process = process

    # What a commit of its own does in PostgreSQL.
    ring = CommitNotifier.notify

    @property
    def is_heard(self) -> bool:
        return bool(self.listeners)

    @contextmanager
    def subscribe(self, listener: Callable[[], object], *, drafts: bool = False) -> Iterator[None]:
        with super().subscribe(listener, drafts=drafts):
            self._process.ring(0.0)
            yield


class _Lock(LivenessLock):
    """The lock of a runner; its process knows it, because a kill releases it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if (owner := OWNER.get()) is not None:
            cast(Process, owner).locks.append(self)


class _Memory(dict[Any, Any]):
    """The engine's memory of finished effects, separate for each simulated process."""

    def __setitem__(self, key: Any, value: Any) -> None:
        self._of()[key] = value

    def get(self, key: Any, default: Any = None) -> Any:
        return self._of().get(key, default)

    def pop(self, key: Any, *default: Any) -> Any:
        return self._of().pop(key, *default)

    def _of(self) -> dict[Any, Any]:
        owner = OWNER.get()
        assert owner is not None, "effects belong to a process"
        return cast(Process, owner).memory


@contextmanager
def one_thread(loop: ClockLoop) -> Iterator[None]:
    """Patch the engine so that simulated processes and threads look real to it."""
    world = {"chance": lambda: 0.5, "stopwatch": loop.time}  # of the teams that work in forks
    real = {name: getattr(WORLD, name) for name in world}
    threads = SimpleNamespace(get_ident=lambda: loop.job)
    memory = _Memory()
    time = SimpleNamespace(monotonic=lambda: loop.now, sleep=lambda _: None)
    with (
        mock.patch.object(liveness, "LivenessLock", _Lock),
        mock.patch.object(runner, "threading", threads),
        mock.patch.object(journal, "unwritten", memory),
        mock.patch.object(runner, "unwritten", memory),
        mock.patch.object(recovery, "time", time),
    ):
        _set(WORLD, world)
        try:
            yield
        finally:
            _set(WORLD, real)


def _set(frozen: Runtime, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        object.__setattr__(frozen, name, value)
