"""Randomness, sleep and stopwatch of the engine. Clock and ids come from the log."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Runtime:
    """`chance` gives numbers from 0 to 1, `sleep` waits so many seconds, `stopwatch` counts them.

    Times and ids are those of the log (`stenolog.open(clock=…, ids=…)`).
    """

    chance: Callable[[], float] = random.random
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    stopwatch: Callable[[], float] = time.monotonic
