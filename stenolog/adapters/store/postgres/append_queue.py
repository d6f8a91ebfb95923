"""Appends by another thread: those that arrive during a transaction share the next."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from stenolog.adapters.store.contract.appends import Append, Appended
from stenolog.adapters.store.contract.notifier import started
from stenolog.domain.entry import Record
from stenolog.domain.errors import StenologError

from . import appends
from .appends import Crowds
from .connection.datastore import LogConnection, PostgresLogDatastore

# All callers of a group wait for all of its appends, so a group must not grow without end.
MOST = 256
"""Appends in one transaction."""
LINGER = 1.0
"""Seconds that the thread waits for another append before it ends."""


class PendingWrite:
    """An append in the queue; see `PendingInsert`."""

    __slots__ = ("asked", "done", "error", "records", "wake")

    def __init__(self, asked: Append, wake: Callable[[], object]) -> None:
        self.asked = asked
        self.wake = wake
        self.done = False
        self.records: list[Record] = []
        self.error: BaseException | None = None

    def result(self) -> list[Record]:
        """Return the records, or raise the error of their write."""
        if self.error is not None:
            raise self.error
        return self.records


class AppendQueue:
    """A process's appends, made in order by a thread; `ring` is called after each commit."""

    def __init__(self, store: PostgresLogDatastore, crowds: Crowds, ring: Callable[[], object]) -> None:
        self._store = store
        self._crowds = crowds
        self._ring = ring
        self._queue: SimpleQueue[PendingWrite | None] = SimpleQueue()
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None

    def submit(self, asked: Append, wake: Callable[[], object]) -> PendingWrite:
        """Have an append made; `wake` is called when it is done."""
        self._store.check()
        waiting = PendingWrite(asked, wake)
        with self._guard:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="stenolog-writer", daemon=True)
                started(self._thread, self._store.path)
            self._queue.put(waiting)
        return waiting

    def close(self) -> None:
        """End the thread, once it has made what was submitted."""
        with self._guard:
            thread = self._thread
            if thread is not None:
                self._queue.put(None)
        if thread is not None and thread.is_alive():
            thread.join()

    def _run(self) -> None:
        while True:
            try:
                first = self._queue.get(timeout=LINGER)
            except Empty:
                first = None
            if first is None:
                with self._guard:
                    if self._queue.empty():
                        self._thread = None
                        return
                continue
            self._make(self._gathered(first))

    def _gathered(self, first: PendingWrite) -> list[PendingWrite]:
        taken = [first]
        while len(taken) < MOST:
            try:
                waiting = self._queue.get_nowait()
            except Empty:
                break
            if waiting is None:
                self._queue.put(None)  # the end is for later
                break
            taken.append(waiting)
        return taken

    def _make(self, taken: list[PendingWrite]) -> None:
        if len(taken) == 1 or not self._together(taken):
            # Each by itself, in order: one that is refused keeps no other from being written.
            for waiting in taken:
                try:
                    waiting.records = appends.append(self._store, self._crowds, waiting.asked)
                except BaseException as error:
                    waiting.error = error
        # Every append is marked before any caller is woken, since one `wake` may serve several.
        for waiting in taken:
            waiting.done = True
        for wake in dict.fromkeys(waiting.wake for waiting in taken):
            wake()
        self._ring()

    def _together(self, taken: list[PendingWrite]) -> bool:
        """Make the appends in one transaction; return False where one of them was refused, and none made."""

        def write(connection: LogConnection, again: bool) -> list[Appended]:
            appends.take_turns_of(connection, {waiting.asked.stream.name for waiting in taken})
            return [appends.append_checked(connection, waiting.asked, again=again) for waiting in taken]

        try:
            made = self._store.repeat(write)
        except StenologError:
            return False
        for waiting, done in zip(taken, made, strict=True):
            waiting.records = done.records
            waiting.asked.stream.key, waiting.asked.stream.head = done.key, done.head
        return True
