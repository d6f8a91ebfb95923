"""A simulation: several processes work on one log file, as one seed decides, until nothing is left to do.

>>> from tests.simulation.simulation import simulate
>>> simulate(1).fault
''
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import stenolog
from stenolog import Entry, Log
from stenolog.engine import Agent, EntryAppended, OnInput
from stenolog.errors import (
    AgentNotFoundError,
    ConversationExistsError,
    ConversationNotFoundError,
    IllegalCommandError,
    ModelError,
    StoreTimeoutError,
)
from tests.postgres.in_schemas import is_chosen

from . import actions
from .actions import Action
from .clock_loop import BusyLoopError, ClockLoop
from .decisions import Decisions
from .invariants import BrokenInvariantError, Watcher
from .process import AS_DECIDED, Killed, Process, one_thread
from .world import World

ODDS = (0.0, 0.001, 0.004, 0.015)
"""How often something befalls a process, by how wild the seed is."""
REST, RESTS = 2_000.0, 10
"""Seconds in which all that is under way comes to an end, and how often they may pass."""
ROUNDS = 24
RARELY = 24
"""One in so many commits has all requests checked; a `thorough` run all of them."""
EXPECTED = (
    AgentNotFoundError,
    IllegalCommandError,
    ConversationExistsError,
    ConversationNotFoundError,
    ModelError,
    StoreTimeoutError,
    Killed,
)
"""Errors that an action may raise, for example because it came too late."""


class Run(NamedTuple):
    """A run to simulate: its seed and its actions; of a run that was made short, also the decisions left."""

    seed: int
    actions: tuple[Action, ...]
    decisions: dict[str, int] | None = None


class Outcome(NamedTuple):
    """The result of a run: the invariant that was broken (empty: none), and every decision that was taken."""

    run: Run
    fault: str
    decisions: dict[str, int]
    commits: int
    digest: str = ""


def simulate(seed: int, *, thorough: bool = False) -> Outcome:
    """Simulate a seed."""
    return play(Run(seed, tuple(actions.script(seed))), thorough=thorough)


def simulate_task(task: tuple[int, bool]) -> Outcome:
    """Simulate a seed, thoroughly or not: what a pool of processes calls."""
    seed, thorough = task
    return simulate(seed, thorough=thorough)


def play(run: Run, *, thorough: bool = False, copy: Path | None = None) -> Outcome:
    """Simulate a run. `thorough`: check everything after each commit, not only a sample of costly checks.

    `copy` is a path for a copy of the log as it is at the end.
    """
    with _quiet(), tempfile.TemporaryDirectory(dir=_memory(), prefix="stenolog-") as folder:
        if not is_chosen():
            Path(folder, "log.db").write_bytes(_empty_log())
        simulation = Simulation(run, Path(folder), thorough)
        try:
            fault = simulation.play()
            if copy is not None:
                simulation.watcher.log.backup(copy)
            return Outcome(run, fault, simulation.decisions.taken, simulation.commits, simulation.digest())
        finally:
            simulation.close()


class Simulation:
    """One run, from its first action to its last check."""

    def __init__(self, run: Run, folder: Path, thorough: bool) -> None:
        self.run_of = run
        self.folder = folder
        self.thorough = thorough
        self.path = str(folder / "log.db")
        self.loop = ClockLoop()
        self.decisions = Decisions(run.seed, run.decisions)
        self.odds = ODDS[self.decisions.choose("wild", 0.8, len(ODDS) - 1)]
        self.world = World(self.decisions)
        self.watcher = Watcher(self.path, self.world, every=1 if thorough else 2)
        self.names = ["demo"]
        self.commits = 0
        self.fault = ""
        self.processes: dict[int, Process] = {}
        self.leases: dict[str, Process] = {}
        self.all: list[Process] = []
        self._running: dict[asyncio.Task[Any], tuple[Process, str]] = {}
        self._in_check = False

    @property
    def _number(self) -> int | None:
        """A number that selects the lane to check; None: check all lanes."""
        return None if self.thorough else self.run_of.seed + self.commits

    def play(self) -> str:
        """Play the whole run; return the invariant that was broken, or an empty text."""
        try:
            with one_thread(self.loop), self.loop.running():
                for action in self.run_of.actions:
                    self._play(action.gap)
                    self._act(action)
                self._rest()
                self._check_nobody_waits()
                self._finish()
                self.watcher.check_end(self._number)
                self.watcher.check_answers(self.world.told)
        except BrokenInvariantError as error:
            self._broken(error)
        return self.fault

    def digest(self) -> str:
        """Return the digests of all conversations' ends: two runs of one seed have the same."""
        return " ".join(known.digest[:8] for known in self.watcher.known.values())

    def close(self) -> None:
        """Close all connections and drop all tasks."""
        with self.loop.running():
            for process in self.all:
                process.context.run(process.bury)
        self.watcher.close()
        self.loop.close()

    # What processes and actions use.

    def committed(self, by: Process) -> None:
        """Check the log after a commit, and ring the bells of the other processes."""
        if self._in_check:
            return
        self.commits += 1
        for process in self.processes.values():
            if process is not by and not process.is_dead:
                process.ring(0.01 + 0.04 * self.decisions.choose(f"{process.name}.ring", 0.2))
        self._checked(partial(self._check_commit, by))

    async def within(self, process: Process, work: Callable[[], list[Entry]]) -> list[Entry]:
        """Do some work in a thread of the process."""
        return await asyncio.to_thread(work)

    def run(
        self, process: Process, name: str, message: str | None, id: str, on_input: OnInput, leaves: int = 0
    ) -> None:
        """Start a run of a conversation in a process."""
        if not process.is_dead:
            main = self._run(process, name, message, id, on_input, leaves)
            task = self.loop.spawn(main, process.context.copy())
            self._running[task] = process, name

    def alone(self, agent: str) -> Agent:
        """Return an agent for work in a fork."""
        return self.world.alone(agent)

    def kill(self, process: Process) -> None:
        """Kill a process."""
        process.kill()

    # Within.

    def _rest(self) -> None:
        """Wait until everything under way has ended; longer if processes were held up meanwhile."""
        for _ in range(RESTS):
            before = self.loop.now
            if self._play(REST) or all(process.held_until < before for process in self.all):
                return

    def _play(self, seconds: float) -> bool:
        """Let so many seconds pass; return whether nothing is left to do."""
        until = self.loop.now + seconds
        try:
            is_over = self.loop.play(until)
        except BusyLoopError as busy:
            raise BrokenInvariantError(f"spins: {busy}") from None
        self.loop.now = max(self.loop.now, until)
        for error in self.loop.faults:
            raise BrokenInvariantError(f"unhandled: {error!r}")
        self._raise()
        return is_over

    def _raise(self) -> None:
        if self.world.faults:
            raise BrokenInvariantError(self.world.faults[0])
        if self.fault:
            raise BrokenInvariantError(self.fault)

    def _process(self, number: int) -> Process:
        """Return the process of that number; start it again if it was killed."""
        found = self.processes.get(number)
        if found is None or found.is_dead:
            name = f"p{number}.{sum(each.number == number for each in self.all)}"
            context = copy_context()
            found = self.processes[number] = context.run(Process, self, number, name, self.world.team)
            self.all.append(found)
        return found

    def _act(self, action: Action) -> None:
        process = self._process(action.process)
        _, deed = actions.DEEDS[action.what]
        self.loop.spawn(self._done(deed(self, process, action.number, action.which)), process.context.copy())

    async def _done(self, deed: Any) -> None:
        try:
            entries = await deed
        except EXPECTED:
            return
        except Exception as error:
            self._broken(error)
            return
        self._checked(lambda: self.watcher.acknowledged(entries))

    async def _run(
        self, process: Process, name: str, message: str | None, id: str, on_input: OnInput, leaves: int
    ) -> None:
        try:
            for _ in range(20):
                try:
                    running = process.team.run(process.log[name], message, id=id, on_input=on_input)
                    async for happened in running:
                        if isinstance(happened, EntryAppended):
                            self._checked(partial(self.watcher.acknowledged, [happened.entry]))
                        if leaves := leaves - 1:
                            continue
                        break
                    return
                except StoreTimeoutError as error:
                    if AS_DECIDED not in str(error):
                        raise
        except IllegalCommandError:
            pass
        except Exception as error:
            self._broken(error)

    def _broken(self, error: BaseException) -> None:
        if not self.fault:
            self.fault = (
                f"{type(error).__name__}: {error}"
                if not isinstance(error, BrokenInvariantError)
                else str(error)
            )

    def _checked(self, check: Callable[[], None]) -> None:
        """Run a check during which nothing else happens; if it fails, the simulation ends."""
        before, self._in_check = self._in_check, True
        job, self.loop.job = self.loop.job, 0
        try:
            check()
        except Exception as error:
            self._broken(error)
        finally:
            self._in_check, self.loop.job = before, job

    def _check_commit(self, by: Process) -> None:
        for name in self.watcher.look():
            self.watcher.check_states(name, [by.log])
            if self.thorough or (self.commits + self.run_of.seed) % RARELY == 0:
                logs = self._logs()
                self.watcher.check_states(name, logs)
                self.watcher.check_requests(name, logs, self._number)

    def _logs(self) -> list[Log]:
        """Return the logs of the processes that can be asked now; of one of them, unless all are checked."""
        living = (process for process in self.processes.values() if not process.is_dead)
        logs = [process.log for process in living if process.held_until <= self.loop.now]
        return logs if self._number is None or not logs else [logs[self._number % len(logs)]]

    def _check_nobody_waits(self) -> None:
        """Raise if a living process runs a conversation for ever although no lane waits for a person."""
        self.watcher.look()
        waiting = self.watcher.waiting
        for task, (process, name) in self._running.items():
            if not task.done() and not process.is_dead and not waiting:
                raise BrokenInvariantError(f"waits: {process.name} runs {name} for ever")

    def _finish(self) -> None:
        """Approve and answer what waits for a person, and run all conversations until they are at rest."""
        for _ in range(ROUNDS):
            process = self._process(0)
            for name in self.watcher.unfinished:
                self.run(process, name, None, "", "next")
            for name in self.watcher.waiting:
                self.loop.spawn(self._done(_decided(self, process, name)), process.context.copy())
            self._rest()
            self.watcher.look()
            if not (self.watcher.unfinished or self.watcher.waiting):
                break
        self._check_nobody_waits()


async def _decided(simulation: Simulation, process: Process, name: str) -> list[Entry]:
    """Approve and answer the pending calls of a conversation."""
    done: list[Entry] = []
    for call in await process.team.pending_approvals(process.log[name]):
        done += await actions.decided(simulation, process, call, 1)
    return done


@cache
def _memory() -> str | None:
    """Return a folder in memory, if the system has one: the simulation does not test the disk."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


@cache
def _empty_log() -> bytes:
    """Return the file of a log without conversations: copying one is quicker than making one."""
    with tempfile.TemporaryDirectory(prefix="stenolog-") as folder:
        stenolog.open(f"{folder}/log.db", synchronous="normal").close()
        return Path(folder, "log.db").read_bytes()


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress logs, and warnings about coroutines that are dropped: their process was killed."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    collects = gc.isenabled()
    gc.disable()  # a quarter of the time
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
            gc.collect(1)
    finally:
        logging.disable(level)
        sys.unraisablehook = hook
        if collects:
            gc.enable()
