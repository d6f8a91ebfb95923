"""The statements on `tracking`: how far the followers of the log have come, the library's projections too."""

from __future__ import annotations

from eventsourcing.persistence import IntegrityError, Tracking

from stenolog.adapters.store.contract.values import EVERYWHERE, Cursor
from stenolog.adapters.store.postgres.connection.datastore import LogConnection

MARK = "SELECT position, piece FROM {s}.tracking WHERE name = %s AND stream = %s"
ALL = "SELECT name, stream, position, piece FROM {s}.tracking ORDER BY name, stream"
SET = """INSERT INTO {s}.tracking (name, stream, position, piece) VALUES (%s, %s, %s, %s)
    ON CONFLICT (name, stream) DO UPDATE SET position = excluded.position, piece = excluded.piece"""
# Keeps the library's names apart from those of our own followers in the same table.
APPLICATION = "application:"
"""Before the name of an application that a projection of the library's follows."""
TRACK = f"""INSERT INTO {{s}}.tracking AS t (name, stream, position, piece) VALUES (%s, {EVERYWHERE}, %s, 0)
    ON CONFLICT (name, stream) DO UPDATE SET position = excluded.position
    WHERE t.position < excluded.position"""


def load_cursor(connection: LogConnection, name: str, key: int = EVERYWHERE) -> Cursor:
    """Return the position that the follower `name` has reached; the beginning if it never saved one."""
    row = connection.run(MARK, (name, key)).fetchone()
    return Cursor(*row) if row else Cursor()


def advance(connection: LogConnection, name: str, to: Cursor, key: int = EVERYWHERE) -> None:
    """Note how far it has come."""
    connection.run(SET, (name, key, *to))


def insert(connection: LogConnection, tracking: Tracking, *, again: bool = False) -> None:
    """Note the processed notification of a projection. Raises `IntegrityError` for an earlier one.

    `again`: an attempt before this one may have noted it.
    """
    name, to = tracking.application_name, tracking.notification_id
    if again and newest(connection, name) == to:
        return
    if connection.run(TRACK, (f"{APPLICATION}{name}", to)).rowcount != 1:
        raise IntegrityError(f"{name}: notification {to} was processed before")


def newest(connection: LogConnection, application: str) -> int | None:
    """Return the last notification that a projection of an application has processed; None if none."""
    row = connection.run(MARK, (f"{APPLICATION}{application}", EVERYWHERE)).fetchone()
    return int(row[0]) if row else None
