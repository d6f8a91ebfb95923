"""Statements that read the news of many conversations at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stenolog.adapters.store.store_values import CommittedRow, DraftRow

from .datastore import LogConnection
from .followed import COLUMNS

# Nearly all are where they were: that is seen in the rows of the conversations alone. What stands there is
# committed, and a conversation's positions have no gap, so nothing waits for the bound of the whole log.
APPENDED = f"""SELECT {COLUMNS}
    FROM unnest(%s::bigint[], %s::bigint[]) AS asked (stream, position)
    JOIN {{s}}.conversations AS c ON c.stream = asked.stream AND c.head > asked.position
    JOIN {{s}}.stored_events AS e ON e.stream = asked.stream
        AND e.position > asked.position AND e.position <= asked.position + %s
    ORDER BY e.stream, e.position"""
# OFFSET 0 has each draft looked up by its key: the table grows to many times what is new in it.
DRAFTED = """SELECT c.stream, c.fence, c.lane, c.effect, c.cause, c.attempt, coalesce(d.number, 0),
        coalesce(d.said, '')
    FROM {s}.claims AS c
    LEFT JOIN unnest(%s::bigint[], %s::int[]) AS seen (fence, number) ON seen.fence = c.fence
    LEFT JOIN LATERAL (SELECT number, said FROM {s}.drafts AS d
        WHERE d.fence = c.fence AND d.number > coalesce(seen.number, 0) OFFSET 0) AS d ON true
    WHERE c.stream = ANY(%s) ORDER BY c.fence, d.number"""


def appended(connection: LogConnection, behind: Mapping[int, int], limit: int) -> list[CommittedRow]:
    """Return the next entries of streams behind a position of each."""
    values = ([*behind], [*behind.values()], limit)
    return [*map(CommittedRow._make, connection.run(APPENDED, values).fetchall())]


def drafted(connection: LogConnection, keys: Collection[int], seen: Mapping[int, int]) -> list[DraftRow]:
    """Return the claims on streams, with the rows of their drafts that were not seen."""
    rows = connection.run(DRAFTED, ([*seen], [*seen.values()], [*keys])).fetchall()
    return [
        DraftRow(key, fence, _text(lane), _text(effect), *rest) for key, fence, lane, effect, *rest in rows
    ]


def _text(stored: bytes) -> str:
    return stored.decode(errors="surrogatepass")
