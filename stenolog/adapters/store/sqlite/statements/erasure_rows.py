"""Erasures as rows: a payload is overwritten in one transaction, and what derives from it is marked.

Marks in `tracking` name what is still to be removed beside the log (see `erasures`).
"""

from __future__ import annotations

import sqlite3

from .event_rows import PAYLOAD

STORED = f"""SELECT topic, salt, {PAYLOAD} FROM stored_events
    WHERE originator_id = ? AND originator_version = ? AND erased IS NULL"""
ERASE = """UPDATE stored_events SET size = ?, erased = ?, salt = x'', state = ?
    WHERE originator_id = ? AND originator_version = ?"""
NEW_KEY = "UPDATE secret SET bytes = ? WHERE name = 'sidecars'"
HAS_TABLES = "SELECT 1 FROM sqlite_master WHERE name = 'stenolog_tables'"
TABLES = "SELECT name FROM stenolog_tables"


def stored(connection: sqlite3.Connection, key: int, position: int) -> tuple[str, bytes, bytes] | None:
    """Return an unerased entry's topic, salt and payload."""
    row: tuple[str, bytes, bytes] | None = connection.execute(STORED, (key, position)).fetchone()
    return row


def replace(
    connection: sqlite3.Connection, key: int, position: int, size: int, erased: bytes, left: bytes
) -> None:
    """Overwrite a payload, and remove what derives from it in the file."""
    connection.execute(ERASE, (size, erased, left, key, position))
    if connection.execute(HAS_TABLES).fetchone():
        for (table,) in connection.execute(TABLES).fetchall():
            # Rows of tables that follow the log were made of the words.
            connection.execute(
                f'DELETE FROM "{table}__rows" WHERE stream = ? AND position = ?', (key, position)
            )


def set_seal_key(connection: sqlite3.Connection, seal_key: bytes) -> None:
    """Set the key that seals the files beside the log."""
    # With another seal key, checkpoints that other processes made of the words are not used any more.
    connection.execute(NEW_KEY, (seal_key,))
