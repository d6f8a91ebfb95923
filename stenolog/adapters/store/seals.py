"""Seals on what stands beside the log: computed with a key that is kept in the log itself.

Somebody who can write the files beside the log, but cannot read the log, cannot seal what he puts there.
"""

from __future__ import annotations

import os
import sqlite3
from hashlib import blake2b

KEY = "SELECT bytes FROM secret WHERE name = 'sidecars'"
KEY_BYTES = 32


def key_of(connection: sqlite3.Connection) -> bytes:
    """Return the key of a log; where there is none, one that nothing was sealed with."""
    row = connection.execute(KEY).fetchone()
    found = row[0] if row else None
    return found if isinstance(found, bytes) and len(found) == KEY_BYTES else os.urandom(KEY_BYTES)


class Seals:
    """Computes seals with one key."""

    def __init__(self, key: bytes = b"") -> None:
        self._key = key

    def renew(self, key: bytes) -> None:
        """Use another key: what was sealed before is not used any more."""
        self._key = key

    def seal(self, *parts: bytes, size: int = 32) -> bytes:
        """Return the seal of some parts, in this order; no two lists of parts have the same content."""
        sealed = blake2b(key=self._key, digest_size=size)
        for part in parts:
            sealed.update(len(part).to_bytes(8, "big") + part)
        return sealed.digest()
