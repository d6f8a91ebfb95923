"""Values that take long: they are computed in a thread, while pages say so and ask again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock, Thread
from time import monotonic
from typing import Any, NamedTuple

MOST = 64
"""The values that are kept."""


class Done(NamedTuple):
    """A computed value of a version, or the error that came instead."""

    version: object
    value: Any = None
    error: Exception | None = None


class Later:
    """The last value of each key; of one key one value is computed at a time."""

    def __init__(self) -> None:
        self._done: OrderedDict[Hashable, Done] = OrderedDict()
        self._running: dict[Hashable, Thread] = {}
        self._lock = Lock()

    def get(self, key: Hashable, version: object, work: Callable[[], Any], seconds: float) -> Any:
        """Return the value of a version; None if it is not there in so many seconds. Raises as `work`."""
        end = monotonic() + seconds
        while True:
            with self._lock:
                done = self._done.get(key)
                if done is not None and done.version == version:
                    break
                thread = self._running.get(key) or self._start(key, version, work)
            if (left := end - monotonic()) <= 0:
                return None
            thread.join(left)
        if done.error is not None:
            raise done.error
        return done.value

    def forget(self) -> None:
        """Forget all values."""
        with self._lock:
            self._done.clear()

    def _start(self, key: Hashable, version: object, work: Callable[[], Any]) -> Thread:
        def run() -> None:
            try:
                done = Done(version, work())
            except Exception as error:
                done = Done(version, error=error)
            with self._lock:
                self._done.pop(key, None)
                self._done[key] = done
                if len(self._done) > MOST:
                    self._done.popitem(last=False)
                del self._running[key]

        thread = self._running[key] = Thread(target=run, name="stenolog-later", daemon=True)
        thread.start()
        return thread
