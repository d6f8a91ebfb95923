"""Statements on `tracking`: how far the followers of the log have come, the library's projections too."""

from __future__ import annotations

import sqlite3

from eventsourcing.persistence import IntegrityError, Tracking

from stenolog.adapters.store.contract.values import EVERYWHERE, Cursor

MARK = "SELECT position, piece FROM tracking WHERE name = ? AND stream = ?"
ALL = "SELECT name, stream, position, piece FROM tracking ORDER BY name, stream"
SET = "INSERT OR REPLACE INTO tracking (name, stream, position, piece) VALUES (?, ?, ?, ?)"
# Keeps the library's names apart from those of our own followers in the same table.
APPLICATION = "application:"
"""Before the name of an application that a projection of the library's follows."""
TRACK = f"""INSERT INTO tracking (name, stream, position, piece) VALUES (?, {EVERYWHERE}, ?, 0)
    ON CONFLICT (name, stream) DO UPDATE SET position = excluded.position
    WHERE position < excluded.position"""


def load_cursor(connection: sqlite3.Connection, name: str, key: int = EVERYWHERE) -> Cursor:
    """Return the position that the follower `name` has reached; the beginning if it never saved one."""
    row = connection.execute(MARK, (name, key)).fetchone()
    return Cursor(*row) if row else Cursor()


def advance(connection: sqlite3.Connection, name: str, to: Cursor, key: int = EVERYWHERE) -> None:
    """Note how far it has come."""
    connection.execute(SET, (name, key, *to))


def forget(connection: sqlite3.Connection, name: str) -> None:
    """Have it begin at the beginning again, everywhere."""
    connection.execute("DELETE FROM tracking WHERE name = ?", (name,))


def insert(connection: sqlite3.Connection, tracking: Tracking) -> None:
    """Note the processed notification of a projection. Raises `IntegrityError` for an earlier one."""
    name, to = tracking.application_name, tracking.notification_id
    if connection.execute(TRACK, (f"{APPLICATION}{name}", to)).rowcount != 1:
        raise IntegrityError(f"{name}: notification {to} was processed before")


def newest(connection: sqlite3.Connection, application: str) -> int | None:
    """Return the last notification that a projection of an application has processed; None if none."""
    row = connection.execute(MARK, (f"{APPLICATION}{application}", EVERYWHERE)).fetchone()
    return int(row[0]) if row else None
