"""Sources of nondeterminism: the time, entry ids and random bytes. All three can be injected."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias

Clock: TypeAlias = Callable[[], datetime]
SALT_BYTES = 16
DRAWN = 16
"""Bytes of the pieces that randomness is drawn in, more than are asked for at a time."""
AT_ONCE = 64
"""Pieces that are drawn from the system at once."""
_pools: dict[int, deque[bytes]] = {}
"""By process: what parent and child both have is not random."""


def now() -> datetime:
    """The time, aware, in UTC."""
    return datetime.now(UTC)


def new_id() -> str:
    """A new entry id: 16 hexadecimal digits."""
    return random_bytes(8).hex()


def random_bytes(number: int) -> bytes:
    """Random bytes, as `os.urandom` gives them. Where few are asked for, many are drawn at once: a thread
    that asks the system has to wait for all others that compute."""
    if not 0 <= number <= DRAWN:
        return os.urandom(number)
    pool = _pools.setdefault(os.getpid(), deque())
    while True:
        try:
            return pool.popleft()[:number]
        except IndexError:
            drawn = os.urandom(DRAWN * AT_ONCE)
            pool.extend(drawn[at : at + DRAWN] for at in range(0, len(drawn), DRAWN))


class Sources(NamedTuple):
    """Sources of times, entry ids and salts; `entropy` takes a number of bytes."""

    clock: Clock = now
    id: Callable[[], str] = new_id
    entropy: Callable[[int], bytes] = random_bytes

    def salt(self) -> bytes:
        """Return 16 random bytes, which make the hash of a short payload impossible to guess."""
        return self.entropy(SALT_BYTES)
