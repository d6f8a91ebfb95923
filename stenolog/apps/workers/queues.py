"""The queue of a log, by its store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from stenolog.adapters.conversation.log import Conversation, Log
from stenolog.adapters.store.contract.address import is_postgres
from stenolog.adapters.store.contract.values import Stream
from stenolog.domain.errors import MissingExtraError, StoreError

from .queue import Advance, Queue
from .roots import root_of


class WorkerRegistry(Protocol):
    """Shows a worker to the others, and the others to it."""

    def beat(self, digest: str, doing: Iterable[int]) -> None:
        """Report that the worker lives, its team's version, and the conversations it runs."""

    def is_current(self, digest: str) -> bool:
        """Return whether a version of the team is the current one."""

    def share_breakers(self, opened: Mapping[str, float]) -> dict[str, float]:
        """Report models to avoid for so many seconds; return those that others avoid."""

    def end(self) -> None:
        """Show that the worker has ended."""


class OnlyWorker:
    """Registry of a log in a file, where each worker is alone. See `WorkerRegistry`."""

    def beat(self, digest: str, doing: Iterable[int]) -> None:
        """Do nothing."""

    def is_current(self, digest: str) -> bool:
        """Return True."""
        return True

    def share_breakers(self, opened: Mapping[str, float]) -> dict[str, float]:
        """Return nothing: no other worker is known."""
        return {}

    def end(self) -> None:
        """Do nothing."""


TOPIC = "user_message@"
"""The topics of what a worker is woken for: words and commands. The other entries are the work of runs."""


class LocalQueue:
    """Queue of a log in a file or in memory: the log's commits wake the worker. See `Queue`.

    Nothing is stored. A new worker checks every conversation once, so nothing is lost.
    """

    names_teams = False

    def __init__(self, log: Log) -> None:
        self._log = log

    def defer(self, key: int, team: str, within: Any) -> None:
        """Do nothing: the append itself is the wake-up."""

    async def janitor(self) -> int:
        """Do nothing: a worker looks at every conversation when it begins."""
        return 0

    async def work(self, team: str, advance: Advance, *, concurrency: int, stopping: asyncio.Event) -> None:
        """Run what has something new. See `Queue`."""
        loop, woken = asyncio.get_running_loop(), asyncio.Event()
        waiting: dict[int, None] = {}
        running: dict[int, asyncio.Task[float | None]] = {}

        def put(key: int) -> None:
            waiting[key] = None
            woken.set()

        def ended(key: int, task: asyncio.Task[float | None]) -> None:
            del running[key]
            woken.set()
            if not task.cancelled() and (after := task.result()) is not None:
                loop.call_later(after, put, key)

        with self._log.recorder.listening(lambda: loop.call_soon_threadsafe(woken.set)):
            # Read before the look at all: what is appended from here on is met by the mark.
            mark = await asyncio.to_thread(lambda: self._log.last_sequence)
            waiting.update(dict.fromkeys(await asyncio.to_thread(self._all)))
            while not stopping.is_set():
                for key in [key for key in waiting if key not in running][: concurrency - len(running)]:
                    del waiting[key]
                    running[key] = asyncio.create_task(advance(key))
                    running[key].add_done_callback(partial(ended, key))
                await _first(woken, stopping)
                woken.clear()
                mark, keys = await asyncio.to_thread(self._news, mark)
                waiting.update(dict.fromkeys(keys))
        if running:
            await asyncio.wait(running.values())

    def _all(self) -> list[int]:
        return [self._root(self._log[name]) for name in self._log.names(order="latest")]

    @staticmethod
    def _root(conversation: Conversation) -> int:
        key = root_of(conversation).key
        assert key is not None, "it has entries"
        return key

    def _news(self, mark: int) -> tuple[int, list[int]]:
        """Return the last notification id, and the conversations with messages after `mark`."""
        keys = []
        while rows := self._log.recorder.committed(mark):
            mark = rows[-1].notification
            named = {row.key: row.name for row in rows if row.topic.startswith(TOPIC)}
            streams = [self._log.streams.share(Stream(name, key)) for key, name in named.items()]
            keys += [self._root(Conversation(self._log, stream)) for stream in streams]
        return mark, keys


async def _first(*events: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()


_QUEUES: WeakKeyDictionary[Log, Queue] = WeakKeyDictionary()


def queue_of(log: Log) -> Queue:
    """Return a log's queue, with its tables created if missing.

    Raises `MissingExtraError`, `StoreError`.
    """
    if not is_postgres(log.recorder.address):
        return LocalQueue(log)
    found = _QUEUES.get(log)
    if found is None:
        found = _QUEUES[log] = _in_postgres(log)
    return found


def existing_queue(log: Log) -> Queue | None:
    """Return the queue that a worker has made for a log; None if there is none, or the log's news wake it."""
    if not is_postgres(log.recorder.address):
        return None
    from stenolog.adapters.store.postgres.recorder import PostgresLogRecorder

    from .job_schema import found

    assert isinstance(log.recorder, PostgresLogRecorder), "its address says so"
    # Without its library, or the right to it, this program wakes nobody, and may append all the same.
    with suppress(MissingExtraError, StoreError):
        return queue_of(log) if log in _QUEUES or found(log.recorder.datastore) else None
    return None


def registry_of(log: Log, team: str, concurrency: int) -> WorkerRegistry:
    """Return the registry for a team's worker. Raises as `queue_of`."""
    if not is_postgres(log.recorder.address):
        return OnlyWorker()
    from stenolog.adapters.store.postgres.recorder import PostgresLogRecorder

    from .procrastinate_queue import ProcrastinateQueue
    from .worker_rows import PostgresRegistry

    queue, recorder = queue_of(log), log.recorder
    assert isinstance(queue, ProcrastinateQueue), "its address says so"
    assert isinstance(recorder, PostgresLogRecorder), "its address says so"
    return PostgresRegistry(recorder.datastore, queue.schema, team, concurrency)


def _in_postgres(log: Log) -> Queue:
    # Late: a log in a file needs no driver of PostgreSQL, and no queue.
    from stenolog.adapters.store.postgres.recorder import PostgresLogRecorder

    try:
        from .procrastinate_queue import ProcrastinateQueue
    except ModuleNotFoundError as error:
        raise MissingExtraError("workers", "procrastinate") from error
    assert isinstance(log.recorder, PostgresLogRecorder), "its address says so"
    return ProcrastinateQueue(log.recorder)
