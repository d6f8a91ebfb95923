"""Retries of failed model calls, their waits, and the circuit breaker of a provider."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType

from stenolog.adapters.conversation.log import Conversation
from stenolog.domain.entry import Entry
from stenolog.domain.events import ErrorCategory, LlmError
from stenolog.domain.lanes.effects import CallModel, Effect
from stenolog.domain.lanes.state import address

ATTEMPTS: Mapping[str, int] = MappingProxyType(
    {
        "rate_limited": 8,
        "overloaded": 8,
        "network": 6,
        "timeout": 3,
        "process_exited": 4,
        "invalid_response": 2,
        "context_length": 2,
    }
)
"""The number of attempts in all, by the category of the last failure; other categories are not retried.

A request that was too long is tried again only if a summary or a policy makes it shorter.
"""
BLAMED = ("timeout", "network", "overloaded", "rate_limited")
"""Failure categories that are the provider's fault."""
FALLS_BACK = (*BLAMED, "unauthorized", "budget")
"""Failure categories after which the agent's next model is called."""
ANSWERS = ("context_length", "refused", "invalid_response", "invalid_request", "unauthorized")
"""Failure categories that prove that the provider is reachable and works."""


@dataclass(frozen=True)
class RetryPolicy:
    """Number of attempts at a model call, and the waits between them.

    A wait is `base` seconds, doubled each time up to `max_delay`, minus up to half by chance. A longer
    `retry-after` counts instead; above `max_retry_after` seconds, a person decides. After a failure of a
    category in `falls_back`, an agent's next model is called at once; its last one is tried again.
    """

    attempts: Mapping[str, int] = field(default_factory=lambda: ATTEMPTS)
    base: float = 1.0
    max_delay: float = 60.0
    max_retry_after: float = 600.0
    falls_back: Sequence[str] = FALLS_BACK

    def wait(
        self, category: ErrorCategory, attempt: int, chance: float, retry_after: float | None = None
    ) -> float | None:
        """Return the seconds to wait after attempt number `attempt` (from 1); None: no retry.

        `chance` is a random number from 0 to 1.
        """
        # The same request would be too long again; see `card_patches`.
        if category == "context_length":
            return None
        if attempt >= self.attempts.get(category, 1) or (retry_after or 0) > self.max_retry_after:
            return None
        # The exponent is bounded, since a float overflows at 1024.
        backoff = min(self.max_delay, self.base * 2.0 ** min(attempt - 1, 30))
        # Chance takes up to half away, so that many callers do not come back at once.
        return max(retry_after or 0.0, backoff * (1 - chance / 2))


NO_RETRIES = RetryPolicy(attempts=MappingProxyType({}))


@dataclass
class CircuitBreaker:
    """Breaker: after `failures` failures in a row, no calls for `recovery_time` seconds.

    Then one call tries the provider. Its state is this process's; the log says when a held-back call is tried
    again. Times are in seconds, of any origin.
    """

    failures: int = 5
    recovery_time: float = 30.0
    _in_a_row: int = 0
    _open_until: float | None = None
    is_tried: bool = field(default=False, init=False)
    """True while the one trial call is under way that decides for all others; they wait for its end."""

    def check(self, now: float) -> float:
        """Return 0 to let a call through, else the seconds until the provider may be called."""
        if self._open_until is None:
            return 0.0
        if now < self._open_until:
            return self._open_until - now
        self.is_tried = True
        return 0.0

    def seconds_open(self, now: float) -> float:
        """Return the seconds until the provider may be called; 0: now."""
        return max(0.0, (self._open_until or now) - now)

    def hold(self, now: float, seconds: float) -> None:
        """Hold calls back for at least so many seconds: calls elsewhere have failed."""
        self._open_until = max(self._open_until or now, now + seconds)

    def succeeded(self) -> None:
        """Count an answered call."""
        self._in_a_row, self._open_until, self.is_tried = 0, None, False

    def failed(self, category: str, now: float) -> bool:
        """Count a failed call, by its category. Return whether no call is made from now on."""
        self.stopped()
        # A refusal is an answer, too: it shows that the provider works.
        if category in ANSWERS:
            self.succeeded()
        elif category in BLAMED:
            # Only failures that the provider is to blame for; others say nothing about it.
            self._in_a_row += 1
            if self._in_a_row >= self.failures:
                self._open_until = now + self.recovery_time
                return True
        return False

    def stopped(self) -> None:
        """Note a call that was stopped; it proves nothing."""
        self.is_tried = False


# One lane's requests may be larger, or its key's limit lower, than those of others.
ALONE = ("timeout", "rate_limited")
"""Failure categories that hold back only the lane whose calls fail."""


@dataclass(slots=True)
class LaneBreaker:
    """A model's breaker as one lane meets it: the one that all lanes share, and the lane's own, if any."""

    shared: CircuitBreaker
    own: CircuitBreaker | None
    make: Callable[[], CircuitBreaker]

    def check(self, now: float) -> float:
        """Return 0 to let a call through, else the seconds until the lane may call the model."""
        left = self.own.check(now) if self.own else 0.0
        return left or self.shared.check(now)

    def seconds_open(self, now: float) -> float:
        """Return the seconds until the lane may call the model; 0: now."""
        own = self.own.seconds_open(now) if self.own else 0.0
        return max(own, self.shared.seconds_open(now))

    def succeeded(self) -> None:
        """Count an answered call."""
        self.own = None
        self.shared.succeeded()

    def failed(self, category: str, now: float) -> bool:
        """Count a failed call. Return whether no call is made from now on."""
        if category in ALONE:
            self.shared.stopped()
            self.own = self.own or self.make()
            return self.own.failed(category, now)
        if category in ANSWERS:
            self.own = None
        return self.shared.failed(category, now)

    def stopped(self) -> None:
        """Note a call that was stopped; it proves nothing."""
        self.shared.stopped()


PAGE = 256


# A retry's time is recorded by the clock of the process whose call failed.
# Another host's clock may differ, and clocks are set back.
# So the wait itself is read off the error's entry.
# A stopwatch measures it from when this process first saw it.
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
        """Return the seconds until an effect may begin, at most `most`; 0: now."""
        if not isinstance(effect, CallModel) or effect.time is None or effect.time <= now:
            return 0.0
        where, again = effect.lane.address, effect.time
        if self._seen.get(where, (None,))[0] != again:
            self._seen[where] = again, self.watch()
        gone = self.watch() - self._seen[where][1]
        meant = min(most, self._wait(where, again))
        # By the clock or by the stopwatch, whichever is over first.
        return max(0.0, min((again - now).total_seconds(), meant - gone))

    def _wait(self, where: str, again: datetime) -> float:
        if self._meant.get(where, (None,))[0] != again:
            self._meant[where] = again, self._read(where, again)
        return self._meant[where][1]

    def _read(self, where: str, again: datetime) -> float:
        """Return the wait in seconds by the lane's last error; 0 if no error has it."""
        # Backwards in pages: the error of a waiting lane is near the end of the log.
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
