"""Work in the background, between two pages: what the next page is likely to need."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from threading import Lock, Thread

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
