"""Locks on single bytes of a log's lock file, far behind its end.

They are Linux's open file description locks: each belongs to an open file and not to its process, and the
kernel releases it when that is closed or its process ends.
"""

from __future__ import annotations

import os
import struct

try:
    from fcntl import F_OFD_GETLK, F_OFD_SETLK, F_RDLCK, F_UNLCK, F_WRLCK, fcntl
except ImportError:  # pragma: no cover - not on Linux
    fcntl = None  # type: ignore[assignment]
    F_RDLCK = F_UNLCK = F_WRLCK = 0  # type: ignore[misc]

SUPPORTED = fcntl is not None
OPENING = 1 << 61
"""The byte that a process has locked while it opens the database; exclusively, while it replaces it."""
BLOBS = 1 << 62
"""The first of the bytes that stand for blobs."""
SHARED, EXCLUSIVE, FREE = F_RDLCK, F_WRLCK, F_UNLCK
_FLOCK = "hhqqi0q"
"""The C struct: type, whence, start, length, process."""


def lock(file: int, place: int, kind: int) -> None:
    """Lock or unlock one byte. Raises OSError where another open file has a lock in the way."""
    if SUPPORTED:
        fcntl(file, F_OFD_SETLK, struct.pack(_FLOCK, kind, os.SEEK_SET, place, 1, 0))


def is_locked(file: int, place: int) -> bool:
    """Return whether another open file has a lock on a byte."""
    if not SUPPORTED:
        return False
    found = fcntl(file, F_OFD_GETLK, struct.pack(_FLOCK, EXCLUSIVE, os.SEEK_SET, place, 1, 0))
    return bool(struct.unpack(_FLOCK, found)[0] != FREE)
