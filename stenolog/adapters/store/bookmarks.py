"""Bookmarks of requests, with their settled messages: beside the log, in a file that may be thrown away.

Here are words: those of a conversation that is deleted go with it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence

from .database import MEMORY
from .seals import Seals
from .sidecar import Sidecar

TABLE = """CREATE TABLE IF NOT EXISTS bookmarks (
    stream INTEGER NOT NULL, name TEXT NOT NULL, piece INTEGER NOT NULL,
    bytes BLOB NOT NULL, sum INTEGER NOT NULL, UNIQUE (stream, name, piece)
)"""
PRAGMAS = ("page_size = 16384", "journal_mode = WAL", "synchronous = OFF", "secure_delete = ON")
GET = "SELECT bytes, sum FROM bookmarks WHERE stream = ? AND name = ? ORDER BY piece"
NAMES = "SELECT DISTINCT name FROM bookmarks WHERE stream = ? ORDER BY name"
PUT = "INSERT OR REPLACE INTO bookmarks VALUES (?, ?, ?, ?, ?)"
CUT = "DELETE FROM bookmarks WHERE stream = ? AND name = ? AND piece >= ?"
FORGET = "DELETE FROM bookmarks WHERE stream = ?"


class Bookmarks(Sidecar):
    """A bookmark in pieces: the first says where it is, the others are messages. Safe between threads."""

    pragmas = PRAGMAS

    def __init__(self, path: str, seals: Seals | None = None) -> None:
        self.seals = seals or Seals()
        super().__init__("" if path == MEMORY else f"{path}-bookmarks", path)

    def prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute(TABLE)

    def get(self, stream: int, name: str) -> list[tuple[bytes, int]]:
        """All the pieces of a bookmark, each with its seal; none where this log has left none."""
        if not os.path.exists(self.path):
            return []
        rows = self.work(lambda connection: connection.execute(GET, (stream, name)).fetchall()) or []
        places = [_key(stream, name), *[b""] * (len(rows) - 1)]
        is_own = all(self.seal(piece, at) == total for (piece, total), at in zip(rows, places, strict=False))
        return rows if is_own else []

    def names(self, stream: int) -> list[str]:
        """Return the names of the bookmarks of a conversation."""
        if not os.path.exists(self.path):
            return []
        found = self.work(lambda connection: connection.execute(NAMES, (stream,)).fetchall()) or []
        return [name for (name,) in found if isinstance(name, str)]

    def seal(self, piece: bytes, place: bytes = b"") -> int:
        """Return the seal of a piece. The first of a bookmark has a place, and names the others' seals."""
        if not isinstance(piece, bytes):
            return -1
        return int.from_bytes(self.seals.seal(place, piece, size=8), "big") >> 1

    def put(self, stream: int, name: str, head: bytes, first: int, pieces: Sequence[bytes]) -> bool:
        """Keep the first piece anew, and from the piece `first` on (1 or later) these and no others; whether
        that could be done."""
        if not self.path:
            return False
        rows = [(stream, name, 0, head, self.seal(head, _key(stream, name)))]
        rows += [(stream, name, nth, piece, self.seal(piece)) for nth, piece in enumerate(pieces, first)]
        return self.work(lambda connection: _write(connection, rows, first)) is not None

    def forget(self, stream: int) -> None:
        """Let go of all that is kept of a conversation, so that no word of it stays in the file; where that
        cannot be done, of the file."""
        self.erase(FORGET, stream)


def _key(stream: int, name: str) -> bytes:
    return f"{stream}\n{name}".encode(errors="surrogatepass")


def _write(
    connection: sqlite3.Connection, rows: Sequence[tuple[int, str, int, bytes, int]], first: int
) -> bool:
    stream, name, *_ = rows[0]
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(CUT, (stream, name, first))
    connection.executemany(PUT, rows)
    connection.execute("COMMIT")
    return True
