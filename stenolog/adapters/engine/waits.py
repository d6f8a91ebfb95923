"""Waits of lanes before a retry, measured by a stopwatch instead of the clock.

A retry's time is recorded by the clock of the process whose call failed. Another host's clock may differ, and
clocks are set back. So the wait itself is read off the error's entry, and measured by a stopwatch from when
this process first saw it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from stenolog.adapters.log import Conversation
from stenolog.domain.effects import CallModel, Effect
from stenolog.domain.entry import Entry
from stenolog.domain.events import LlmError
from stenolog.domain.state import address

PAGE = 256


class Waits:
    """The waits of one conversation's lanes; `watch` counts seconds."""

    def __init__(self, conversation: Conversation, watch: Callable[[], float]) -> None:
        self.conversation = conversation
        self.watch = watch
        self._meant: dict[str, tuple[datetime, float]] = {}
        """Per lane, the next attempt's time by its last error, and the seconds to wait for that attempt."""
        self._seen: dict[str, tuple[datetime, float]] = {}
        """Per lane, that time, and the stopwatch's reading when this process first saw it."""

    def take(self, entry: Entry) -> None:
        """Take an entry in: an error says how long its lane waits."""
        match entry.event:
            case LlmError(agent=agent, task=task, retry_at=datetime() as again):
                self._meant[address(agent, task)] = again, (again - entry.time).total_seconds()
            case _:
                pass

    def seconds_until(self, effect: Effect, now: datetime, most: float) -> float:
        """Return the seconds until an effect may begin, at most so many; 0: now."""
        if not isinstance(effect, CallModel) or effect.time is None or effect.time <= now:
            return 0.0
        where, again = effect.lane.address, effect.time
        if self._seen.get(where, (None,))[0] != again:
            self._seen[where] = again, self.watch()
        gone = self.watch() - self._seen[where][1]
        meant = min(most, self._wait(where, again))
        return max(0.0, min((again - now).total_seconds(), meant - gone))

    def _wait(self, where: str, again: datetime) -> float:
        """Return the seconds that a lane was to wait until `again`; 0 where no error says so."""
        if self._meant.get(where, (None,))[0] != again:
            self._meant[where] = again, self._read(where, again)
        return self._meant[where][1]

    def _read(self, where: str, again: datetime) -> float:
        """Return the wait by the last error of the lane, which stands near the end of the log."""
        at = self.conversation.position
        while at:
            after = max(0, at - PAGE)
            for entry in reversed([*self.conversation.entries(after, at)]):
                match entry.event:
                    case LlmError(agent=agent, task=task, retry_at=retry) if address(agent, task) == where:
                        if retry == again:
                            return (again - entry.time).total_seconds()
                    case _:
                        pass
            at = after
        return 0.0
