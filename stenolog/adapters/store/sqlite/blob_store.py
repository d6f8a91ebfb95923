"""Blobs in SQLite: pinned until an entry names them, collected once none does.

A pin is a lock on a byte of the log's lock file, far after its end, at a place given by the blob's hash. The
kernel releases it when the process ends.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from stenolog.adapters.store.contract.blobs import key_of, shas_in
from stenolog.adapters.store.contract.roles import BlobStore
from stenolog.adapters.store.contract.values import Collected
from stenolog.domain.errors import StoreError

from . import file_locks, file_safety
from .statements.event_rows import PAYLOAD
from .turn.datastore import SqliteLogDatastore

# Byte locks show another process's pins; without them no blob can be told from one about to be named.
PINS_SUPPORTED = file_locks.BYTE_LOCKS_SUPPORTED


class Pins:
    """A log's pins; thread-safe. `path` is the lock file; "" for a log in memory. `put` counts by sha256."""

    def __init__(self, path: str, database: str) -> None:
        self._path = path
        self._database = database
        self.put: Counter[str] = Counter()
        self._file: int | None = None
        self._process = os.getpid()
        self._guard = threading.Lock()

    def add(self, shas: Iterable[str]) -> None:
        """Pin blobs; call it before they are written. Raises `StoreError`."""
        with self._guard:
            for sha in shas:
                # One lock serves all of this log's puts of a blob: the last one that is named gives it back.
                if not self.put[sha]:
                    self._lock(sha, file_locks.SHARED)
                self.put[sha] += 1

    def remove(self, payload: bytes) -> None:
        """Unpin the blobs in this payload, once its entry is durable."""
        for sha in shas_in(payload):
            with self._guard:
                if sha not in self.put:
                    continue
                self.put[sha] -= 1
                if not self.put[sha]:
                    del self.put[sha]
                    self._lock(sha, file_locks.FREE)

    def holds(self, sha: str) -> bool:
        """Return whether any process's log has pinned the blob."""
        with self._guard:
            if sha in self.put:
                return True
            return bool(self._path) and file_locks.is_byte_locked(self._opened(), _slot(sha))

    def close(self) -> None:
        """Release all pins."""
        with self._guard:
            self.put.clear()
            if self._file is not None:
                file_locks.close_lock_file(self._file, self._process)
                self._file = None

    def _lock(self, sha: str, kind: int) -> None:
        if not self._path:
            return
        try:
            file_locks.lock_byte(self._opened(), _slot(sha), kind)
        except OSError as error:
            raise StoreError(f"{self._path}: cannot be locked for a blob: {error.strerror}") from error

    def _opened(self) -> int:
        if self._file is None:
            file_safety.follow_permissions(self._path, self._database)
            try:
                self._file = file_locks.open_lock_file(self._path)
            except OSError as error:
                raise StoreError(f"{self._path}: {error.strerror}") from error
        return self._file


def _slot(sha: str) -> int:
    # 56 bits of the hash: two blobs at one place would only keep each other a little longer.
    return file_locks.BLOBS_BYTES + int(sha[:14], 16)


# Between two transactions other writers get their turn.
AT_ONCE = 100
"""Blobs that are removed in one transaction."""
BEHIND = f"SELECT rowid, {PAYLOAD} FROM stored_events WHERE rowid > ? ORDER BY rowid"
OF_STREAM = f"SELECT {PAYLOAD} FROM stored_events WHERE originator_id = ?"
UNDER_WAY = "SELECT receipt FROM claims UNION ALL SELECT said FROM drafts"
SIZE = "SELECT length(bytes) FROM blobs WHERE sha256 = ?"


def named_by(connection: sqlite3.Connection, key: int) -> set[str]:
    """Return what looks like a blob's sha256 in a stream's entries."""
    return _shas(state for (state,) in connection.execute(OF_STREAM, (key,)))


