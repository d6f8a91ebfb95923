"""Work in the background: values that take long, and what the next page is likely to need."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sized
from threading import Lock, Thread
from typing import Any, NamedTuple

MOST_VALUES = 64
"""The values that are kept."""
MOST_ITEMS = 100_000
"""The items in all of them, such as a conversation's calls; the newest value is kept however many it has."""


class Done(NamedTuple):
    """A computed value of a version, or the error that came instead."""

    version: object
    value: Any = None
    error: Exception | None = None


class Later:
    """The last value of each key; of one key one value is computed at a time.

    If the values are too many, or have too many items, the oldest are evicted.
    """

    def __init__(self) -> None:
        self._done: OrderedDict[Hashable, Done] = OrderedDict()
        self._running: dict[Hashable, Thread] = {}
        self._lock = Lock()

    def get(self, key: Hashable, version: object, work: Callable[[], Any], seconds: float) -> Any:
        """Return the value of a version; None if it is not there in so many seconds. Raises as `work`."""
        end = time.monotonic() + seconds
        while True:
            with self._lock:
                done = self._done.get(key)
                if done is not None and done.version == version:
                    if done.error is not None:
                        # It may have passed, as that of a locked database has: the next page tries again.
                        del self._done[key]
                    break
                thread = self._running.get(key) or self._start(key, version, work)
            if (left := end - time.monotonic()) <= 0:
                return None
            thread.join(left)
        if done.error is not None:
            raise done.error
        return done.value

    def last(self, key: Hashable) -> Any:
        """Return the value of the version before, while a new one is computed; None without one."""
        with self._lock:
            done = self._done.get(key)
        return None if done is None else done.value

    def forget(self) -> None:
        """Forget all values."""
        with self._lock:
            self._done.clear()
            # What is being computed has read what is to be forgotten.
            self._running.clear()

    def _evict(self) -> None:
        items = sum(_items(done.value) for done in self._done.values())
        while len(self._done) > MOST_VALUES or (items > MOST_ITEMS and len(self._done) > 1):
            _, done = self._done.popitem(last=False)
            items -= _items(done.value)

    def _start(self, key: Hashable, version: object, work: Callable[[], Any]) -> Thread:
        def run() -> None:
            try:
                done = Done(version, work())
            except Exception as error:
                done = Done(version, error=error)
            with self._lock:
                if self._running.get(key) is not thread:
                    return
                self._done.pop(key, None)
                self._done[key] = done
                self._evict()
                del self._running[key]

        thread = self._running[key] = Thread(target=run, name="stenolog-later", daemon=True)
        thread.start()
        return thread


def _items(value: object) -> int:
    held = getattr(value, "calls", value)
    return len(held) if isinstance(held, Sized) else 0


IDLE_SECONDS = 0.25
"""The seconds without a question after which work goes on."""
MOST = 8
"""The pieces of work that wait; the oldest of more goes."""
DONE = 256
"""The pieces of work that are remembered, and are not done again."""


class Warmer:
    """Does work step by step, in a thread of its own that ends when all is done."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[Hashable, Iterator[Callable[[], object]]] = OrderedDict()
        self._seen: OrderedDict[Hashable, None] = OrderedDict()
        self._asked = 0.0
        self._thread: Thread | None = None
        self._lock = Lock()

    def note_question(self) -> None:
        """Let the work wait, since a page is asked for."""
        self._asked = time.monotonic()

    def add(self, key: Hashable, steps: Iterable[Callable[[], object]]) -> None:
        """Do the steps some time, unless work of that key was added lately; False ends them."""
        with self._lock:
            if key in self._seen:
                return
            self._seen[key] = None
            self._waiting[key] = iter(steps)
            for kept, most in ((self._seen, DONE), (self._waiting, MOST)):
                if len(kept) > most:
                    kept.popitem(last=False)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="stenolog-warming", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            while (left := self._asked + IDLE_SECONDS - time.monotonic()) > 0:
                time.sleep(left)
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                key, steps = next(reversed(self._waiting.items()))
            # Nobody waits for this, and the log may be closed: a page with the same fault tells it.
            try:
                step = next(steps, None)
                is_over = step is None or step() is False
            except Exception:
                is_over = True
            if is_over:
                with self._lock:
                    self._waiting.pop(key, None)
