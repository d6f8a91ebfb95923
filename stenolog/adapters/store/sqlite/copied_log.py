"""Another database's log, written unchanged into a new SQLite file.

Keys and notification ids stay, and so do the history and the log's head.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from stenolog.adapters.store.contract import shared_rows
from stenolog.adapters.store.contract.values import Row
from stenolog.domain.errors import CorruptLogError
from stenolog.domain.history import DELETED

from . import copies, file_safety
from .errors import RAISED, to_store_error
from .statements import schema
from .statements.conversation_rows import record_imports
from .statements.dialect import plain
from .statements.event_rows import compressed

CONVERSATION = (
    "INSERT INTO conversations (stream, name, parent, fork_position, archived_at) VALUES (?, ?, ?, ?, ?)"
)
ENTRY = """INSERT INTO stored_events (rowid, originator_id, originator_version, entry_id, at, topic, salt,
    digest, size, erased, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
BLOB = "INSERT INTO blobs (rowid, sha256, bytes) VALUES (?, ?, ?)"
# A number that was used before is never used again: neither of a conversation, nor of an entry.
USED = {
    "conversations": "SELECT max(stream) FROM history",
    "stored_events": f"""SELECT max(coalesce((SELECT max(rowid) FROM stored_events), 0),
        coalesce((SELECT max(value) FROM history WHERE what = '{DELETED}'), 0))""",
}
FORGET_USED = "DELETE FROM sqlite_sequence WHERE name = ?"
SET_USED = "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)"
HEADS = """SELECT originator_id, originator_version, digest FROM stored_events AS e
    WHERE originator_version = (
        SELECT max(originator_version) FROM stored_events WHERE originator_id = e.originator_id)
    ORDER BY originator_id"""


class LogRows(ABC):
    """Rows of a log at one moment, with the columns named here."""

    @abstractmethod
    def conversations(self) -> Iterable[Row]:
        """Yield stream, name, parent, fork position, time of archiving."""

    @abstractmethod
    def entries(self) -> Iterator[Iterable[Row]]:
        """Yield notification id, stream, position, id, time, topic, salt, digest, size, erased, payload.

        In pages, by notification id.
        """

    @abstractmethod
    def history(self) -> Iterable[Row]:
        """Yield the columns of a `Change`."""

    @abstractmethod
    def blobs(self) -> Iterable[Row]:
        """Yield number, sha256 and bytes."""

    @abstractmethod
    def cursors(self) -> Iterable[Row]:
        """Yield name, stream, position and piece."""

    @abstractmethod
    def heads(self) -> list[Row]:
        """Return stream, last position and digest of all non-empty streams, in order."""


def write_log(path: Path, rows: LogRows) -> None:
    """Write a log into a new file, whole or not at all; durable on return.

    Raises `StoreError`, and `CorruptLogError` if the written log differs from the one read.
    """
    copies.refuse_existing(path)
    file_safety.check_path(path)
    with copies.part(path) as unfinished:
        try:
            with closing(sqlite3.connect(unfinished, isolation_level=None)) as connection:
                _fill(connection, rows, str(path))
        except RAISED as error:
            raise to_store_error(error, str(path)) from error
        copies.publish(unfinished, path)


def _fill(connection: sqlite3.Connection, rows: LogRows, where: str) -> None:
    connection.execute(f"PRAGMA page_size = {schema.PAGE_SIZE}")
    # No journal is needed: a half-written copy is thrown away.
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    schema.migrate(connection, where)
    connection.execute("BEGIN")
    connection.executemany(CONVERSATION, rows.conversations())
    for page in rows.entries():
        connection.executemany(ENTRY, map(_as_stored, page))
    connection.executemany(plain(shared_rows.INSERT_CHANGE), rows.history())
    connection.executemany(BLOB, rows.blobs())
    connection.executemany(plain(shared_rows.SET), rows.cursors())
    # Of a log that no owner has opened since an earlier release; else there are none.
    record_imports(connection)
    for table, statement in USED.items():
        (used,) = connection.execute(statement).fetchone()
        connection.execute(FORGET_USED, (table,))
        connection.execute(SET_USED, (table, used or 0))
    if connection.execute(HEADS).fetchall() != rows.heads():
        raise CorruptLogError(
            f"{where}: the entries that were written end elsewhere than those that were read"
        )
    connection.execute("COMMIT")
    # A log is written ahead; the mark of that is in the file.
    connection.execute("PRAGMA journal_mode = WAL")


def _as_stored(entry: Row) -> Row:
    *before, size, erased, payload = entry
    if erased is not None:
        return entry
    stored, size = compressed(payload)
    return (*before, size, erased, stored)
