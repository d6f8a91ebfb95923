"""Statements on `claims` and `drafts`."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence

from stenolog.adapters.store.contract.values import START, Claim, DraftRow
from stenolog.domain.errors import VersionConflictError

from . import event_rows

# A claim of another process on the same effect makes this insert nothing.
TAKE = """INSERT OR IGNORE INTO claims (stream, lane, effect, cause, attempt, key, owner, at, receipt)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
OF = """SELECT fence, lane, effect, cause, attempt, key, owner, at, receipt FROM claims
    WHERE stream = ? ORDER BY fence"""
EVERYWHERE = """SELECT name, fence, lane, effect, cause, attempt, key, owner, at, receipt
    FROM claims JOIN conversations USING (stream) ORDER BY fence"""
DELETE = "DELETE FROM claims WHERE fence = ?"
# From `claims`, so that nothing is kept for a claim that is gone.
DRAFT = """INSERT INTO drafts (fence, number, said)
    SELECT fence, (SELECT coalesce(max(number), 0) + 1 FROM drafts d WHERE d.fence = c.fence), ?
    FROM claims c WHERE fence = ?"""


def take(
    connection: sqlite3.Connection, key: int, name: str, wanted: Sequence[Claim], expected: int
) -> list[Claim | None]:
    """Take as `ClaimStore.take`."""
    head = event_rows.head(connection, key) or START
    # Claims and appends never cross: an effect was decided on at this position, and at no other.
    if head.position != expected:
        raise VersionConflictError(name, expected=expected, found=head.position)
    return [_insert(connection, key, claim) for claim in wanted]


def of_stream(connection: sqlite3.Connection, key: int) -> list[Claim]:
    """Return a conversation's claims, the oldest first."""
    return [*map(Claim._make, connection.execute(OF, (key,)).fetchall())]


def everywhere(connection: sqlite3.Connection) -> list[tuple[str, Claim]]:
    """Return all claims with their conversations' names, oldest first."""
    return [(name, Claim._make(claim)) for name, *claim in connection.execute(EVERYWHERE).fetchall()]


def take_over(connection: sqlite3.Connection, key: int, claim: Claim, owner: str) -> Claim | None:
    """Take over as `ClaimStore.take_over`."""
    drafted = drafts(connection, claim.fence)
    # Deleted and inserted, because the new row gets a greater fence: the old owner's appends are refused.
    if not delete(connection, claim.fence):
        return None
    taken = _insert(connection, key, claim._replace(owner=owner))
    assert taken is not None, "the effect's only claim was just removed"
    add_drafts(connection, ((taken.fence, said) for said in drafted))
    return taken


def delete(connection: sqlite3.Connection, fence: int) -> bool:
    """Remove a claim; False if it is gone."""
    return connection.execute(DELETE, (fence,)).rowcount == 1


def add_drafts(connection: sqlite3.Connection, said: Iterable[tuple[int, bytes]]) -> None:
    """Store pieces by fence, unless the claim is gone."""
    connection.executemany(DRAFT, [(text, fence) for fence, text in said])


def drafts(connection: sqlite3.Connection, fence: int) -> list[bytes]:
    """Return a claim's stored pieces, in order."""
    rows = connection.execute("SELECT said FROM drafts WHERE fence = ? ORDER BY number", (fence,)).fetchall()
    return [said for (said,) in rows]


def _insert(connection: sqlite3.Connection, key: int, claim: Claim) -> Claim | None:
    cursor = connection.execute(TAKE, (key, *claim[1:]))
    return claim._replace(fence=cursor.lastrowid or 0) if cursor.rowcount else None


UNSEEN = """SELECT c.stream, c.fence, c.lane, c.effect, c.cause, c.attempt, coalesce(d.number, 0),
        coalesce(d.said, x'')
    FROM json_each(?) AS asked JOIN claims AS c ON c.stream = asked.value
    LEFT JOIN drafts AS d ON d.fence = c.fence AND d.number > coalesce(
        (SELECT seen.value FROM json_each(?) AS seen WHERE seen.key = CAST(c.fence AS TEXT)), 0)
    ORDER BY c.fence, d.number"""


def drafted(connection: sqlite3.Connection, keys: Collection[int], seen: Mapping[int, int]) -> list[DraftRow]:
    """Return draft rows as `DraftStore.since`."""
    values = (json.dumps([*keys]), json.dumps(seen))
    return [*map(DraftRow._make, connection.execute(UNSEEN, values).fetchall())]
