"""Queue of a log in PostgreSQL: Procrastinate's, in the same database.

A wake-up's lock is the conversation's key, so one worker at a time runs it. It has no queueing lock: with
one, a stalled job could not be returned while another waits, and an append could be refused.

A delayed wake-up is a job with its own lock that defers the real one when due. Under the conversation's lock
it would hold up later messages.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

import psycopg
from procrastinate import App, JobContext, PsycopgConnector, SyncPsycopgConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import DeleteJobCondition, Job, Status
from procrastinate.schema import SchemaManager
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from stenolog.adapters.store.postgres.recorder import PostgresLogRecorder

from .job_schema import ensure
from .queue import Advance

LOGGER = logging.getLogger("stenolog.workers")
ADVANCE = "advance"
LATER = "later"
HEARTBEAT = 2.0
"""Seconds between two signs of life of a worker."""
# The lease of a process on its claims is as long: what is woken earlier would wait for that.
STALLED = 8.0
"""Seconds without one after which others take a worker's jobs."""
POLL = 0.5
"""Seconds between two looks for jobs; news of commits come sooner, but a retried job is no commit."""
BURST = 0.05
"""Seconds for which news of commits are gathered before the next look for jobs."""
FORGOTTEN = 5.0
"""Seconds after which a job of this worker that nothing here works on counts as stalled."""
NEWS = '{"type": "job_inserted", "job_id": 0}'
CONNECTIONS = 4
"""Connections of a worker to its queue, beside those to the log."""
AGAIN = 1.0
"""Seconds before another attempt if the server is away."""

Listening = Callable[[Callable[[], object]], AbstractContextManager[None]]


class WokenConnector(PsycopgConnector):
    """Connector woken by the log's commits; a job's transaction needs no NOTIFY."""

    def __init__(self, listening: Listening, **options: Any) -> None:
        super().__init__(**options)
        self._listening = listening

    async def listen_notify(self, on_notification: Any, channels: Iterable[str]) -> None:
        """Report new jobs after each commit to the log."""
        loop, woken, (channel, *_) = asyncio.get_running_loop(), asyncio.Event(), channels
        with self._listening(lambda: loop.call_soon_threadsafe(woken.set)):
            while True:
                await woken.wait()
                woken.clear()
                await on_notification(channel=channel, payload=NEWS)
                await asyncio.sleep(BURST)


