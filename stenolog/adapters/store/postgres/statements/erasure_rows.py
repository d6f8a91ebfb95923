"""Erasures as rows: a payload is overwritten in one transaction, and what derives from it is marked.

PostgreSQL keeps the old row until a VACUUM, and in write-ahead log and backups until these expire.
"""

from __future__ import annotations

from stenolog.adapters.store.postgres.connection.datastore import LogConnection

STORED = """SELECT topic, salt, state FROM {s}.stored_events
    WHERE stream = %s AND position = %s AND erased IS NULL"""
ERASE = """UPDATE {s}.stored_events SET size = %s, erased = %s, salt = '', state = %s
    WHERE stream = %s AND position = %s"""
NEW_KEY = "UPDATE {s}.meta SET seal_key = %s"


def stored(connection: LogConnection, key: int, position: int) -> tuple[str, bytes, bytes] | None:
    """Return an unerased entry's topic, salt and payload."""
    row: tuple[str, bytes, bytes] | None = connection.run(STORED, (key, position)).fetchone()
    return row
