"""Claims: who is at which effect, durable before the effect begins; and drafts: what has streamed since.

Neither is truth. A claim is gone once what came of its effect stands in the log, in the same transaction.
One whose owner is dead tells that nobody knows how its effect ended.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from stenolog.domain.errors import VersionConflictError

from . import event_rows
from .appends import DELETE_CLAIM
from .database import LogDatastore
from .event_rows import START
from .stream import Stream

TAKE = """INSERT OR IGNORE INTO claims (stream, lane, effect, cause, attempt, key, owner, at, receipt)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
OF = """SELECT fence, lane, effect, cause, attempt, key, owner, at, receipt FROM claims
    WHERE stream = ? ORDER BY fence"""
EVERYWHERE = """SELECT name, fence, lane, effect, cause, attempt, key, owner, at, receipt
    FROM claims JOIN conversations USING (stream) ORDER BY fence"""
DRAFT = """INSERT INTO drafts (fence, number, said)
    SELECT fence, (SELECT coalesce(max(number), 0) + 1 FROM drafts d WHERE d.fence = c.fence), ?
    FROM claims c WHERE fence = ?"""


class Claim(NamedTuple):
    """An effect that somebody is at.

    `fence` is its fencing number, 0 before it is taken; it grows, and whoever has not the latest is out.
    `effect` is "model", or "tool" with the call; `cause` the position that it answers; `key` its idempotency
    key; `owner` the runner; `at` microseconds since 1970; `receipt` that of a model's request, as JSON.
    """

    fence: int
    lane: str
    effect: str
    cause: int
    attempt: int
    key: str
    owner: str
    at: int
    receipt: bytes = b""


class Claims:
    """The claims on the effects of one conversation."""

    def __init__(self, datastore: LogDatastore, stream: Stream) -> None:
        self._datastore = datastore
        self._stream = stream

    def take(self, wanted: Sequence[Claim], expected: int) -> list[Claim | None]:
        """The claims with their fences; None for one that somebody has already.

        They were decided on at the position `expected`: raises `VersionConflictError` where the log has moved
        on.
        """

        def take(connection: sqlite3.Connection) -> list[Claim | None]:
            head = event_rows.head(connection, self._key) or START
            if head.position != expected:
                raise VersionConflictError(self._stream.name, expected=expected, found=head.position)
            return [self._insert(connection, claim) for claim in wanted]

        return self._datastore.group.savepoint(take)

    def all(self) -> list[Claim]:
        """Every claim on the conversation's effects, the oldest first."""
        if self._stream.key is None:
            return []
        with self._datastore.reading() as connection:
            return [Claim._make(row) for row in connection.execute(OF, (self._key,)).fetchall()]

    def take_over(self, claim: Claim, owner: str) -> Claim | None:
        """A dead owner's claim, under a new fence with what was drafted; None where it is no longer there."""

        def take_over(connection: sqlite3.Connection) -> Claim | None:
            drafted = _drafted(connection, claim.fence)
            if not _delete(connection, claim.fence):
                return None
            taken = self._insert(connection, claim._replace(owner=owner))
            assert taken is not None, "the effect's only claim was just removed"
            for said in drafted:
                connection.execute(DRAFT, (said, taken.fence))
            return taken

        return self._datastore.group.savepoint(take_over)

    def release(self, claim: Claim) -> None:
        """Let an effect go that was not begun, or may be begun again."""
        self._datastore.group.savepoint(lambda connection: _delete(connection, claim.fence))

    def draft(self, said: Iterable[tuple[int, bytes]]) -> None:
        """Keep what has streamed since the last time, for several claims at once: fences, and JSON.

        For a claim that is no longer there nothing is kept.
        """
        if rows := [(text, fence) for fence, text in said]:
            self._datastore.group.savepoint(lambda connection: connection.executemany(DRAFT, rows))

    def drafted(self, claim: Claim) -> list[bytes]:
        """Return the streamed pieces saved for a claim, in order."""
        with self._datastore.reading() as connection:
            return list(_drafted(connection, claim.fence))

    @property
    def _key(self) -> int:
        assert self._stream.key is not None, "effects are of conversations with entries"
        return self._stream.key

    def _insert(self, connection: sqlite3.Connection, claim: Claim) -> Claim | None:
        cursor = connection.execute(TAKE, (self._key, *claim[1:]))
        return claim._replace(fence=cursor.lastrowid or 0) if cursor.rowcount else None


def owners(datastore: LogDatastore) -> list[str]:
    """Return the owners of all claims in the log."""
    with datastore.reading() as connection:
        return [owner for (owner,) in connection.execute("SELECT DISTINCT owner FROM claims")]


def everywhere(datastore: LogDatastore) -> list[tuple[str, Claim]]:
    """Return all claims in the log, each with the name of its conversation, the oldest first."""
    with datastore.reading() as connection:
        return [(name, Claim._make(claim)) for name, *claim in connection.execute(EVERYWHERE)]


def _delete(connection: sqlite3.Connection, fence: int) -> bool:
    return connection.execute(DELETE_CLAIM, (fence,)).rowcount == 1


def _drafted(connection: sqlite3.Connection, fence: int) -> Iterator[bytes]:
    rows = connection.execute("SELECT said FROM drafts WHERE fence = ? ORDER BY number", (fence,)).fetchall()
    return (said for (said,) in rows)
