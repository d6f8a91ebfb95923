"""Erasures as rows: a payload is overwritten in one transaction, and what derives from it right after that.

Marks in `tracking`, written in the same transaction, tell what is still to be removed from the files beside
the log. A process that is killed in between leaves them, and whoever opens the log next goes on from there.
So an erasure is done or not, never half.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import Protocol

from stenolog.domain.entry import content_hash
from stenolog.domain.errors import OperationalError, StenologError, StoredDataError
from stenolog.domain.history import ERASED

from . import blobs, checkpoints, conversation_rows, cursors
from .blobs import Blobs
from .cursors import Cursor
from .database import LogDatastore
from .search_index import Index
from .sidecar import delete_retired

STREAM_MARK = "erasing"
BLOB_MARK = "erasing blob "
WITH_ENTRY = "SELECT stream, name FROM conversations WHERE parent = ? AND fork_position >= ? ORDER BY stream"
STORED = "SELECT salt, state FROM stored_events WHERE originator_id = ? AND originator_version = ?"
ERASE = """UPDATE stored_events SET size = ?, erased = ?, salt = x'', state = x''
    WHERE originator_id = ? AND originator_version = ?"""
NEW_KEY = "UPDATE secret SET bytes = ? WHERE name = 'sidecars'"
DRAFTS = "DELETE FROM drafts WHERE fence IN (SELECT fence FROM claims WHERE stream = ?)"
HAS_TABLES = "SELECT 1 FROM sqlite_master WHERE name = 'stenolog_tables'"
TABLES = "SELECT name FROM stenolog_tables"
PENDING = f"SELECT name, stream FROM tracking WHERE name = '{STREAM_MARK}' OR name LIKE '{BLOB_MARK}%'"
UNMARK = f"DELETE FROM tracking WHERE name = '{STREAM_MARK}' OR name LIKE '{BLOB_MARK}%'"


class Cache(Protocol):
    """A cache in memory of what streams say."""

    def drop(self, stream: int) -> None:
        """Remove all that comes from a stream."""


class Files(Protocol):
    """An open log: its database, and what stands beside it."""

    datastore: LogDatastore
    blobs: Blobs
    checkpoints: checkpoints.Checkpoints
    index: Index
    windows: Cache | None


def conversations_with(
    connection: sqlite3.Connection, stream: int, name: str, position: int
) -> Iterator[tuple[int, str]]:
    """Yield the conversations that have an entry: the stream's own, and its forks from there on."""
    yield stream, name
    for fork, fork_name in connection.execute(WITH_ENTRY, (stream, position)).fetchall():
        yield from conversations_with(connection, fork, fork_name, position)


def overwrite(
    connection: sqlite3.Connection,
    stream: int,
    positions: Sequence[int],
    streams: Collection[int],
    key: bytes,
) -> None:
    """Overwrite payloads of a stream, and all that derives from them in the same file; mark what is left.

    `streams` are those of the conversations that have the entries. `key` seals the files beside the log from
    now on: what other processes have left there is not used any more.
    """
    named: set[str] = set()
    for position in positions:
        salt, payload = connection.execute(STORED, (stream, position)).fetchone()
        named |= blobs.shas_in(payload)
        connection.execute(ERASE, (len(payload), content_hash(salt, payload), stream, position))
        conversation_rows.add_change(connection, stream, ERASED, value=position)
    if connection.execute(HAS_TABLES).fetchone():
        for (table,) in connection.execute(TABLES).fetchall():
            statement = f'DELETE FROM "{table}__rows" WHERE stream = ? AND position = ?'
            connection.executemany(statement, [(stream, position) for position in positions])
    connection.execute(NEW_KEY, (key,))
    for each in streams:
        connection.execute(DRAFTS, (each,))
        cursors.advance(connection, STREAM_MARK, Cursor(), each)
    for sha in named:
        cursors.advance(connection, f"{BLOB_MARK}{sha}", Cursor())


def finish(log: Files) -> bool:
    """Remove what the files beside the log, and blobs, still have of erased words; whether all of it is gone.

    Where others are in the way, the marks stay, and whoever opens the log next tries again.
    """
    with log.datastore.reading() as connection:
        pending = connection.execute(PENDING).fetchall()
    if not pending:
        return True
    for stream in {checkpoints.WHOLE_LOG, *(stream for _, stream in pending)}:
        if log.windows is not None:
            log.windows.drop(stream)
        log.checkpoints.erase_stream(stream)
    log.index.discard()
    delete_retired(log.datastore.file)
    named = {name.removeprefix(BLOB_MARK) for name, _ in pending if name.startswith(BLOB_MARK)}
    try:
        kept = 0
        if named and blobs.PINS_SUPPORTED:
            kept = blobs.collect(log.datastore, log.blobs.pins, named).kept
        if kept or not log.datastore.fold():
            return False
        with log.datastore.writing() as connection:
            connection.execute(UNMARK)
    except (OperationalError, StoredDataError):
        return False
    return True


def go_on(log: Files) -> None:
    """Finish the erasures of a process that was killed. What cannot be done now is left for the next one."""
    with suppress(StenologError):
        finish(log)
