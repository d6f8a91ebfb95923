"""Locks by key, so that a page which is loaded again while it is made is not made twice at a time."""

from __future__ import annotations

from collections.abc import Hashable
from threading import Lock
from weakref import WeakValueDictionary


class KeyedLocks:
    """Locks by key; one that no thread has or waits for is forgotten."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[Hashable, Lock] = WeakValueDictionary()
        self._own = Lock()

    def of(self, key: Hashable) -> Lock:
        """Return the lock of a key, the same one to all who ask at the same time."""
        with self._own:
            return self._locks.setdefault(key, Lock())
