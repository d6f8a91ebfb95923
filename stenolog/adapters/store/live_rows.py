"""Statements that read the news of many conversations at once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping

from .event_rows import COMMITTED
from .store_values import CommittedRow, DraftRow

# The positions behind one are looked up in the index for each stream, and of most there is none.
APPENDED = f"""{COMMITTED} e.rowid IN (
    SELECT n.rowid FROM json_each(?) AS asked, stored_events AS n
    WHERE n.originator_id = CAST(asked.key AS INTEGER)
        AND n.originator_version > asked.value AND n.originator_version <= asked.value + ?)
    ORDER BY e.originator_id, e.originator_version"""
DRAFTED = """SELECT c.stream, c.fence, c.lane, c.effect, c.cause, c.attempt, coalesce(d.number, 0),
        coalesce(d.said, x'')
    FROM json_each(?) AS asked JOIN claims AS c ON c.stream = asked.value
    LEFT JOIN drafts AS d ON d.fence = c.fence AND d.number > coalesce(
        (SELECT seen.value FROM json_each(?) AS seen WHERE seen.key = CAST(c.fence AS TEXT)), 0)
    ORDER BY c.fence, d.number"""


def appended(connection: sqlite3.Connection, behind: Mapping[int, int], limit: int) -> list[CommittedRow]:
    """Return the next entries of streams behind a position of each."""
    return [*map(CommittedRow._make, connection.execute(APPENDED, (json.dumps(behind), limit)).fetchall())]


def drafted(connection: sqlite3.Connection, keys: Collection[int], seen: Mapping[int, int]) -> list[DraftRow]:
    """Return the claims on streams, with the rows of their drafts that were not seen."""
    values = (json.dumps([*keys]), json.dumps(seen))
    return [*map(DraftRow._make, connection.execute(DRAFTED, values).fetchall())]
