"""Bookmarks of requests, with their settled messages: beside the log, in a file that may be thrown away.

As with checkpoints, nothing here is ever truth, and nothing here may stop anybody. Here are words, though:
those of a conversation that is deleted go with it.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar
from zlib import crc32

from .datastore import MEMORY
from .failures import RAISED

PATIENCE = 0.2
"""Seconds to wait for another process before doing without."""
WAIT_MS = 2_000
"""The same in milliseconds where words are to be deleted."""
TABLE = """CREATE TABLE IF NOT EXISTS bookmarks (
    stream INTEGER NOT NULL, name TEXT NOT NULL, piece INTEGER NOT NULL,
    bytes BLOB NOT NULL, sum INTEGER NOT NULL, UNIQUE (stream, name, piece)
)"""
PRAGMAS = ("page_size = 16384", "journal_mode = WAL", "synchronous = OFF", "secure_delete = ON")
GET = "SELECT bytes, sum FROM bookmarks WHERE stream = ? AND name = ? ORDER BY piece"
PUT = "INSERT OR REPLACE INTO bookmarks VALUES (?, ?, ?, ?, ?)"
CUT = "DELETE FROM bookmarks WHERE stream = ? AND name = ? AND piece >= ?"
FORGET = "DELETE FROM bookmarks WHERE stream = ?"
UNUSABLE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

T = TypeVar("T")


class Bookmarks:
    """A bookmark in pieces: the first says where it is, the others are messages. Safe between threads."""

    def __init__(self, path: str) -> None:
        self.path = "" if path == MEMORY else f"{path}-bookmarks"
        self._turn = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def get(self, stream: int, name: str) -> list[bytes]:
        """All the pieces of a bookmark; none where there is none that is whole."""
        if not os.path.exists(self.path):
            return []
        rows = self._work(lambda connection: connection.execute(GET, (stream, name)).fetchall()) or []
        return [piece for piece, _ in rows] if all(crc32(piece) == total for piece, total in rows) else []

    def put(self, stream: int, name: str, head: bytes, first: int, pieces: Sequence[bytes]) -> bool:
        """Keep the first piece anew, and from the piece `first` on (1 or later) these and no others; whether
        that could be done."""
        rows = [(stream, name, 0, head)]
        rows += [(stream, name, nth, piece) for nth, piece in enumerate(pieces, first)]
        return self._work(lambda connection: _write(connection, rows, first)) is not None

    def forget(self, stream: int) -> None:
        """Let go of all that is kept of a conversation, so that no word of it stays in the file; where that
        cannot be done, of the file."""
        if os.path.exists(self.path) and not self._work(lambda connection: _forget(connection, stream)):
            with self._turn:
                self._let_go()
                self._unlink()

    def close(self) -> None:
        """Give the file back."""
        with self._turn:
            self._let_go()

    def _work(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """What the work gives; None where the file does not let it."""
        if not self.path:
            return None
        with self._turn:
            try:
                return work(self._open())
            except RAISED as error:
                self._let_go()
                if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF in UNUSABLE:
                    self._unlink()
                return None
            except BaseException:  # interrupted: no transaction is left open
                self._let_go()
                raise

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = sqlite3.connect(
                self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            for pragma in PRAGMAS:
                self._connection.execute(f"PRAGMA {pragma}")
            self._connection.execute(TABLE)
        return self._connection

    def _unlink(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            with suppress(OSError):
                os.unlink(self.path + suffix)

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _forget(connection: sqlite3.Connection, stream: int) -> bool:
    connection.execute(f"PRAGMA busy_timeout = {WAIT_MS}")
    connection.execute(FORGET, (stream,))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.execute(f"PRAGMA busy_timeout = {int(PATIENCE * 1000)}")
    return True


def _write(connection: sqlite3.Connection, rows: Sequence[tuple[int, str, int, bytes]], first: int) -> bool:
    stream, name, *_ = rows[0]
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(CUT, (stream, name, first))
    connection.executemany(PUT, [(*row, crc32(row[-1])) for row in rows])
    connection.execute("COMMIT")
    return True
