"""Payloads as a file stores them: long ones are compressed.

The digest is that of the payload itself. Beside a compressed payload stands its length.
"""

from __future__ import annotations

import zlib
from typing import Any

from stenolog.domain.erasure import is_receipt

LONG = 1_024
"""Bytes from which on a payload is compressed; the entries of a talk are mostly shorter."""
# It makes less than half of most tool results and receipts. Level 6 takes twice as long for a tenth more.
LEVEL = 1


def compressed(payload: bytes) -> tuple[bytes, int | None]:
    """Return the bytes that are stored of a payload, and its length if they are compressed, else None."""
    # The message of an erasure is looked for in the stored bytes.
    if len(payload) < LONG or is_receipt(payload):
        return payload, None
    stored = zlib.compress(payload, LEVEL)
    return (stored, len(payload)) if len(stored) < len(payload) else (payload, None)


def decompressed(stored: Any, size: Any) -> Any:
    """Return the payload of this length; bytes that give none come back as they are.

    The digest of the entry shows these as damaged.
    """
    reading = zlib.decompressobj()
    try:
        # With the limit, damaged bytes cannot fill the memory.
        payload = reading.decompress(stored, max(size, 1))
    except (zlib.error, TypeError, OverflowError):
        return stored
    # Bytes behind the end are in no digest: they would travel in a row that seems proved.
    return payload if reading.eof and len(payload) == size and not reading.unused_data else stored
