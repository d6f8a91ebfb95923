"""Waking those who wait for new entries: at once within a process, by a poll across processes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from typing import TypeAlias

Listener: TypeAlias = Callable[[], object]
Versions: TypeAlias = Callable[[], Generator[int, None, None]]
POLL = 0.05
"""Seconds between two looks at what other processes have committed."""


class CommitNotifier:
    """Calls its listeners whenever the log has grown; now and then also when it has not.

    `versions` makes a generator whose value changes with every commit of another process; None where there
    can be no other. It is asked by one thread, which lives only while somebody listens.
    """

    def __init__(self, versions: Versions | None) -> None:
        self._versions = versions
        self._listeners: dict[object, Listener] = {}
        self._guard = threading.Lock()
        self._stop: threading.Event | None = None

    def notify(self) -> None:
        """Call every listener. They must be quick."""
        for listener in tuple(self._listeners.values()):
            with suppress(RuntimeError):  # the event loop of a listener may have ended
                listener()

    @contextmanager
    def subscribe(self, listener: Listener) -> Iterator[None]:
        """Have `listener` called from now on. Look at the log once more after this begins: it may have
        grown before."""
        key = object()
        with self._guard:
            self._listeners[key] = listener
            self._start()
        try:
            yield
        finally:
            with self._guard:
                del self._listeners[key]
                if not self._listeners:
                    self._end()

    def close(self) -> None:
        """Stop looking, and wake everybody so that they notice."""
        with self._guard:
            self._end()
        self.notify()

    def _start(self) -> None:
        if self._stop is None and self._versions is not None:
            self._stop = threading.Event()
            work = (self._versions(), self._stop)
            threading.Thread(target=self._poll, args=work, name="stenolog-tail", daemon=True).start()

    def _end(self) -> None:
        if self._stop is not None:
            self._stop.set()
            self._stop = None

    def _poll(self, versions: Generator[int, None, None], stop: threading.Event) -> None:
        with closing(versions):
            seen = None  # rings at once: something may have come before the first look
            while True:
                seen, before = next(versions), seen
                if seen != before:
                    self.notify()
                if stop.wait(POLL):
                    return
