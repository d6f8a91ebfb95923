"""What only the edge of the world can give: the time, a new id, random bytes. All three can be injected."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias

Clock: TypeAlias = Callable[[], datetime]
SALT_BYTES = 16


def now() -> datetime:
    """The time, aware, in UTC."""
    return datetime.now(UTC)


def new_id() -> str:
    """A new entry id: 16 hexadecimal digits."""
    return os.urandom(8).hex()  # as the module `secrets` does, which takes long to import


class Edge(NamedTuple):
    """Where times, entry ids and salts come from; `entropy` takes a number of bytes."""

    clock: Clock = now
    id: Callable[[], str] = new_id
    entropy: Callable[[int], bytes] = os.urandom

    def salt(self) -> bytes:
        """What makes the hash of a short payload impossible to guess: 16 bytes."""
        return self.entropy(SALT_BYTES)
