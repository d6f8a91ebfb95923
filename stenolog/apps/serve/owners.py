"""Named owners of claims, each alive as long as its connection or lease."""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import inf

from stenolog.adapters.conversation.log import Conversation, Log

from .runner import Runner


class Owner:
    """An owner of claims: the presence that shows its life, and its runners by conversation.

    `until` is the end of its lease on the stopwatch, `lease` its length in seconds.
    """

    def __init__(self, log: Log, lease: float) -> None:
        self._presence = log.recorder.claims.presence(log.edge.id())
        self._runners: dict[str, Runner] = {}
        self._turn = threading.Lock()
        self.lease = lease
        self.until = inf

    def runner(self, conversation: Conversation) -> Runner:
        """Return the owner's runner on a conversation."""
        with self._turn:
            return self._runners.setdefault(conversation.name, Runner(conversation, self._presence))

    def close(self) -> None:
        """End the owner: its claims are those of a dead runner."""
        self._presence.close(keep=True)


class Owners:
    """The owners by name. `is_leased`: one that does not call during its lease is ended.

    `stopwatch` counts seconds.
    """

    def __init__(self, log: Log, stopwatch: Callable[[], float], *, is_leased: bool) -> None:
        self._log = log
        self._stopwatch = stopwatch
        self.is_leased = is_leased
        self._owners: dict[str, Owner] = {}
        self._turn = threading.Lock()

    def renew(self, name: str, lease: float | None = None) -> Owner:
        """Return the owner, which has just called; `lease` None keeps the length."""
        self.end_lapsed()
        with self._turn:
            owner = self._owners.get(name)
            if owner is None:
                owner = self._owners[name] = Owner(self._log, lease or DEFAULT_LEASE)
            owner.lease = lease or owner.lease
            owner.until = self._stopwatch() + owner.lease if self.is_leased else inf
            return owner

    def leave(self, name: str) -> None:
        """End an owner, if there is one."""
        with self._turn:
            if owner := self._owners.pop(name, None):
                owner.close()

    def end_lapsed(self) -> None:
        """End the owners whose leases are over."""
        now = self._stopwatch()
        for name in [name for name, owner in self._owners.copy().items() if owner.until < now]:
            self.leave(name)

    def close(self) -> None:
        """End all of them."""
        for name in [*self._owners]:
            self.leave(name)


DEFAULT_LEASE = 60.0
"""The seconds after which a silent owner is ended."""
