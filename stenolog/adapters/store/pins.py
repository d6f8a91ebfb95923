"""Pins: blobs that a process has put and that no entry names yet.

A pin is a lock on one byte of the log's lock file, far behind its end, at a place that the hash of the blob
gives. The kernel releases it when the process ends, so a pin never outlives its process.
"""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Iterable

from stenolog.domain.errors import StoreError

from . import byte_locks, lockfile, permissions

SUPPORTED = byte_locks.SUPPORTED
SHA = re.compile(rb"[0-9a-f]{64}")
_IS_HEX = bytes(chr(byte) in "0123456789abcdef" for byte in range(256))
_ALL_HEX = bytes([True] * 8)


def shas_in(payload: bytes) -> set[str]:
    """Return all that looks like the sha256 of a blob."""
    # Of 64 digits in a row every eighth is one, which is seen sooner than the pattern fails at each digit.
    if _ALL_HEX not in payload[7::8].translate(_IS_HEX):
        return set()
    return {sha.decode() for sha in SHA.findall(payload)}


class Pins:
    """The pins of one log; safe to share between threads. `path` is the lock file; "" for a log in memory."""

    def __init__(self, path: str, database: str) -> None:
        self._path = path
        self._database = database
        self._put: Counter[str] = Counter()
        self._file: int | None = None
        self._process = os.getpid()
        self._turn = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._put)

    def add(self, shas: Iterable[str]) -> None:
        """Pin blobs; call it before they are written. Raises `StoreError`."""
        with self._turn:
            for sha in shas:
                if not self._put[sha]:
                    self._lock(sha, byte_locks.SHARED)
                self._put[sha] += 1

    def remove(self, payload: bytes) -> None:
        """Unpin the blobs that an entry with this payload names; call it once the entry is durable."""
        for sha in shas_in(payload):
            with self._turn:
                if sha not in self._put:
                    continue
                self._put[sha] -= 1
                if not self._put[sha]:
                    del self._put[sha]
                    self._lock(sha, byte_locks.FREE)

    def holds(self, sha: str) -> bool:
        """Return whether this log or any other, in any process, has pinned the blob."""
        with self._turn:
            if sha in self._put:
                return True
            return bool(self._path) and byte_locks.is_locked(self._opened(), _slot(sha))

    def close(self) -> None:
        """Release all pins."""
        with self._turn:
            self._put.clear()
            if self._file is not None:
                lockfile.close(self._file, self._process)
                self._file = None

    def _lock(self, sha: str, kind: int) -> None:
        if not self._path:
            return
        try:
            byte_locks.lock(self._opened(), _slot(sha), kind)
        except OSError as error:
            raise StoreError(f"{self._path}: cannot be locked for a blob: {error.strerror}") from error

    def _opened(self) -> int:
        if self._file is None:
            permissions.follow(self._path, self._database)
            try:
                self._file = lockfile.opened(self._path)
            except OSError as error:
                raise StoreError(f"{self._path}: {error.strerror}") from error
        return self._file


def _slot(sha: str) -> int:
    return byte_locks.BLOBS + int(sha[:14], 16)
