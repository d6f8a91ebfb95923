"""Tracking: how far a follower of the log has come, so that nothing is done twice and nothing left out.

It is written in the transaction of what was done, where that is done in the same database (exactly once), and
after it, where it is done outside (at least once). It is no truth: without it one begins at the beginning.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

MARK = "SELECT position, piece FROM tracking WHERE name = ? AND stream = ?"
SET = "INSERT OR REPLACE INTO tracking (name, stream, position, piece) VALUES (?, ?, ?, ?)"
EVERYWHERE = 0
"""In the place of a stream, for those who follow all of the log: their positions are its notification ids."""


class Cursor(NamedTuple):
    """All entries up to `position` are done with, and so many pieces of the one behind it."""

    position: int = 0
    piece: int = 0


def load_cursor(connection: sqlite3.Connection, name: str, stream: int = EVERYWHERE) -> Cursor:
    """Return the position that the follower `name` has reached; the beginning if it never saved one."""
    row = connection.execute(MARK, (name, stream)).fetchone()
    return Cursor(*row) if row else Cursor()


def advance(connection: sqlite3.Connection, name: str, to: Cursor, stream: int = EVERYWHERE) -> None:
    """Note how far it has come."""
    connection.execute(SET, (name, stream, *to))


def forget(connection: sqlite3.Connection, name: str) -> None:
    """Have it begin at the beginning again, everywhere."""
    connection.execute("DELETE FROM tracking WHERE name = ?", (name,))
