"""A queue of writes, for a thread that makes those together which arrive during a transaction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, Generic, Protocol, TypeVar

from .notifier import started

A = TypeVar("A")
T = TypeVar("T")
# All callers of a group wait for all of its writes, so a group must not grow without end.
MOST = 256
"""Writes in one transaction."""
# Long enough that writes of the same burst need not start a thread anew.
LINGER = 1.0
"""Seconds that the thread waits for another write before it ends."""


class PendingWrite(Generic[A, T]):
    """A write that a caller asked for; `done` if written or refused.

    Those of a transaction with the same `wake` share one call.
    """

    __slots__ = ("asked", "done", "error", "wake", "written")
    written: T

    def __init__(self, asked: A, wake: Callable[[], object]) -> None:
        self.asked = asked
        self.wake = wake
        self.done = False
        self.error: BaseException | None = None

    def result(self) -> T:
        """Return the result. Raises the write's error, or its transaction's."""
        if self.error is not None:
            raise self.error
        return self.written


class QueueStore(Protocol):
    """A datastore as `WriteQueue` needs it."""

    path: str

    def check(self) -> None:
        """Raise `StoreError` if the datastore is unusable."""


class WriteQueue(ABC, Generic[A]):
    """Writes of a process, made in order by a thread that lives while there are some."""

    def __init__(self, store: QueueStore) -> None:
        self._store = store
        self._queue: SimpleQueue[PendingWrite[A, Any] | None] = SimpleQueue()
        # Protects `_thread`: a write is queued only while a thread is alive that will see it.
        self._guard = Lock()
        self._thread: Thread | None = None
        self._is_closing = False

    def submit(self, waiting: PendingWrite[A, Any]) -> None:
        """Queue a write; those of one caller keep their order."""
        self._store.check()
        with self._guard:
            # A thread that was interrupted as it began is there, but does not live.
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self._run, name="stenolog-writer", daemon=True)
                started(self._thread, self._store.path)
            # Queued only once the thread runs: a write that is refused here must not be made later.
            self._queue.put(waiting)

    def close(self) -> None:
        """End the thread, once it has seen what was queued."""
        self._is_closing = True
        with self._guard:
            # Taken under the guard, because the thread sets `_thread` to None when it ends.
            thread = self._thread
            if thread is not None:
                self._queue.put(None)
        if thread is not None and thread.is_alive():
            # Joined without the guard, which the thread needs to end.
            thread.join()

    @abstractmethod
    def _write_together(self, first: PendingWrite[A, Any]) -> None:
        """Make a write, and others of `_queued`; then `_finish` them."""

    def _run(self) -> None:
        while True:
            first = None
            with suppress(Empty):
                # A closed queue gets no more writes, so the thread need not linger.
                first = self._queue.get(timeout=0 if self._is_closing else LINGER)
            if first is not None:
                self._write_together(first)
                continue
            with self._guard:
                # Asked under the guard: a write that came just before it is still seen by this thread.
                if self._queue.empty():
                    self._thread = None
                    return

    def _queued(self) -> Iterator[PendingWrite[A, Any]]:
        with suppress(Empty):
            while (waiting := self._queue.get_nowait()) is not None:
                yield waiting

    @staticmethod
    def _finish(taken: Iterable[PendingWrite[A, Any]]) -> None:
        # Every write is marked before any caller is woken, since one `wake` may serve several.
        for waiting in taken:
            waiting.done = True
        for wake in dict.fromkeys(waiting.wake for waiting in taken):
            wake()
