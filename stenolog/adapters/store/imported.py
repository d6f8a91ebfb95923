"""Which entries came into the log with an exported file: the file's author wrote them, not this log's owner.

Importing notes the range of positions beside the log (`tracking`), since the entries keep their digests. A
second import into the same conversation widens the range, so entries between two imports count as imported.
"""

from __future__ import annotations

import sqlite3

from stenolog.domain.values import PositionRange

from . import conversation_rows, cursors, reader
from .cursors import Cursor
from .database import LogDatastore
from .event_rows import LAST
from .stream import Stream

NAME = "imported"


def note(connection: sqlite3.Connection, stream: int, first: int, last: int) -> None:
    """Record that the positions `first` to `last` of a stream were imported."""
    before = cursors.load_cursor(connection, NAME, stream)
    if before.position:
        first, last = min(first, before.piece), max(last, before.position)
    cursors.advance(connection, NAME, Cursor(last, first), stream)


def spans(datastore: LogDatastore, stream: Stream) -> tuple[PositionRange, ...]:
    """The imported positions of a conversation, also those that it inherits as a fork."""
    key = reader.resolve(datastore, stream)
    if key is None:
        return ()
    found = []
    with datastore.reading() as connection:
        for segment in conversation_rows.lineage(connection, key, LAST):
            mark = cursors.load_cursor(connection, NAME, segment.stream)
            first, last = max(mark.piece, segment.after + 1), min(mark.position, segment.upto)
            if mark.position and first <= last:
                found.append(PositionRange(first=first, last=last))
    return tuple(found)
