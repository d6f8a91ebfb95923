"""Statements on `claims` and `drafts`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from stenolog.adapters.store.contract.values import Claim, DraftRow
from stenolog.adapters.store.postgres.connection.datastore import LogConnection
from stenolog.domain.errors import VersionConflictError

COLUMNS = "fence, lane, effect, cause, attempt, key, owner, at, receipt"
# An append moves the conversation's row. While it is shared none can, so a claim and an append never cross.
# A claim of another process on the same effect makes this insert nothing.
TAKE = """WITH place AS MATERIALIZED (SELECT head FROM {s}.conversations WHERE stream = %(stream)s FOR SHARE),
    made AS (INSERT INTO {s}.claims (stream, lane, effect, cause, attempt, key, owner, at, receipt)
        SELECT %(stream)s::bigint, wanted.* FROM place, unnest(%(lanes)s::bytea[], %(effects)s::bytea[],
            %(causes)s::bigint[], %(attempts)s::int[], %(keys)s::bytea[], %(owners)s::text[],
            %(ats)s::bigint[], %(receipts)s::bytea[]) AS wanted
        WHERE place.head = coalesce(%(expected)s::bigint, place.head)
        ON CONFLICT (stream, lane, effect) DO NOTHING RETURNING fence, lane, effect)
    SELECT head, lane, effect, fence FROM place LEFT JOIN made ON true"""
# The answer to an earlier attempt was lost with its connection: what it took is its own.
TAKEN = """SELECT fence FROM {s}.claims WHERE stream = %s AND lane = %s AND effect = %s AND cause = %s
    AND attempt = %s AND key = %s AND owner = %s AND at = %s"""
OF = f"SELECT {COLUMNS} FROM {{s}}.claims WHERE stream = %s ORDER BY fence"
EVERYWHERE = f"""SELECT c.name, {", ".join(f"a.{column}" for column in COLUMNS.split(", "))}
    FROM {{s}}.claims AS a JOIN {{s}}.conversations AS c ON c.stream = a.stream ORDER BY a.fence"""
DELETE = """WITH said AS (DELETE FROM {s}.drafts WHERE fence = %(fence)s)
    DELETE FROM {s}.claims WHERE fence = %(fence)s"""
# From `claims`, so that nothing is kept for a claim that is gone.
DRAFT = """INSERT INTO {s}.drafts (fence, number, said)
    SELECT c.fence,
        coalesce((SELECT max(number) FROM {s}.drafts AS d WHERE d.fence = c.fence), 0) + said.number,
        said.said
    FROM unnest(%s::bigint[], %s::bytea[]) WITH ORDINALITY AS said (fence, said, number)
    JOIN {s}.claims AS c ON c.fence = said.fence RETURNING fence, number"""
STORED = "SELECT 1 FROM {s}.drafts WHERE fence = %s AND number = %s"
DRAFTED = "SELECT said FROM {s}.drafts WHERE fence = %s ORDER BY number"
MOVE = "UPDATE {s}.drafts SET fence = %s WHERE fence = %s"


def take(
    connection: LogConnection, key: int, name: str, wanted: Sequence[Claim], expected: int, *, again: bool
) -> list[Claim | None]:
    """Take as `ClaimStore.take`; `again`: an earlier attempt may have taken them."""
    head, taken = _insert(connection, key, wanted, expected)
    if head != expected:
        raise VersionConflictError(name, expected=expected, found=head)
    if again:
        for number, claim in enumerate(wanted):
            if taken[number] is None and (row := connection.run(TAKEN, _values(key, claim)).fetchone()):
                taken[number] = claim._replace(fence=row[0])
    return taken


def of_stream(connection: LogConnection, key: int) -> list[Claim]:
    """Return a conversation's claims, the oldest first."""
    return [_claim(row) for row in connection.run(OF, (key,)).fetchall()]


def everywhere(connection: LogConnection) -> list[tuple[str, Claim]]:
    """Return all claims with their conversations' names, oldest first."""
    return [(name, _claim(row)) for name, *row in connection.run(EVERYWHERE).fetchall()]


