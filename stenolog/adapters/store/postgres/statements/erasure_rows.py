"""Erasures as rows: a payload is overwritten in one transaction, and marked for what derives from it.

PostgreSQL keeps the old row until a VACUUM, and in its write-ahead log and backups until these expire.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from stenolog.adapters.store.contract.blobs import shas_in
from stenolog.adapters.store.contract.values import Cursor
from stenolog.adapters.store.postgres.connection.datastore import LogConnection
from stenolog.domain.entry import content_hash, effects_left, left_hash
from stenolog.domain.history import ERASED

from . import conversation_rows, tracking_rows

STREAM_MARK = "erasing"
BLOB_MARK = "erasing blob "
WITH_ENTRY = """SELECT stream, name FROM {s}.conversations
    WHERE parent = %s AND fork_position >= %s ORDER BY stream"""
STORED = """SELECT topic, salt, state FROM {s}.stored_events
    WHERE stream = %s AND position = %s AND erased IS NULL"""
ERASE = """UPDATE {s}.stored_events SET size = %s, erased = %s, salt = '', state = %s
    WHERE stream = %s AND position = %s"""
NEW_KEY = "UPDATE {s}.meta SET seal_key = %s"
DRAFTS = """DELETE FROM {s}.drafts WHERE fence IN (
    SELECT fence FROM {s}.claims WHERE stream = ANY(%s))"""
PENDING = """SELECT name, stream, position FROM {s}.tracking
    WHERE name = %s OR starts_with(name, %s)"""
UNMARK = "DELETE FROM {s}.tracking WHERE (name = %s OR starts_with(name, %s)) AND position <= %s"


def conversations_with(
    connection: LogConnection, key: int, name: str, position: int
) -> Iterator[tuple[int, str]]:
    """Yield the conversations that have an entry: the stream's own, and its forks from there on."""
    yield key, name
    for fork, fork_name in connection.run(WITH_ENTRY, (key, position)).fetchall():
        yield from conversations_with(connection, fork, fork_name, position)


def overwrite(
    connection: LogConnection, key: int, positions: Sequence[int], keys: Collection[int], seal_key: bytes
) -> None:
    """Overwrite payloads of a stream, and drafts that may repeat them; mark the rest.

    `keys` are those of the conversations that have the entries. `seal_key` seals the files beside the log
    from now on.
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
        conversation_rows.add_change(connection, key, ERASED, value=position, name=left_hash(left))
    # With another seal key, checkpoints that other processes made of the words are not used any more.
    connection.run(NEW_KEY, (seal_key,))
    # A greater number for each erasure, so that `end` takes the marks of earlier ones alone.
    number = conversation_rows.newest_change(connection).number
    # A draft of a model that was shown the words may repeat them.
    connection.run(DRAFTS, (list(keys),))
    for each in keys:
        tracking_rows.advance(connection, STREAM_MARK, Cursor(number), each)
    for sha in named:
        tracking_rows.advance(connection, f"{BLOB_MARK}{sha}", Cursor(number))


def unfinished(connection: LogConnection) -> tuple[set[int], set[str], int]:
    """Return the streams, and the sha256 of blobs, whose words are still to be removed beside the log.

    The number is that of the last erasure among them.
    """
    pending = connection.run(PENDING, (STREAM_MARK, BLOB_MARK)).fetchall()
    streams = {stream for name, stream, _ in pending if name == STREAM_MARK}
    named = {name.removeprefix(BLOB_MARK) for name, *_ in pending if name != STREAM_MARK}
    return streams, named, max((number for *_, number in pending), default=0)


def end(connection: LogConnection, upto: int) -> None:
    """Remove the marks of erasures up to a number: nothing of their words is left."""
    connection.run(UNMARK, (STREAM_MARK, BLOB_MARK, upto))
