"""Waking those who wait for new entries: at once within a process, by a poll across processes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

Listener: TypeAlias = Callable[[], object]
Probe: TypeAlias = Callable[[], int]
POLL = 0.05
"""Seconds between two looks at what other processes have committed."""


class Bell:
    """Calls its listeners whenever the log has grown; now and then also when it has not.

    `make_probe` gives a function whose value changes with every commit of another process. It is asked by
    one thread, which lives only while somebody listens.
    """

    def __init__(self, make_probe: Callable[[], Probe | None]) -> None:
        self._make_probe = make_probe
        self._listeners: dict[object, Listener] = {}
        self._guard = threading.Lock()
        self._stop: threading.Event | None = None

    def ring(self) -> None:
        """Call every listener. They must be quick, and must not raise."""
        for listener in tuple(self._listeners.values()):
            with suppress(RuntimeError):  # the event loop of a listener may have ended
                listener()

    @contextmanager
    def listening(self, listener: Listener) -> Iterator[None]:
        """Have `listener` called from now on. Look at the log once more after this begins: it may have
        grown before."""
        key = object()
        with self._guard:
            self._listeners[key] = listener
            if self._stop is None:
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
        self.ring()

    def _start(self) -> None:
        probe = self._make_probe()
        if probe is None:
            return
        self._stop = threading.Event()
        threading.Thread(
            target=self._poll, args=(probe, self._stop), name="stenolog-tail", daemon=True
        ).start()

    def _end(self) -> None:
        if self._stop is not None:
            self._stop.set()
            self._stop = None

    def _poll(self, probe: Probe, stop: threading.Event) -> None:
        seen = probe()
        while not stop.wait(POLL):
            now = probe()
            if now != seen:
                seen = now
                self.ring()
