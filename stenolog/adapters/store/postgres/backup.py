"""Backup of a log in PostgreSQL to an SQLite file, read in one transaction.

Claims and drafts, which belong to processes and this server, are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from stenolog.adapters.store.contract.shared_rows import BLOB_MARK, STREAM_MARK
from stenolog.adapters.store.contract.values import Row
from stenolog.adapters.store.postgres.statements.dialect import shared
from stenolog.adapters.store.sqlite import copied_log
from stenolog.adapters.store.sqlite.copied_log import LogRows

from .connection.datastore import LogConnection, PostgresLogDatastore
from .connection.errors import RAISED, to_store_error
from .inspection import inspecting

CONVERSATIONS = """SELECT stream, name, parent, fork_position, archived_at
    FROM {s}.conversations ORDER BY stream"""
COLUMNS = "notification, stream, position, entry_id, at, topic, salt, digest, size, erased, state"
# Rows are few where they are long, but the first comes whatever its length.
ENTRIES = f"""SELECT {COLUMNS} FROM (
    SELECT *, coalesce(sum(octet_length(state)) OVER (
        ORDER BY notification ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
    FROM (SELECT {COLUMNS} FROM {{s}}.stored_events
        WHERE notification > %s ORDER BY notification LIMIT 512) AS next_rows
) AS measured WHERE before < 4000000 ORDER BY notification"""
BLOBS = "SELECT number, sha256, bytes FROM {s}.blobs WHERE number > %s ORDER BY number LIMIT 1"
# No file beside the copy holds words that were erased here.
CURSORS = """SELECT name, stream, position, piece FROM {s}.tracking
    WHERE name <> %s AND NOT starts_with(name, %s)"""
HEADS = """SELECT DISTINCT ON (stream) stream, position, digest
    FROM {s}.stored_events ORDER BY stream, position DESC"""


def backup(datastore: PostgresLogDatastore, path: Path) -> None:
    """Write the current log into a new SQLite file. Raises `StoreError`, `StoreTimeoutError`."""
    with inspecting(datastore) as inspection:
        try:
            with inspection.at_one_moment():
                copied_log.write_log(path, PostgresLogRows(inspection.connection))
        except RAISED as error:
            raise to_store_error(error, datastore.path) from error


class PostgresLogRows(LogRows):
    """The rows of a log, as a transaction sees them."""

    def __init__(self, connection: LogConnection) -> None:
        self._connection = connection

    def conversations(self) -> Iterable[Row]:
        return self._all(CONVERSATIONS)

    def entries(self) -> Iterator[Iterable[Row]]:
        after = 0
        while page := self._all(ENTRIES, after):
            yield page
            after = page[-1][0]

    def history(self) -> Iterable[Row]:
        return shared.history_rows(self._connection)

    def blobs(self) -> Iterable[Row]:
        after = 0
        while found := self._all(BLOBS, after):
            yield from found
            after = found[-1][0]

    def cursors(self) -> Iterable[Row]:
        return self._all(CURSORS, STREAM_MARK, BLOB_MARK)

    def heads(self) -> list[Row]:
        return self._all(HEADS)

    def _all(self, statement: str, *values: Any) -> list[Row]:
        return self._connection.run(statement, values).fetchall()
