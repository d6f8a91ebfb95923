"""Statements on `blobs`: content that is kept once by its sha256."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

SELECT = "SELECT bytes FROM blobs WHERE sha256 = ?"
HAS = "SELECT 1 FROM blobs WHERE sha256 = ?"
ALL = "SELECT sha256 FROM blobs ORDER BY rowid"
REMOVE = "DELETE FROM blobs WHERE sha256 = ?"


def insert(connection: sqlite3.Connection, named: Iterable[tuple[str, bytes]]) -> None:
    """Keep blobs, given with their sha256, unless they are there already."""
    rows = ((bytes.fromhex(sha), content) for sha, content in named)
    connection.executemany("INSERT OR IGNORE INTO blobs (sha256, bytes) VALUES (?, ?)", rows)
