"""A log's living workers, in a table beside its jobs, and a team's current version.

In a rolling deployment workers of two versions live at once. Each would record its own cards, and
conversations would change back and forth. So the version that started last is current; other workers return
their jobs. A rollback is a later version too.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

from stenolog.adapters.store.postgres.connection.datastore import LogConnection, PostgresLogDatastore

ALIVE = 8.0
"""Seconds without a sign of life after which a worker counts as dead."""
BEAT = """INSERT INTO {jobs}.workers (id, team, digest, started, seen, host, pid, concurrency, doing)
    VALUES (%s, %s, %s, coalesce(%s::timestamptz, clock_timestamp()), clock_timestamp(), %s, %s, %s, %s)
    ON CONFLICT (id) DO UPDATE SET seen = excluded.seen, doing = excluded.doing, digest = excluded.digest
    RETURNING started"""
END = "DELETE FROM {jobs}.workers WHERE id = %s OR seen < clock_timestamp() - interval '1 hour'"
# Of two that began at the same moment every worker takes the same one.
CURRENT = """SELECT digest FROM {jobs}.workers
    WHERE team = %s AND seen > clock_timestamp() - make_interval(secs => %s)
    GROUP BY digest ORDER BY min(started) DESC, digest LIMIT 1"""
OPEN = """INSERT INTO {jobs}.breakers (model, open_until)
    VALUES (%s, clock_timestamp() + make_interval(secs => %s))
    ON CONFLICT (model) DO UPDATE SET open_until = greatest(breakers.open_until, excluded.open_until)"""
OPENED = """SELECT model, extract(epoch FROM open_until - clock_timestamp())::float
    FROM {jobs}.breakers WHERE open_until > clock_timestamp()"""
LIVING = """SELECT id, team, digest, host, pid, started, concurrency, doing FROM {jobs}.workers
    WHERE seen > clock_timestamp() - make_interval(secs => %s) ORDER BY started, id"""
QUEUED = """SELECT queue_name, count(*) FILTER (WHERE status = 'todo'),
        coalesce(extract(epoch FROM clock_timestamp() - min(at) FILTER (WHERE status = 'todo'
            AND (scheduled_at IS NULL OR scheduled_at <= clock_timestamp()))), 0)::float
    FROM {jobs}.procrastinate_jobs AS job LEFT JOIN LATERAL (
        SELECT max(at) AS at FROM {jobs}.procrastinate_events WHERE job_id = job.id) AS put ON true
    GROUP BY queue_name ORDER BY queue_name"""


class LivingWorker(NamedTuple):
    """A living worker: team, version, place, and conversations it runs."""

    id: str
    team: str
    digest: str
    host: str
    pid: int
    started: datetime
    concurrency: int
    doing: tuple[int, ...]
    is_current: bool


class QueueDepth(NamedTuple):
    """A team's waiting wake-ups, and the age of the oldest in seconds."""

    team: str
    waiting: int
    oldest: float


class PostgresRegistry:
    """Registry of a log in PostgreSQL, by the database's clock. See `WorkerRegistry`."""

    def __init__(self, store: PostgresLogDatastore, schema: str, team: str, concurrency: int) -> None:
        self._store = store
        self._schema = schema
        self._team = team
        self._concurrency = concurrency
        self._id = uuid4().hex
        self._started: datetime | None = None

    def beat(self, digest: str, doing: Iterable[int]) -> None:
        """Show that the worker lives."""
        values = (self._id, self._team, digest, self._started, socket.gethostname(), os.getpid())
        done = json.dumps(list(doing))

        def write(connection: LogConnection) -> datetime:
            connection.execute("SET LOCAL synchronous_commit = off")
            row = connection.run(self._of(BEAT), (*values, self._concurrency, done)).fetchone()
            assert row is not None, "it is returned"
            found: datetime = row[0]
            return found

        # Kept, since a crash of the server empties the table, and the worker has not begun anew.
        self._started = self._store.write(write)

    def is_current(self, digest: str) -> bool:
        """Return whether a version of the team is the current one."""
        return self._store.read(lambda c: _current(c, self._schema, self._team)) in (None, digest)

    def share_breakers(self, opened: Mapping[str, float]) -> dict[str, float]:
        """Report models to avoid; return those that others avoid."""
        if opened:
            self._store.write(partial(self._open, opened=opened))
        return dict(self._store.read(lambda c: c.run(self._of(OPENED)).fetchall()))

    def end(self) -> None:
        """Show that the worker has ended."""
        self._store.write(lambda c: c.run(self._of(END), (self._id,)))

    def _open(self, connection: LogConnection, opened: Mapping[str, float]) -> None:
        for model, seconds in sorted(opened.items()):
            connection.run(self._of(OPEN), (model, seconds))

    def _of(self, statement: str) -> str:
        return of_schema(statement, self._schema)


def of_schema(statement: str, schema: str) -> str:
    """Return a statement over the tables of a schema."""
    return statement.replace("{jobs}", f'"{schema}"')


def living_workers(store: PostgresLogDatastore, schema: str) -> list[LivingWorker]:
    """Return the workers that live, the oldest first."""
    rows = store.read(lambda c: c.run(of_schema(LIVING, schema), (ALIVE,)).fetchall())
    teams = {row[1] for row in rows}
    current = {team: store.read(lambda c, team=team: _current(c, schema, team)) for team in teams}  # type: ignore[misc]
    return [
        LivingWorker(id, team, digest, host, pid, started, most, tuple(doing), current[team] == digest)
        for id, team, digest, host, pid, started, most, doing in rows
    ]


def _current(connection: LogConnection, schema: str, team: str) -> str | None:
    found = connection.run(of_schema(CURRENT, schema), (team, ALIVE)).fetchone()
    return found[0] if found else None


def queue_depths(store: PostgresLogDatastore, schema: str) -> list[QueueDepth]:
    """Return the wake-ups that wait, of each team that has any."""
    found: list[tuple[Any, ...]] = store.read(lambda c: c.run(of_schema(QUEUED, schema)).fetchall())
    return [QueueDepth(*row) for row in found]