class ProcrastinateQueue:
    """Wakes workers on any machine. See `Queue`."""

    names_teams = True

    def __init__(self, recorder: PostgresLogRecorder) -> None:
        self._recorder = recorder
        self.schema = ensure(recorder.datastore, SchemaManager.get_schema())
        self._sync = App(connector=SyncPsycopgConnector())
        self._app: App | None = None
        self._running: set[int] = set()
        self._worker_id: int | None = None
        self._forgotten: dict[int, float] = {}

    def defer(self, key: int, team: str, within: Any) -> None:
        """Wake a worker when a connection's transaction commits. Raises `psycopg.Error`."""
        within.execute(f'SET LOCAL search_path TO "{self.schema}"'.encode())
        wake_up = self._sync.configure_task(ADVANCE, queue=team, lock=str(key), connection=within)
        try:
            wake_up.defer(key=key, team=team)
        except ConnectorException as error:
            # The store knows its driver's errors alone: which of them may be tried again, say.
            if isinstance(error.__cause__, psycopg.Error):
                raise error.__cause__ from None
            raise

    async def work(self, team: str, advance: Advance, *, concurrency: int, stopping: asyncio.Event) -> None:
        """Handle wake-ups until `stopping` is set; restart after lost connections. See `Queue`."""
        while not stopping.is_set():
            try:
                async with self._opened(advance) as app:
                    await _run(app, team, concurrency, stopping)
            except (ConnectorException, psycopg.Error) as error:
                why = " ".join(str(error.__cause__ or error).split())
                LOGGER.warning("the queue was lost (%s); it is asked again", why)
            if not stopping.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(stopping.wait(), AGAIN)

    async def janitor(self) -> int:
        """Wake others for dead workers' jobs; return their number. Raises `ConnectorException`."""
        if (app := self._app) is None:
            return 0
        found = [*await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=STALLED)]
        found += await self._left_behind(app)
        for job in found:
            # Not `retry_job`, which would keep the id: a worker that was frozen, and ends its own job of that
            # id when it thaws, would remove the one that another worker is at.
            wanted: dict[str, Any] = job.task_kwargs
            await _defer(app, wanted["key"], wanted["team"])
            with suppress(ConnectorException):  # another janitor was first
                await app.job_manager.finish_job_by_id_async(job.id or 0, Status.FAILED, delete_job=True)
        return len(found)

    async def _left_behind(self, app: App) -> list[Job]:
        if self._worker_id is None:
            return []
        now = time.monotonic()
        mine = await app.job_manager.list_jobs_async(status=Status.DOING.value, worker_id=self._worker_id)
        ended = {job.id: job for job in mine if job.id is not None and job.id not in self._running}
        self._forgotten = {id: self._forgotten.get(id, now) for id in ended}
        return [job for id, job in ended.items() if now - self._forgotten[id] > FORGOTTEN]

    @asynccontextmanager
    async def _opened(self, advance: Advance) -> AsyncIterator[App]:
        address = self._recorder.datastore.address
        # Straight to the server: a pooler in between knows no setting of a session.
        conninfo = address.listen or address.conninfo
        options = f"{conninfo_to_dict(conninfo).get('options', '')} -c search_path={self.schema}"
        connector = WokenConnector(
            self._recorder.listening,
            conninfo=make_conninfo(conninfo, options=options.strip(), application_name="stenolog worker"),
            min_size=1,
            max_size=CONNECTIONS,
        )
        app = App(connector=connector)
        self._add_tasks(app, advance)
        async with app.open_async():
            self._app = app
            try:
                yield app
            finally:
                self._app = None

    def _add_tasks(self, app: App, advance: Advance) -> None:
        @app.task(name=ADVANCE, pass_context=True)
        async def run(context: JobContext, key: int, team: str) -> None:
            id, self._worker_id = context.job.id or 0, context.job.worker_id
            self._running.add(id)
            try:
                await _until_done(lambda: _drop_waiting(app, key))
                after = await advance(key)
                if after is not None:
                    # Before this job ends: killed in between, a worker leaves a wake-up too many.
                    await _until_done(lambda: _defer(app, key, team, after))
            finally:
                self._running.discard(id)

        @app.task(name=LATER)
        async def later(key: int, team: str) -> None:
            await _until_done(lambda: _defer(app, key, team))


async def _run(app: App, team: str, concurrency: int, stopping: asyncio.Event) -> None:
    """Run Procrastinate's worker until it ends, or `stopping` is set and its jobs have ended."""
    working = asyncio.create_task(
        app.run_worker_async(
            queues=[team],
            concurrency=concurrency,
            fetch_job_polling_interval=POLL,
            delete_jobs=DeleteJobCondition.SUCCESSFUL.value,
            install_signal_handlers=False,
            update_heartbeat_interval=HEARTBEAT,
            stalled_worker_timeout=STALLED,
        )
    )
    stopped = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        # It takes no more jobs, and waits for those that it has.
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working


async def _drop_waiting(app: App, key: int) -> None:
    """Remove a conversation's waiting wake-ups: the run reads their cause in the log."""
    for lock in (str(key), _later_lock(key)):
        for job in await app.job_manager.list_jobs_async(lock=lock, status=Status.TODO.value):
            await app.job_manager.cancel_job_by_id_async(job.id or 0, delete_job=True)


async def _defer(app: App, key: int, team: str, after: float = 0.0) -> None:
    if after > 0:
        seconds = {"milliseconds": int(timedelta(seconds=after) / timedelta(milliseconds=1))}
        task = app.configure_task(LATER, queue=team, lock=_later_lock(key), schedule_in=seconds)
    else:
        task = app.configure_task(ADVANCE, queue=team, lock=str(key))
    await task.defer_async(key=key, team=team)


def _later_lock(key: int) -> str:
    return f"{key} later"


async def _until_done(do: Callable[[], Any]) -> None:
    """Retry until the queue's server is back: a wake-up must not be lost."""
    while True:
        try:
            await do()
            return
        except ConnectorException as error:
            LOGGER.warning("the queue is away (%s); it is asked again", error.__cause__ or error)
            await asyncio.sleep(AGAIN)
