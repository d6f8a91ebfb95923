"""When a model call that failed is tried again, and when a provider that fails is left alone for a while."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from stenolog.domain.errors import ModelFailed
from stenolog.domain.events import ErrorCategory

ATTEMPTS: Mapping[str, int] = MappingProxyType(
    {
        "rate_limited": 8,
        "overloaded": 8,
        "network": 6,
        "timeout": 3,
        "process_exited": 4,
        "invalid_response": 2,
    }
)
"""How often a call is tried in all, by the category of its last failure; the others are not tried again."""


@dataclass(frozen=True)
class Retries:
    """How often a model call is tried, and how long is waited between.

    That is `base` seconds, doubled each time up to `cap`; chance takes up to a half away, so that many do not
    come back at once.

    A provider's `retry-after` is waited for where it is longer; where it is longer than `patience` seconds a
    person decides.
    """

    attempts: Mapping[str, int] = field(default_factory=lambda: ATTEMPTS)
    base: float = 1.0
    cap: float = 60.0
    patience: float = 600.0

    def wait(
        self, category: ErrorCategory, attempt: int, chance: float, retry_after: float | None = None
    ) -> float | None:
        """Seconds to wait after the failed attempt (counted from 1); None: it is not tried again.

        `chance` is a random number from 0 to 1.
        """
        if attempt >= self.attempts.get(category, 1) or (retry_after or 0) > self.patience:
            return None
        backoff = min(self.cap, self.base * 2.0 ** min(attempt - 1, 30))
        return max(retry_after or 0.0, backoff * (1 - chance / 2))


NO_RETRIES = Retries(attempts=MappingProxyType({}))


@dataclass
class Breaker:
    """After `failures` failures in a row a provider is left alone for `rest` seconds; then one call tries it.

    It is memory of this process and no truth: what it refuses is recorded as a failure like any other.
    """

    failures: int = 5
    rest: float = 30.0
    _in_a_row: int = 0
    _open_until: float = 0.0

    def check(self, now: float) -> None:
        """Let a call through, or refuse it by `ModelFailed`. `now` is a time in seconds, of any origin."""
        if now < self._open_until:
            left = self._open_until - now
            raise ModelFailed(
                "overloaded",
                f"not tried: {self._in_a_row} calls in a row have failed; left alone for {left:.0f} s more",
                retry_after=left,
            )
        if self._in_a_row >= self.failures:
            self._open_until = now + self.rest  # one call tries it; the others wait on

    def succeeded(self) -> None:
        """A call was answered."""
        self._in_a_row, self._open_until = 0, 0.0

    def failed(self, category: str, now: float) -> None:
        """A call failed. Only what the provider is to blame for counts."""
        if category in ("timeout", "network", "overloaded", "rate_limited"):
            self._in_a_row += 1
            if self._in_a_row >= self.failures:
                self._open_until = now + self.rest
