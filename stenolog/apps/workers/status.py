"""State of a log's workers: living ones, waiting jobs, and what delays followers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stenolog.adapters.conversation.log import Log
from stenolog.adapters.store.contract.address import is_postgres

if TYPE_CHECKING:
    from stenolog.adapters.store.postgres.connection.holders import Holder

    from .worker_rows import LivingWorker, QueueDepth


class WorkersStatus(NamedTuple):
    """Living workers, waiting wake-ups, and transactions that followers wait for."""

    workers: list[LivingWorker]
    queues: list[QueueDepth]
    holders: list[Holder]
    names: dict[int, str]
    """The names of the conversations that workers are at, by their keys."""


def workers_status(log: Log) -> WorkersStatus | None:
    """Return the workers' state; None for a log in a file, which lists none."""
    if not is_postgres(log.recorder.address):
        return None
    from stenolog.adapters.store.postgres.connection.holders import holders
    from stenolog.adapters.store.postgres.recorder import PostgresLogRecorder

    from .job_schema import found
    from .worker_rows import living_workers, queue_depths

    assert isinstance(log.recorder, PostgresLogRecorder), "its address says so"
    store = log.recorder.datastore
    held = store.read(holders)
    schema = found(store)
    if schema is None:
        return WorkersStatus([], [], held, {})
    workers = living_workers(store, schema)
    keys = {key for worker in workers for key in worker.doing}
    names = {key: name for key in keys if (name := log.recorder.conversations.name_of(key)) is not None}
    return WorkersStatus(workers, queue_depths(store, schema), held, names)


def has_worker(log: Log, team: str) -> bool | None:
    """Return whether a worker of the team lives; None for a log in a file."""
    if not is_postgres(log.recorder.address):
        return None
    from stenolog.adapters.store.postgres.recorder import PostgresLogRecorder

    from .job_schema import found
    from .worker_rows import living_workers

    assert isinstance(log.recorder, PostgresLogRecorder), "its address says so"
    store = log.recorder.datastore
    schema = found(store)
    return schema is not None and any(worker.team == team for worker in living_workers(store, schema))
