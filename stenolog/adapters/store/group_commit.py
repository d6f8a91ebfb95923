"""Group commit: what comes while somebody else writes is written together, in the next transaction.

Whoever finds nobody writing writes at once, in his own thread, as if there were no group. All other jobs
are queued; a thread takes whatever has gathered into one transaction, tells everybody when it is durable,
and ends a while after there is nothing left to do. So 64 writers wait for one `fsync` where they would
wait for 64, and nobody ever waits for others to come.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from itertools import islice
from queue import Empty, SimpleQueue
from threading import Lock, Thread, current_thread
from typing import Any, Protocol, TypeVar

from stenolog.domain.errors import StoreTimeoutError

from .errors import started
from .savepoints import Job, PendingWrite, Savepoint, SingleWrite, WriteBatch

T = TypeVar("T")
MOST = 256
"""Jobs in one transaction."""
LINGER = 1.0
"""Seconds until a thread that nobody needs any more ends."""


class WritableStore(Protocol):
    """A datastore as `GroupCommit` needs it."""

    path: str

    @property
    def is_writing(self) -> bool:
        """True if a thread of this process is writing right now."""

    @property
    def closed(self) -> bool:
        """True if the datastore was closed."""

    def check(self) -> None:
        """Raise `StoreError` where the datastore cannot be used any more."""

    def writing(self, *, lazily: bool = False) -> AbstractContextManager[sqlite3.Connection]:
        """Return a transaction that commits when the block ends."""


class GroupCommit:
    """A writer for one datastore that commits jobs one by one or in groups."""

    def __init__(self, store: WritableStore) -> None:
        self._store = store
        self._queue: SimpleQueue[PendingWrite[Any] | None] = SimpleQueue()
        self._guard = Lock()
        self._thread: Thread | None = None

    def write(self, job: Job[T]) -> T:
        """Do the job; it is durable when this returns. Raises what it raises, `StoreTimeoutError`,
        `StoreError`."""
        if (self._store.is_writing or not self._queue.empty()) and current_thread() is not self._thread:
            return self._wait(job)
        with self._store.writing(lazily=True) as connection:
            part = SingleWrite(connection)
            result = job(part)
        part.remember()
        return result

    def savepoint(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a job in a savepoint: if the job raises, its changes are undone."""

        def job(part: Savepoint) -> T:
            with part:
                return work(part.connection)

        return self.write(job)

    def submit(self, waiting: PendingWrite[Any]) -> None:
        """Have a job done by the thread that writes; those of one caller keep their order."""
        self._store.check()
        with self._guard:
            if self._thread is None or not self._thread.is_alive():  # one that was interrupted as it began
                self._thread = Thread(target=self._run, name="stenolog-writer", daemon=True)
                started(self._thread, self._store.path)
            self._queue.put(waiting)  # only now: what is refused here must not be written later

    def close(self) -> None:
        """End the thread; what is still queued fails, since the datastore is closed."""
        with self._guard:
            thread = self._thread
            if thread is not None:
                self._queue.put(None)
        if thread is not None and thread.is_alive():
            thread.join()

    def _wait(self, job: Job[T]) -> T:
        """Queue the job, and sleep until it is done. Whoever is interrupted meanwhile does not stop it."""
        done = Lock()
        done.acquire()
        waiting = PendingWrite(job, done.release)
        self.submit(waiting)
        done.acquire()
        return waiting.result()

    def _run(self) -> None:
        while True:
            first = None
            with suppress(Empty):
                first = self._queue.get(timeout=0 if self._store.closed else LINGER)
            if first is not None:
                self._commit([first])
                continue
            with self._guard:
                if self._queue.empty():
                    self._thread = None
                    return

    def _commit(self, taken: list[PendingWrite[Any]]) -> None:
        """One transaction of what is taken and what else has come by then; its end is told to all in it."""
        try:
            with self._store.writing(lazily=True) as connection:
                part = WriteBatch(connection, self._store.path)
                for waiting in self._gathering(taken):
                    part.run(waiting)
                part.finish()
        except BaseException as error:
            if isinstance(error, StoreTimeoutError):  # nobody shall wait for the same once more
                taken += self._queued()
            for waiting in taken:
                waiting.error = error
        else:
            part.remember()
        for waiting in taken:
            waiting.done = True
        for wake in dict.fromkeys(waiting.wake for waiting in taken):
            wake()

    def _gathering(self, taken: list[PendingWrite[Any]]) -> Iterator[PendingWrite[Any]]:
        """Yield the jobs already dequeued, then up to `MOST` in all from the queue.

        Each job is dequeued as it is yielded.
        """
        yield from taken
        for waiting in islice(self._queued(), MOST - len(taken)):
            taken.append(waiting)
            yield waiting

    def _queued(self) -> Iterator[PendingWrite[Any]]:
        with suppress(Empty):
            while (waiting := self._queue.get_nowait()) is not None:
                yield waiting
