"""Statements on `blobs`, pinned until an entry names them, removed once none does.

A pin is a row that names a living process (see `presence`). It is written before the blob, and deleted when
an entry that names the blob is durable, or with its process.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from stenolog.adapters.store.contract.blobs import key_of, shas_in
from stenolog.adapters.store.contract.values import Collected
from stenolog.adapters.store.postgres.connection.datastore import LogConnection, PostgresLogDatastore

from . import followed

MOST_BYTES = 500_000_000
"""Bytes of one blob: PostgreSQL takes 1 GB for a whole row on its way."""
SELECT = "SELECT bytes FROM {s}.blobs WHERE sha256 = %s"
HAS = "SELECT 1 FROM {s}.blobs WHERE sha256 = %s"
ALL = "SELECT sha256 FROM {s}.blobs ORDER BY number"
# The places are drawn one by one, so a conflict leaves a gap among the numbers, which does no harm.
INSERT = "INSERT INTO {s}.blobs (sha256, bytes) VALUES (%s, %s) ON CONFLICT (sha256) DO NOTHING"
PIN = "INSERT INTO {s}.pins (sha256, process) SELECT unnest(%s::bytea[]), %s ON CONFLICT DO NOTHING"
UNPIN = "DELETE FROM {s}.pins WHERE sha256 = ANY(%s) AND process = %s"
UNPIN_ALL = "DELETE FROM {s}.pins WHERE process = %s"
PINNED = """SELECT sha256 FROM {s}.pins JOIN {s}.processes ON id = process
    WHERE sha256 = ANY(%s) AND seen > clock_timestamp() - make_interval(secs => %s)"""
# Whoever pins a blob shares this lock, and whoever removes some has it alone.
PINNING = "SELECT pg_advisory_xact_lock_shared({class} # 1398033999)"
REMOVING = "SELECT pg_advisory_xact_lock({class} # 1398033999)"
BEHIND = """SELECT notification, state FROM {s}.stored_events
    WHERE notification > %s ORDER BY notification LIMIT 200"""
OF_STREAM = (
    "SELECT position, state FROM {s}.stored_events WHERE stream = %s AND position > %s ORDER BY 1 LIMIT 200"
)
UNDER_WAY = "SELECT receipt FROM {s}.claims UNION ALL SELECT said FROM {s}.drafts"
REMOVE = "DELETE FROM {s}.blobs WHERE sha256 = %s RETURNING octet_length(bytes)"
AT_ONCE = 100
"""Blobs that are removed in one transaction."""


def insert(connection: LogConnection, named: Iterable[tuple[str, bytes]]) -> None:
    """Keep blobs, given with their sha256, unless present."""
    for sha, content in named:
        connection.run(INSERT, (bytes.fromhex(sha), content))


def put(connection: LogConnection, named: Sequence[tuple[str, bytes]], process: str) -> None:
    """Pin blobs for a process, and keep them."""
    connection.run(PINNING)
    connection.run(PIN, ([bytes.fromhex(sha) for sha, _ in named], process))
    insert(connection, named)


def blob(connection: LogConnection, sha: str) -> bytes | None:
    """Return the bytes of a sha256, unchecked."""
    row = connection.run(SELECT, (key_of(sha),)).fetchone()
    return row[0] if row else None


def has(connection: LogConnection, sha: str) -> bool:
    """Return whether there is that blob."""
    return connection.run(HAS, (key_of(sha),)).fetchone() is not None


def named_by(connection: LogConnection, key: int) -> set[str]:
    """Return what looks like a blob's sha256 in a stream's entries."""
    found: set[str] = set()
    after = 0
    while rows := connection.run(OF_STREAM, (key, after)).fetchall():
        after = rows[-1][0]
        found.update(*(shas_in(state) for _, state in rows))
    return found


def collect(
    datastore: PostgresLogDatastore, lease: float, candidates: Collection[str] | None = None
) -> Collected:
    """Remove blobs, all or some, that no entry names and no living process has pinned.

    Named: the sha256 is anywhere in a payload. Living: renewed within `lease` seconds.
    """
    there = datastore.read(lambda c: {sha.hex() for (sha,) in c.run(ALL).fetchall()})
    unnamed = there if candidates is None else there & set(candidates)
    # Most of the log is read without a lock; what comes later, at the bound or above it, is read under it.
    bound = datastore.read(followed.bound)
    datastore.read(lambda c: _without_named(c, unnamed, 0))
    # The sizes of those that were removed. An attempt whose answer was lost has left them here, and the one
    # after it finds the blobs gone.
    sizes: dict[str, int] = {}
    kept: set[str] = set()
    while unnamed - kept:
        some = sorted(unnamed - kept)[:AT_ONCE]
        still = datastore.write(lambda c, some=some: _remove(c, some, sizes, bound, lease))  # type: ignore[misc]
        kept |= still
        unnamed -= set(some) - still
    removed = [size for sha, size in sizes.items() if sha not in kept]
    return Collected(len(removed), sum(removed), len(kept))


def _remove(
    connection: LogConnection, some: list[str], sizes: dict[str, int], bound: int, lease: float
) -> set[str]:
    """Remove blobs, note their sizes, and return those that stay."""
    connection.run(REMOVING)
    unnamed = set(some)
    # A claim's receipt and a draft name blobs of answers that are still under way.
    for (text,) in connection.run(UNDER_WAY).fetchall():
        unnamed -= shas_in(text)
    keys = [bytes.fromhex(sha) for sha in sorted(unnamed)]
    unnamed -= {sha.hex() for (sha,) in connection.run(PINNED, (keys, lease)).fetchall()}
    # Behind the pins: a process lets a pin go only once the entry that names the blob is durable.
    _without_named(connection, unnamed, bound - 1)
    for sha in unnamed:
        sizes.update((sha, size) for (size,) in connection.run(REMOVE, (bytes.fromhex(sha),)).fetchall())
    return set(some) - unnamed


def _without_named(connection: LogConnection, shas: set[str], after: int) -> None:
    """Remove from the set blobs named by entries after a notification id."""
    while shas and (rows := connection.run(BEHIND, (after,)).fetchall()):
        after = rows[-1][0]
        for _, state in rows:
            shas -= shas_in(state)