def take_over(connection: LogConnection, key: int, claim: Claim, owner: str, *, again: bool) -> Claim | None:
    """Take over as `ClaimStore.take_over`; `again`: an earlier attempt may have done it."""
    its = claim._replace(owner=owner)
    # Deleted and inserted, because the new row gets a greater fence: the old owner's appends are refused.
    if connection.run("DELETE FROM {s}.claims WHERE fence = %s", (claim.fence,)).rowcount != 1:
        row = connection.run(TAKEN, _values(key, its)).fetchone() if again else None
        return its._replace(fence=row[0]) if row else None
    _, (taken,) = _insert(connection, key, [its], None)
    assert taken is not None, "the effect's only claim was just removed"
    connection.run(MOVE, (taken.fence, claim.fence))
    return taken


def delete(connection: LogConnection, fence: int) -> bool:
    """Remove a claim with its draft; False if it is gone."""
    return connection.run(DELETE, {"fence": fence}).rowcount == 1


def add_drafts(
    connection: LogConnection,
    said: Iterable[tuple[int, bytes]],
    stored: list[tuple[int, int]],
    *,
    again: bool,
) -> None:
    """Store pieces by fence, unless the claim is gone.

    `stored` gets their fences and numbers. `again`: an earlier attempt may have been committed; only the
    owner writes a fence's pieces.
    """
    # Any of them: an effect may have been settled since, which removes its own.
    if again and any(connection.run(STORED, each).fetchone() for each in stored):
        return
    fences, pieces = map(list, zip(*said, strict=True))
    stored[:] = connection.run(DRAFT, (fences, pieces)).fetchall()


def drafts(connection: LogConnection, fence: int) -> list[bytes]:
    """Return a claim's stored pieces, in order."""
    return [said for (said,) in connection.run(DRAFTED, (fence,)).fetchall()]


def _insert(
    connection: LogConnection, key: int, wanted: Sequence[Claim], expected: int | None
) -> tuple[int, list[Claim | None]]:
    """Insert claims if the conversation is at the expected position; return where it is, and those made."""
    columns = {
        "lanes": [_bytes(claim.lane) for claim in wanted],
        "effects": [_bytes(claim.effect) for claim in wanted],
        "causes": [claim.cause for claim in wanted],
        "attempts": [claim.attempt for claim in wanted],
        "keys": [_bytes(claim.key) for claim in wanted],
        "owners": [claim.owner for claim in wanted],
        "ats": [claim.at for claim in wanted],
        "receipts": [claim.receipt for claim in wanted],
    }
    rows = connection.run(TAKE, {**columns, "stream": key, "expected": expected}).fetchall()
    made = {(lane, effect): fence for _, lane, effect, fence in rows}
    fences = [made.pop((_bytes(claim.lane), _bytes(claim.effect)), None) for claim in wanted]
    taken = [
        None if fence is None else claim._replace(fence=fence)
        for claim, fence in zip(wanted, fences, strict=True)
    ]
    return (rows[0][0] if rows else 0), taken


def _values(key: int, claim: Claim) -> tuple[Any, ...]:
    return (
        key, _bytes(claim.lane), _bytes(claim.effect), claim.cause, claim.attempt, _bytes(claim.key),
        claim.owner, claim.at,
    )  # fmt: skip


def _claim(row: Sequence[Any]) -> Claim:
    fence, lane, effect, cause, attempt, key, owner, at, receipt = row
    return Claim(fence, _text(lane), _text(effect), cause, attempt, _text(key), owner, at, receipt)


# A provider chooses the id of a call, which is a part of an effect: PostgreSQL takes no NUL in a text.
def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _text(stored: bytes) -> str:
    return stored.decode(errors="surrogatepass")


# OFFSET 0 has each draft looked up by its key: the table grows to many times what is new in it.
UNSEEN = """SELECT c.stream, c.fence, c.lane, c.effect, c.cause, c.attempt, coalesce(d.number, 0),
        coalesce(d.said, '')
    FROM {s}.claims AS c
    LEFT JOIN unnest(%s::bigint[], %s::int[]) AS seen (fence, number) ON seen.fence = c.fence
    LEFT JOIN LATERAL (SELECT number, said FROM {s}.drafts AS d
        WHERE d.fence = c.fence AND d.number > coalesce(seen.number, 0) OFFSET 0) AS d ON true
    WHERE c.stream = ANY(%s) ORDER BY c.fence, d.number"""


def drafted(connection: LogConnection, keys: Collection[int], seen: Mapping[int, int]) -> list[DraftRow]:
    """Return draft rows as `DraftStore.since`."""
    rows = connection.run(UNSEEN, ([*seen], [*seen.values()], [*keys])).fetchall()
    return [
        DraftRow(key, fence, _text(lane), _text(effect), *rest) for key, fence, lane, effect, *rest in rows
    ]
