"""Results of effects that are not written yet, kept in memory as long as the process lives.

A store that is busy past its deadline must not turn a finished call into one of unknown outcome.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from stenolog.adapters.store.claims import Claim
from stenolog.domain.errors import StoreTimeoutError

from .journal import Instead, Outcome

PATIENCE = 60.0
"""Seconds for which a runner that is closed waits for a busy store."""
PAUSE = 0.05
_finished: dict[str, tuple[Outcome, Instead]] = {}  # by the idempotency keys of the effects


def keep(claim: Claim, outcome: Outcome, instead: Instead) -> None:
    """Keep what came of an effect until it is written; `instead` is for what no log can hold."""
    _finished[claim.key] = outcome, instead


def of(claim: Claim) -> tuple[Outcome, Instead] | None:
    """Return what came of an effect, where this process knows, and what stands for it where it is unfit."""
    return _finished.get(claim.key) if claim.key else None


def written(claim: Claim) -> None:
    """Forget what came of an effect: it is in the log, or is not wanted there."""
    _finished.pop(claim.key, None)


def pause(failures: int) -> float:
    """Return the seconds to wait after so many failures in a row."""
    return float(min(1.0, PAUSE * 2 ** min(failures, 10)))


def patiently(write: Callable[[], object]) -> None:
    """Write, and try again while the store is busy. Raises `StoreTimeoutError` after `PATIENCE` seconds."""
    end, failures = time.monotonic() + PATIENCE, 0
    while True:
        try:
            write()
            return
        except StoreTimeoutError:
            if time.monotonic() > end:
                raise
        time.sleep(pause(failures))
        failures += 1
