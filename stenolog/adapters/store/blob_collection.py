"""Removing the blobs that no entry names any more."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from typing import NamedTuple

from .database import LogDatastore
from .pins import Pins, shas_in

AT_ONCE = 100
"""Blobs that are removed in one transaction, so that other writers get their turn."""
BEHIND = "SELECT rowid, state FROM stored_events WHERE rowid > ? ORDER BY rowid"
OF_STREAM = "SELECT state FROM stored_events WHERE originator_id = ?"
UNDER_WAY = "SELECT receipt FROM claims UNION ALL SELECT said FROM drafts"
SIZE = "SELECT length(bytes) FROM blobs WHERE sha256 = ?"
REMOVE = "DELETE FROM blobs WHERE sha256 = ?"


class Collected(NamedTuple):
    """The result of a collection: the number of blobs removed, and their bytes.

    `kept` counts the blobs that no entry names yet, but that a living process has stored. `folded`: the
    write-ahead log holds nothing of the removed blobs any more.
    """

    blobs: int = 0
    bytes: int = 0
    kept: int = 0
    folded: bool = True


def named_by(datastore: LogDatastore, stream: int) -> set[str]:
    """Return all that looks like a blob's sha256 in the entries of a stream."""
    with datastore.reading() as connection:
        return _shas(state for (state,) in connection.execute(OF_STREAM, (stream,)))


def collect(datastore: LogDatastore, pins: Pins, candidates: Collection[str] | None = None) -> Collected:
    """Remove the blobs that no entry names, all or some of them; `folded` is left to the caller.

    A blob counts as named wherever its sha256 stands in a payload. A blob that is put meanwhile is pinned
    before it is written, and the pins are looked at inside of the transaction that removes: whoever pins
    later writes the blob anew.
    """
    with datastore.reading() as connection:
        there = {sha.hex() for (sha,) in connection.execute("SELECT sha256 FROM blobs")}
        unnamed = there if candidates is None else there & set(candidates)
        last = _without_named(connection, unnamed, 0)
    blobs = size = 0
    kept: set[str] = set()
    while unnamed - kept:
        with datastore.writing() as connection:
            last = _without_named(connection, unnamed, last)
            some = set(sorted(unnamed - kept)[:AT_ONCE])
            kept |= some & _shas(text for (text,) in connection.execute(UNDER_WAY))
            kept |= {sha for sha in some if pins.holds(sha)}
            for sha in some - kept:
                (length,) = connection.execute(SIZE, (bytes.fromhex(sha),)).fetchone() or (0,)
                connection.execute(REMOVE, (bytes.fromhex(sha),))
                blobs, size = blobs + 1, size + length
        unnamed -= some - kept
    return Collected(blobs, size, len(kept & unnamed))


def _without_named(connection: sqlite3.Connection, shas: set[str], after: int) -> int:
    """Take from the set what the entries behind a row name; return the last row that was read."""
    cursor = connection.execute(BEHIND, (after,))
    for row, state in cursor if shas else ():
        after = row
        shas -= _shas([state])
        if not shas:
            break
    cursor.close()
    return after


def _shas(texts: Iterable[object]) -> set[str]:
    """Return all that looks like a sha256; a damaged row may hold anything."""
    found = (shas_in(text if isinstance(text, bytes) else str(text).encode()) for text in texts)
    return {sha for shas in found for sha in shas}
