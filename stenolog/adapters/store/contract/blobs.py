"""Blobs: content stored once by its sha256, while an entry names it."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256

from stenolog.domain.errors import BlobNotFoundError

from .recorder import LogRecorder

MOST_UNPACKED = 100_000_000
"""Bytes of a blob that are read: a small one may unpack to very many."""
SHA = re.compile(rb"[0-9a-f]{64}")
_IS_HEX = bytes([chr(byte) in "0123456789abcdef" for byte in range(256)])
# Among 64 digits in a row, eight of every eighth byte are digits, one behind the other.
_ALL_HEX = bytes([True] * 8)


def key_of(sha: object) -> bytes | None:
    """Return a hash's stored form; None, which no row has, for other text."""
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


def unpacked(blobs: Mapping[str, bytes], sha: str) -> bytes:
    """Return a blob's bytes as they read: of a whole request unpacked, of one that is not there none."""
    try:
        content = blobs[sha]
        return zlib.decompressobj().decompress(content, MOST_UNPACKED)
    except BlobNotFoundError:
        return b""
    except zlib.error:
        return content


class Blobs(Mapping[str, bytes]):
    """A log's blobs by sha256 (64 hexadecimal digits).

    `blobs[sha]` raises `BlobNotFoundError` (a KeyError) for a missing or damaged one.
    """

    def __init__(self, recorder: LogRecorder) -> None:
        self._recorder = recorder

    def put(self, content: bytes) -> str:
        """Store the content unless present; return its sha256.

        Call it before each append that names it: `Log.collect` removes blobs that no entry names and no
        living process has put.
        """
        return self.put_all([content])[0]

    def put_all(self, contents: Iterable[bytes]) -> list[str]:
        """Store several blobs in one transaction and return their sha256 names."""
        named = [(sha256(content).hexdigest(), content) for content in contents]
        # Also where the blob is there already: putting it pins it until an entry names it.
        self._recorder.blobs.put(named)
        return [sha for sha, _ in named]

    def __getitem__(self, sha: str) -> bytes:
        content = self._recorder.blobs.get(sha)
        if content is None:
            raise BlobNotFoundError(f"{self._recorder.path}: no blob with the sha256 {sha}")
        # The hash is what the entry says, so bytes that have another one are not what was put.
        if sha256(content).hexdigest() != sha:
            raise BlobNotFoundError(f"{self._recorder.path}: the blob {sha} is damaged")
        return content

    def __contains__(self, sha: object) -> bool:
        return isinstance(sha, str) and self._recorder.blobs.has(sha)

    def __iter__(self) -> Iterator[str]:
        return iter(self._recorder.blobs.shas())

    def __len__(self) -> int:
        return len(self._recorder.blobs.shas())
