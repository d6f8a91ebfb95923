"""Erasures as rows: a payload is overwritten in one transaction, and marked for what derives from it.

Marks in `tracking`, written in the same transaction, tell what is still to be removed from the files beside
the log (see `erasures`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence

from stenolog.adapters.store.contract.blobs import shas_in
from stenolog.domain.entry import content_hash, effects_left, left_hash
from stenolog.domain.history import ERASED

from .dialect import shared
from .event_rows import PAYLOAD

STORED = f"""SELECT topic, salt, {PAYLOAD} FROM stored_events
    WHERE originator_id = ? AND originator_version = ? AND erased IS NULL"""
ERASE = """UPDATE stored_events SET size = ?, erased = ?, salt = x'', state = ?
    WHERE originator_id = ? AND originator_version = ?"""
NEW_KEY = "UPDATE secret SET bytes = ? WHERE name = 'sidecars'"
DRAFTS = "DELETE FROM drafts WHERE fence IN (SELECT fence FROM claims WHERE stream = ?)"
HAS_TABLES = "SELECT 1 FROM sqlite_master WHERE name = 'stenolog_tables'"
TABLES = "SELECT name FROM stenolog_tables"


def overwrite(
    connection: sqlite3.Connection,
    key: int,
    positions: Sequence[int],
    keys: Collection[int],
    seal_key: bytes,
) -> None:
    """Overwrite payloads of a stream, and data derived from them in the same file; mark the rest.

    `keys` are those of the conversations that have the entries. `seal_key` seals the files beside the log
    from now on.
    """
    named: set[str] = set()
    for position in positions:
        row = connection.execute(STORED, (key, position)).fetchone()
        if row is None:
            # Of an erased entry the hash is all that is left, and must stay.
            continue
        topic, salt, payload = row
        left = effects_left(topic, payload)
        named |= shas_in(payload)
        # Length and hash stay, because the digest of the entry is made of them.
        connection.execute(ERASE, (len(payload), content_hash(salt, payload), left, key, position))
        shared.add_change(connection, key, ERASED, value=position, name=left_hash(left))
    if connection.execute(HAS_TABLES).fetchone():
        for (table,) in connection.execute(TABLES).fetchall():
            # Rows of tables that follow the log were made of the words.
            statement = f'DELETE FROM "{table}__rows" WHERE stream = ? AND position = ?'
            connection.executemany(statement, [(key, position) for position in positions])
    # With another seal key, checkpoints that other processes made of the words are not used any more.
    connection.execute(NEW_KEY, (seal_key,))
    # A draft of a model that was shown the words may repeat them.
    connection.executemany(DRAFTS, [(each,) for each in keys])
    shared.mark_erased(connection, keys, named)
