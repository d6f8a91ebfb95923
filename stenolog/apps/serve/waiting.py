"""Threads for waiting calls, so that no other call waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from .faults import TooManyCallsError

AT_ONCE = 32
"""The most calls done at once, beside those that wait."""
MOST_WAITING = 256
"""The most calls that wait at once; each has a thread for minutes."""
WAITS = frozenset(("tail", "claim"))
"""The methods whose calls wait for entries."""
T = TypeVar("T")


class Waiting:
    """The places of one service. Safe for threads."""

    def __init__(self) -> None:
        self._free = threading.BoundedSemaphore(MOST_WAITING)

    def take(self) -> None:
        """Take a place. Raises `TooManyCallsError` if there is none."""
        if not self._free.acquire(blocking=False):
            raise TooManyCallsError(f"expected at most {MOST_WAITING} calls that wait at once")

    def leave(self) -> None:
        """Give a place back."""
        self._free.release()

    def done(self, work: Callable[[], T]) -> T:
        """Return the result of work that has a place, and free it."""
        try:
            return work()
        finally:
            self.leave()
