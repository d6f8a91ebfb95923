"""A glance at what is new in a conversation: one statement, on the connection that knows it best."""

from __future__ import annotations

from stenolog.domain.entry import Entry

from . import reading
from .appending import Stream
from .datastore import LogDatastore

SOME = 32
"""So many entries are read at a glance."""
SINCE = f"""SELECT originator_version, entry_id, at, digest, topic,
        CASE WHEN originator_version > ? THEN state END
    FROM stored_events WHERE originator_id = ? AND originator_version >= ?
    ORDER BY originator_version LIMIT {SOME + 1}"""
"""The columns of `events.EVENT`; the payload of the first is known, and may be long."""


def since(datastore: LogDatastore, stream: Stream, position: int, digest: bytes) -> list[Entry] | None:
    """The next entries of the stream itself behind a position that has this digest, at most `SOME`.

    None where it has not: the conversation is gone, or the position is one that it inherits.
    """
    key = reading.resolve(datastore, stream)
    if key is None:
        return None
    with datastore.glancing() as connection:
        rows = connection.execute(SINCE, (position, key, position)).fetchall()
    if not rows or (rows[0][0], rows[0][3]) != (position, digest):
        return None
    return [*reading._decoded(stream.name, rows[1:])]
