"""A glance at what is new in a conversation: one statement, on the connection that knows it best."""

from __future__ import annotations

from collections import deque

from stenolog.domain.entry import Entry

from . import event_rows, reader
from .database import LogDatastore
from .stream import Stream

SOME = 32
"""So many entries are read at a glance."""
SINCE = f"""SELECT originator_version, entry_id, at, digest, {event_rows.TOPIC},
        CASE WHEN originator_version > ? THEN {event_rows.STATE} END
    FROM stored_events WHERE originator_id = ? AND originator_version >= ?
    ORDER BY originator_version LIMIT {SOME + 1}"""
"""The columns of `events.EVENT`; the payload of the first is known, and may be long."""


def peek(datastore: LogDatastore, stream: Stream, position: int, digest: str) -> list[Entry] | None:
    """The next entries of the stream itself behind a position that has this digest, at most `SOME`.

    None where it has not: the conversation is gone, or the position is one that it inherits. What this
    process has appended is not read again where the log ends with it: that digest is made of all before it.
    """
    key = reader.resolve(datastore, stream)
    if key is None:
        return None
    own = _recent_entries(stream, position, digest)
    with datastore.glancing() as connection:
        if own:
            head = event_rows.head(connection, key)
            if head == (own[-1].position, bytes.fromhex(own[-1].digest)):
                return own[1:]
        rows = connection.execute(SINCE, (position, key, position)).fetchall()
    if not rows or (rows[0][0], rows[0][3]) != (position, bytes.fromhex(digest)):
        return None
    return [*reader._decoded(stream.name, rows[1:])]


def _recent_entries(stream: Stream, position: int, digest: str) -> list[Entry]:
    """Return the entries that this process appended from a position on; empty if they may have a gap."""
    if stream.recent is None:
        stream.recent = deque(maxlen=SOME)
    own = [entry for entry in list(stream.recent) if entry.position >= position]
    if not own or own[0].digest != digest:
        return []
    return own if [entry.position for entry in own] == [*range(position, position + len(own))] else []
