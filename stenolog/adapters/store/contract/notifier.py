"""Threads of a store: their start, and how commits wake the log's followers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from threading import Thread
from typing import TypeAlias

from eventsourcing.persistence import ListenNotifySubscription

from stenolog.domain.errors import StoreError

from .recorder import LogRecorder


def started(thread: Thread, where: str) -> None:
    """Start a thread. Raises `StoreError` if the machine has none left."""
    try:
        thread.start()
    # "can't start new thread": the machine's limit, and not a fault of ours.
    except RuntimeError as error:
        raise StoreError(f"{where}: {error}") from error


Listener: TypeAlias = Callable[[], object]
Versions: TypeAlias = Callable[[], Generator[int, None, None]]
POLL = 0.05
"""Seconds between two looks at what other processes have committed."""


class CommitNotifier:
    """Caller of listeners whenever the log has grown, and sometimes otherwise.

    While there are listeners, a thread polls the generator that `versions` returns: its value changes with
    other processes' commits, and after a failure, which listeners meet when they read. None: there are none.
    """

    def __init__(self, versions: Versions | None, *, pause: float = POLL) -> None:
        self._versions = versions
        self._pause = pause
        self.listeners: dict[object, tuple[Listener, bool]] = {}
        self._guard = threading.Lock()
        self._stop: threading.Event | None = None

    def notify(self, *, drafts: bool = False) -> None:
        """Call every listener, or with `drafts` those that asked for them. They must be fast."""
        # A copy, because listeners come and go in other threads meanwhile.
        for listener, wants_drafts in tuple(self.listeners.values()):
            if drafts and not wants_drafts:
                continue
            # The event loop of a listener may have ended.
            with suppress(RuntimeError):
                listener()

    @contextmanager
    def subscribe(self, listener: Listener, *, drafts: bool = False) -> Iterator[None]:
        """Call `listener` from now on; with `drafts` also when only a draft has grown.

        Read the log once more after this begins: it may have grown before.
        """
        key = object()
        with self._guard:
            self.listeners[key] = listener, drafts
            self._start()
        try:
            yield
        finally:
            with self._guard:
                del self.listeners[key]
                if not self.listeners:
                    self._end()

    def close(self) -> None:
        """Stop looking, and wake every listener."""
        with self._guard:
            self._end()
        # Listeners that wait see that the log is closed only when they are woken.
        self.notify()

    def _start(self) -> None:
        if self._stop is None and self._versions is not None:
            self._stop = threading.Event()
            # Each thread has its own event: one that is ending must not see the event of its successor.
            work = (self._versions(), self._stop)
            threading.Thread(target=self._poll, args=work, name="stenolog-tail", daemon=True).start()

    def _end(self) -> None:
        if self._stop is not None:
            self._stop.set()
            self._stop = None

    def _poll(self, versions: Generator[int, None, None], stop: threading.Event) -> None:
        with closing(versions):
            # None differs from any version: this rings at once, as an entry may have come before the look.
            seen = None
            # A thread that begins after its end was asked for opens nothing: the log may be gone.
            while not stop.is_set():
                seen, before = next(versions), seen
                if seen != before:
                    self.notify()
                stop.wait(self._pause)


class LogSubscription(ListenNotifySubscription[LogRecorder]):
    """A subscription that a log's own news of commits wakes."""

    def _loop_on_pull(self) -> None:
        # From before the first look. The library's own subscriptions begin to listen after it. There an entry
        # that is recorded in between waits for the next append.
        with self._recorder.listening(self._has_been_notified.set):
            super()._loop_on_pull()
