"""States of folds, kept at positions: beside the log, in a file that may be thrown away at any time.

Nothing here is ever truth, and nothing here may stop anybody: a file that is damaged, locked or gone is
as good as an empty one, and costs time alone.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple, TypeAlias

from .datastore import MEMORY
from .failures import RAISED

SPACING = 4096
"""Of each fold, one checkpoint is kept in every so many positions: the last one."""
PATIENCE = 0.2
"""Seconds to wait for another process before doing without."""
TABLE = """CREATE TABLE IF NOT EXISTS checkpoints (
    stream INTEGER, fold TEXT, version TEXT, slot INTEGER,
    position INTEGER, digest BLOB, state BLOB, sum BLOB,
    PRIMARY KEY (stream, fold, version, slot)
) WITHOUT ROWID"""
GET = """SELECT position, digest, state, sum FROM checkpoints
    WHERE stream = ? AND fold = ? AND version = ? AND position <= ? ORDER BY slot DESC LIMIT 1"""
ALL = """SELECT position, digest, state, sum FROM checkpoints
    WHERE stream = ? AND fold = ? AND version = ? ORDER BY slot"""
NAMES = "SELECT DISTINCT fold, '', '', '' FROM checkpoints WHERE stream = ? ORDER BY fold"
PUT = "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
UNUSABLE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

Row: TypeAlias = tuple[int, bytes, bytes, bytes]


class Checkpoint(NamedTuple):
    """The state of a fold at a position of a conversation that has this digest there."""

    position: int
    digest: bytes
    state: bytes


class Checkpoints:
    """Checkpoints by stream, and by name and version of the fold; safe to share between threads."""

    def __init__(self, path: str) -> None:
        self.path = MEMORY if path == MEMORY else f"{path}-checkpoints"
        self._turn = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def get(self, stream: int, fold: str, version: str, upto: int) -> Checkpoint | None:
        """The last checkpoint at or before `upto`; None where there is none that is whole."""
        rows = self._execute(GET, (stream, fold, version, upto))
        return _whole(rows[0]) if rows else None

    def all(self, stream: int, fold: str, version: str) -> list[Checkpoint]:
        """Every checkpoint of a fold over a stream that is whole, the earliest first."""
        rows = self._execute(ALL, (stream, fold, version))
        return [checkpoint for checkpoint in map(_whole, rows) if checkpoint]

    def names(self, stream: int) -> list[str]:
        """The names of the folds that something is kept of."""
        return [str(name) for name, *_ in self._execute(NAMES, (stream,))]

    def put(self, stream: int, fold: str, version: str, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint, in the place of the one before it in the same stretch of positions."""
        slot = checkpoint.position // SPACING
        self._execute(PUT, (stream, fold, version, slot, *checkpoint, _sum(*checkpoint)))

    def close(self) -> None:
        """Give the file back."""
        with self._turn:
            self._forget()

    def _execute(self, statement: str, values: tuple[object, ...]) -> list[Row]:
        with self._turn:
            try:
                return self._open().execute(statement, values).fetchall()
            except RAISED as error:
                self._forget()
                if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF in UNUSABLE:
                    with suppress(OSError):
                        os.unlink(self.path)
                return []

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = sqlite3.connect(
                self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = OFF", TABLE):
                self._connection.execute(statement)
        return self._connection

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _whole(row: Row) -> Checkpoint | None:
    """The checkpoint of a row, unless a crash or a fault of the disk has changed it."""
    position, digest, state, total = row
    try:
        return Checkpoint(position, digest, state) if _sum(position, digest, state) == total else None
    except TypeError:
        return None


def _sum(position: int, digest: bytes, state: bytes) -> bytes:
    return sha256(b"%d\n%b\n%b" % (position, digest, state)).digest()
