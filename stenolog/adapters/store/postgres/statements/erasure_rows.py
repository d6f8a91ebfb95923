"""Erasures as rows: a payload is overwritten in one transaction, and marked for what derives from it.

PostgreSQL keeps the old row until a VACUUM, and in its write-ahead log and backups until these expire.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stenolog.adapters.store.contract.blobs import shas_in
from stenolog.adapters.store.postgres.connection.datastore import LogConnection
from stenolog.domain.entry import content_hash, effects_left, left_hash
from stenolog.domain.history import ERASED

from .dialect import shared

STORED = """SELECT topic, salt, state FROM {s}.stored_events
    WHERE stream = %s AND position = %s AND erased IS NULL"""
ERASE = """UPDATE {s}.stored_events SET size = %s, erased = %s, salt = '', state = %s
    WHERE stream = %s AND position = %s"""
NEW_KEY = "UPDATE {s}.meta SET seal_key = %s"
DRAFTS = """DELETE FROM {s}.drafts WHERE fence IN (
    SELECT fence FROM {s}.claims WHERE stream = ANY(%s))"""


def overwrite(
    connection: LogConnection, key: int, positions: Sequence[int], keys: Collection[int], seal_key: bytes
) -> None:
    """Overwrite a stream's payloads, and drafts that may repeat them; mark the rest.

    `keys` are conversations with the entries. `seal_key` seals files beside the log from now on.
    """
    named: set[str] = set()
    for position in positions:
        row = connection.run(STORED, (key, position)).fetchone()
        if row is None:
            # Of an erased entry the hash is all that is left, and must stay.
            continue
        topic, salt, payload = row
        left = effects_left(topic, payload)
        named |= shas_in(payload)
        # Length and hash stay, because the digest of the entry is made of them.
        connection.run(ERASE, (len(payload), content_hash(salt, payload), left, key, position))
        shared.add_change(connection, key, ERASED, value=position, name=left_hash(left))
    # With another seal key, checkpoints that other processes made of the words are not used any more.
    connection.run(NEW_KEY, (seal_key,))
    # A draft of a model that was shown the words may repeat them.
    connection.run(DRAFTS, (list(keys),))
    shared.mark_erased(connection, keys, named)
