"""Listener of a runner for commits of other writers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable


class CommitListener:
    """Listener that calls `wake` in the event loop after commits of others.

    It gathers news for `gather` seconds first; 0: each wakes at once.
    """

    def __init__(self, wake: Callable[[], None], own_thread: int, gather: float) -> None:
        self._wake = wake
        self._own_thread = own_thread
        self._gather = gather
        self._loop = asyncio.get_running_loop()
        self._is_due = False

    def __call__(self) -> None:
        # What this runner's own thread writes is no news, and must not wake it without end.
        if threading.get_ident() == self._own_thread or self._is_due:
            return
        self._is_due = self._gather > 0
        self._loop.call_soon_threadsafe(self._later if self._is_due else self._wake)

    def _later(self) -> None:
        self._loop.call_later(self._gather, self._ring)

    def _ring(self) -> None:
        # Before the look: what is committed during it is met by the next one.
        self._is_due = False
        self._wake()
