"""The statements on `history`, the chain of records over names, forks, archiving, deletions and erasures."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple

from stenolog.domain import history
from stenolog.domain.entry import GENESIS
from stenolog.domain.history import ARCHIVED, BEGUN, FORKED, SALT_BYTES, Change, hashed

COLUMNS = "number, stream, what, value, parent, salt, name, digest, erased"
NEWEST = "SELECT number, digest FROM history ORDER BY number DESC LIMIT 1"
INSERT = f"INSERT INTO history ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
NAMED = "SELECT number, salt, name FROM history WHERE stream = ? AND erased IS NULL AND name <> ''"
UNNAME = "UPDATE history SET erased = ?, salt = x'', name = '' WHERE number = ?"
PAGE = f"SELECT {COLUMNS} FROM history WHERE number > ? ORDER BY number LIMIT 1000"
CONVERSATIONS = "SELECT stream, name, parent, fork_position, archived_at FROM conversations ORDER BY stream"


class Newest(NamedTuple):
    """The last record's number and digest."""

    number: int
    digest: bytes


START = Newest(0, GENESIS)


def newest(connection: sqlite3.Connection) -> Newest:
    """Return where the history stands."""
    row = connection.execute(NEWEST).fetchone()
    return Newest._make(row) if row else START


def add(
    connection: sqlite3.Connection,
    stream: int,
    what: str,
    *,
    value: int | None = 0,
    parent: int | None = 0,
    name: str = "",
) -> None:
    """Write one record behind the last one; the caller's transaction changes what it tells."""
    number, previous = newest(connection)
    salt = os.urandom(SALT_BYTES) if name else b""
    change = Change(number + 1, stream, what, value or 0, parent or 0, salt, name, b"")
    connection.execute(INSERT, change._replace(digest=history.digest_of(previous, change)))


def unname(connection: sqlite3.Connection, stream: int) -> None:
    """Erase the names of a conversation that is deleted."""
    for number, salt, name in connection.execute(NAMED, (stream,)).fetchall():
        connection.execute(UNNAME, (hashed(salt, name), number))


def fill(connection: sqlite3.Connection) -> None:
    """Write the history of a file of an earlier version: its conversations as they are now."""
    for stream, name, parent, fork, archived_at in connection.execute(CONVERSATIONS).fetchall():
        what = BEGUN if parent is None else FORKED
        add(connection, stream, what, value=fork, parent=parent, name=name)
        if archived_at is not None:
            add(connection, stream, ARCHIVED, value=archived_at)


def rows(connection: sqlite3.Connection) -> Iterator[tuple[Any, ...]]:
    """Yield the records as they stand there, unchecked, in order."""
    last = -1
    while page := connection.execute(PAGE, (last,)).fetchall():
        yield from page
        last = page[-1][0]