def collect(
    datastore: SqliteLogDatastore, pins: Pins, candidates: Collection[str] | None = None
) -> Collected:
    """Remove blobs, all or some, that no entry names anywhere; the caller sets `is_complete`."""
    with datastore.reading() as connection:
        there = {sha.hex() for (sha,) in connection.execute("SELECT sha256 FROM blobs")}
        unnamed = there if candidates is None else there & set(candidates)
        # Most of the log is read without the write lock; what came since is read under it below.
        last = _without_named(connection, unnamed, 0)
    blobs = size = 0
    kept: set[str] = set()
    while unnamed - kept:
        with datastore.writing() as connection:
            last = _without_named(connection, unnamed, last)
            some = set(sorted(unnamed - kept)[:AT_ONCE])
            # A claim's receipt and a draft name blobs of answers that are still under way.
            kept |= some & _shas(text for (text,) in connection.execute(UNDER_WAY))
            # Asked inside of the transaction: a blob is pinned before it is written. A process that pins it
            # later writes the blob anew, behind this transaction.
            kept |= {sha for sha in some if pins.holds(sha)}
            for sha in some - kept:
                (length,) = connection.execute(SIZE, (bytes.fromhex(sha),)).fetchone() or (0,)
                connection.execute(REMOVE, (bytes.fromhex(sha),))
                blobs, size = blobs + 1, size + length
        unnamed -= some - kept
    return Collected(blobs, size, len(kept & unnamed))


def _without_named(connection: sqlite3.Connection, shas: set[str], after: int) -> int:
    cursor = connection.execute(BEHIND, (after,))
    for row, state in cursor if shas else ():
        after = row
        shas -= _shas([state])
        if not shas:
            break
    cursor.close()
    return after


def _shas(texts: Iterable[object]) -> set[str]:
    found = (shas_in(text if isinstance(text, bytes) else str(text).encode()) for text in texts)
    return {sha for shas in found for sha in shas}


SELECT = "SELECT bytes FROM blobs WHERE sha256 = ?"
HAS = "SELECT 1 FROM blobs WHERE sha256 = ?"
ALL = "SELECT sha256 FROM blobs ORDER BY rowid"
REMOVE = "DELETE FROM blobs WHERE sha256 = ?"


def insert(connection: sqlite3.Connection, named: Iterable[tuple[str, bytes]]) -> None:
    """Keep blobs, given with their sha256, unless present."""
    rows = ((bytes.fromhex(sha), content) for sha, content in named)
    connection.executemany("INSERT OR IGNORE INTO blobs (sha256, bytes) VALUES (?, ?)", rows)


def remove(connection: sqlite3.Connection, shas: Collection[str]) -> None:
    """Delete blobs, although entries may name them."""
    connection.executemany(REMOVE, [(bytes.fromhex(sha),) for sha in shas])


class SqliteBlobs(BlobStore):
    """Blobs in the table `blobs`, with their pins."""

    def __init__(self, datastore: SqliteLogDatastore) -> None:
        self._datastore = datastore
        self.can_collect = PINS_SUPPORTED
        lock = "" if datastore.in_memory else f"{datastore.file}-lock"
        self._pins = Pins(lock, datastore.file)
        self.pinned = self._pins.put

    def put(self, named: Sequence[tuple[str, bytes]]) -> None:
        # Pinned before it is written, so that no other process removes it in between.
        self._pins.add(sha for sha, _ in named)
        with self._datastore.writing() as connection:
            insert(connection, named)

    def get(self, sha: str) -> bytes | None:
        with self._datastore.reading() as connection:
            row = connection.execute(SELECT, (key_of(sha),)).fetchone()
        return bytes(row[0]) if row else None

    def has(self, sha: str) -> bool:
        with self._datastore.reading() as connection:
            return connection.execute(HAS, (key_of(sha),)).fetchone() is not None

    def shas(self) -> list[str]:
        with self._datastore.reading() as connection:
            return [digest.hex() for (digest,) in connection.execute(ALL).fetchall()]

    def release(self, payload: bytes) -> None:
        self._pins.remove(payload)

    def named_by(self, key: int) -> set[str]:
        with self._datastore.reading() as connection:
            return named_by(connection, key)

    def collect(self, candidates: Collection[str] | None = None) -> Collected:
        # Elsewhere a blob that another process has just put could be removed.
        if not PINS_SUPPORTED:
            raise StoreError(f"{self._datastore.path}: whether a blob is in use is known on Linux alone")
        return collect(self._datastore, self._pins, candidates)

    def close(self) -> None:
        self._pins.close()
