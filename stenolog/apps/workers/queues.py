"""The queue of a log, by its store."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from stenolog.adapters.conversation.log import Log
from stenolog.adapters.store.contract.address import is_postgres
from stenolog.domain.errors import MissingExtraError

from .local_queue import LocalQueue
from .queue import Queue
from .registry import OnlyWorker, WorkerRegistry

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
