"""A worker: it runs its team on conversations that wake it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

from stenolog.adapters.conversation.log import Conversation, Log
from stenolog.adapters.engine.team.team import Team
from stenolog.adapters.engine.team.visits import version_of, visit
from stenolog.adapters.models.base import Model
from stenolog.adapters.store.contract.values import Stream

from .queue import Queue
from .queues import WorkerRegistry, queue_of, registry_of
from .roots import root_of
from .submitting import TEAM, check_team

LOGGER = logging.getLogger("stenolog.workers")
PATIENCE = 30.0
"""Seconds that a run waits for what is due later; what is due after them wakes a worker again."""
HAND_BACK = 1.0
"""Seconds after which a conversation that a worker may not run is given to another one."""
BEAT = 1.0
"""Seconds between two signs of life."""
LOOK = 0.25
"""Seconds between two looks for what dead workers have left."""
MOST_PAUSE = 60.0
"""Seconds after which a conversation whose run fails is tried again, at most."""


class Worker:
    """Worker that runs a team on a log's conversations, on any number of machines.

    `name` is the team's in `submit`. At most `concurrency` conversations run at once. A stopping worker
    starts nothing, and has `grace` seconds for the rest.
    """

    def __init__(
        self, log: Log, team: Team, *, name: str = TEAM, concurrency: int = 50, grace: float = 30.0
    ) -> None:
        self.log = log
        self.team = team
        self.name = check_team(name)
        self.concurrency = concurrency
        self.grace = grace
        self._stopping = asyncio.Event()
        self._closing = asyncio.Event()
        self._visits: dict[int, asyncio.Task[float | None]] = {}
        self._drains: dict[int, Callable[[], None]] = {}
        self._failures: dict[int, int] = {}
        self._digest = ""

    @property
    def doing(self) -> list[int]:
        """The keys of the conversations that are run now."""
        return [*self._visits]

    @property
    def is_stopping(self) -> bool:
        """True once `stop` was called."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Stop after current runs; called again, close at once. Others continue the rest."""
        if self._stopping.is_set():
            self._closing.set()
        self._stopping.set()
        for drain in [*self._drains.values()]:
            drain()

    async def run(self) -> None:
        """Work until `stop` is called. Raises `StoreError`, `MissingExtraError`, and errors of tools."""
        queue = await asyncio.to_thread(queue_of, self.log)
        registry = await asyncio.to_thread(registry_of, self.log, self.name, self.concurrency)
        # Before the first wake-up is taken: who is no longer current must know it.
        await self._beat(registry)
        sides = [
            asyncio.create_task(_repeated(BEAT, lambda: self._beat(registry))),
            asyncio.create_task(_repeated(LOOK, queue.janitor)),
            asyncio.create_task(self._close_late()),
        ]
        working = asyncio.create_task(
            queue.work(
                self.name,
                lambda key: self._advance(queue, registry, key),
                concurrency=self.concurrency,
                stopping=self._stopping,
            )
        )
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            # Whoever cancels this wants it to end now.
            self.stop()
            self.stop()
            await working
            raise
        finally:
            for side in sides:
                side.cancel()
            await asyncio.wait(sides)
            await asyncio.to_thread(registry.end)

    async def _beat(self, registry: WorkerRegistry) -> None:
        self._digest = await version_of(self.team)
        await asyncio.to_thread(registry.beat, self._digest, self.doing)
        opened = left_alone(self.team)
        leave_alone(self.team, await asyncio.to_thread(registry.share_breakers, opened))

    async def _advance(self, queue: Queue, registry: WorkerRegistry, key: int) -> float | None:
        """Run a conversation; return the seconds until its next run. See `queue.Advance`."""
        running = asyncio.create_task(self._run(queue, registry, key))
        self._visits[key] = running
        try:
            after = await running
            self._failures.pop(key, None)
            return after
        except asyncio.CancelledError:
            return 0.0
        except Exception as error:
            pause = min(MOST_PAUSE, 2.0 ** self._failures.setdefault(key, 0))
            self._failures[key] += 1
            LOGGER.warning(
                "%s: the run has failed, and is tried again in %.0f s: %s: %s",
                await asyncio.to_thread(self.log.recorder.conversations.name_of, key),
                pause,
                type(error).__name__,
                error,
            )
            return pause
        finally:
            del self._visits[key]
            self._drains.pop(key, None)

    async def _run(self, queue: Queue, registry: WorkerRegistry, key: int) -> float | None:
        if not await asyncio.to_thread(registry.is_current, self._digest):
            return HAND_BACK
        conversation = await asyncio.to_thread(self._conversation, key, queue.names_teams)
        if conversation is None:
            return None

        def begun(drain: Callable[[], None]) -> None:
            self._drains[key] = drain
            if self._stopping.is_set():
                drain()

        return await visit(self.team, conversation, PATIENCE, begun)

    def _conversation(self, key: int, is_for_team: bool) -> Conversation | None:
        name = self.log.recorder.conversations.name_of(key)
        if name is None:
            return None
        found = root_of(Conversation(self.log, self.log.streams.share(Stream(name, key))))
        members = found.state().members
        return found if is_for_team or not members or set(members) & set(self.team.agents) else None

    async def _close_late(self) -> None:
        """Close running work after the grace period or a second `stop`."""
        await self._stopping.wait()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), self.grace)
        for running in [*self._visits.values()]:
            running.cancel()


async def _repeated(pause: float, do: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Repeat an action, also while a server is away."""
    while True:
        await asyncio.sleep(pause)
        try:
            await do()
        except Exception as error:
            why = error.__cause__ or error
            LOGGER.warning("%s: %s", type(why).__name__, " ".join(str(why).split()))


def left_alone(team: Team) -> dict[str, float]:
    """Return the models with open breakers, and the seconds they stay open.

    Workers count failures separately. Once one avoids a model, all do within a second.
    """
    now = team.options.world.stopwatch()
    found = {_key(model): breaker.seconds_open(now) for model, breaker in team.options.breakers()}
    return {name: seconds for name, seconds in found.items() if seconds > 0}


def leave_alone(team: Team, opened: Mapping[str, float]) -> None:
    """Open these models' breakers for so many seconds, unless open longer."""
    now = team.options.world.stopwatch()
    asked = [model for model, _ in team.options.breakers()]
    for model in (*asked, *(model for agent in team.agents.values() for model in agent.models)):
        if seconds := opened.get(_key(model)):
            team.options.breaker_of(model).hold(now, seconds)


def _key(model: Model) -> str:
    return f"{model.provider} {model.name}"
