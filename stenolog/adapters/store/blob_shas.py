"""The sha256 of blobs: as a key, and wherever a payload names one."""

from __future__ import annotations

import re

SHA = re.compile(rb"[0-9a-f]{64}")
_IS_HEX = bytes(chr(byte) in "0123456789abcdef" for byte in range(256))
# Among 64 digits in a row, eight of every eighth byte are digits, one behind the other.
_ALL_HEX = bytes([True] * 8)


def key_of(sha: object) -> bytes | None:
    """Return the stored form of a hash; None, which no row has, for any other text."""
    if not isinstance(sha, str) or len(sha) != 64 or sha != sha.lower():
        return None
    try:
        return bytes.fromhex(sha)
    except ValueError:
        return None


def shas_in(payload: bytes) -> set[str]:
    """Return all that looks like the sha256 of a blob."""
    # Of 64 digits in a row every eighth is one. That is seen sooner than the pattern fails at each digit.
    if _ALL_HEX not in payload[7::8].translate(_IS_HEX):
        return set()
    return {sha.decode() for sha in SHA.findall(payload)}
