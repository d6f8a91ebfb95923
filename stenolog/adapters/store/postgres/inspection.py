"""Reading of a possibly damaged database: trusts no row, continues after unreadable ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from hashlib import sha256
from typing import Any

import psycopg
from psycopg import errors as pg

from stenolog.adapters.store.contract import inspection
from stenolog.adapters.store.contract.values import LAST, START, Cursor, Head, Segment
from stenolog.adapters.store.postgres.statements.dialect import shared
from stenolog.domain.entry import Record
from stenolog.domain.erasure import RECEIPT, RECEIPT_BYTES
from stenolog.domain.errors import StoreTimeoutError
from stenolog.domain.history import Change

from . import table_checks
from .connection.datastore import LogConnection, PostgresLogDatastore
from .connection.errors import RAISED, is_lost, to_store_error
from .statements import event_rows, followed

PATIENCE = "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = '10min'"
"""A long index takes its time; a transaction that only reads keeps no follower waiting."""
# What the row of a conversation repeats of its last entry, beside that entry, read in one statement.
CONVERSATIONS = f"""SELECT c.stream, c.name, c.parent, c.fork_position, c.archived_at,
        c.head, c.digest, c.last_at, coalesce(e.position, 0), coalesce(e.digest, ''),
        (SELECT at FROM {{s}}.stored_events AS e WHERE e.stream = c.stream
            AND NOT (octet_length(state) < {RECEIPT_BYTES} AND position(%s::bytea IN state) > 0)
            ORDER BY e.position DESC LIMIT 1)
    FROM {{s}}.conversations AS c LEFT JOIN LATERAL (
        SELECT position, digest FROM {{s}}.stored_events WHERE stream = c.stream
        ORDER BY position DESC LIMIT 1) AS e ON true
    ORDER BY c.stream"""
ENDS = "SELECT min(position), max(position) FROM {s}.stored_events WHERE stream = %s"
# From stream to stream by the index: the entries of each are passed over. A follower may note a cursor in a
# conversation that others have just deleted, which is no fault.
ORPHANS = """WITH RECURSIVE streams AS (
        SELECT min(stream) AS stream FROM {s}.stored_events
        UNION ALL SELECT (SELECT min(stream) FROM {s}.stored_events WHERE stream > streams.stream)
        FROM streams WHERE stream IS NOT NULL)
    SELECT 'stored_events', stream FROM streams
    WHERE stream IS NOT NULL
        AND NOT EXISTS (SELECT FROM {s}.conversations AS c WHERE c.stream = streams.stream)
    UNION SELECT 'claims', stream FROM {s}.claims AS k
    WHERE NOT EXISTS (SELECT FROM {s}.conversations AS c WHERE c.stream = k.stream)
    ORDER BY 1, 2 LIMIT 20"""
# One statement, as a log may have 100,000 of them.
HEADS_UNTIL = """SELECT e.position, e.digest FROM unnest(%s::bigint[]) WITH ORDINALITY AS k (stream, n)
    LEFT JOIN LATERAL (SELECT position, digest FROM {s}.stored_events
        WHERE stream = k.stream AND notification <= %s ORDER BY position DESC LIMIT 1) AS e ON true
    ORDER BY k.n"""
NEXT_BLOB = "SELECT number, sha256, bytes FROM {s}.blobs WHERE number > %s ORDER BY number LIMIT 1"


@contextmanager
def inspecting(datastore: PostgresLogDatastore) -> Iterator[PostgresInspection]:
    """Yield a log's inspection on its own connection. Raises `StoreError`."""
    datastore.check()
    try:
        connection = datastore.connect()
    except RAISED as error:
        raise to_store_error(error, datastore.path) from error
    with closing(connection):
        # Behind a pooler a session's settings are others', too; and none was made there.
        if not datastore.address.pooled:
            connection.execute(PATIENCE)
        yield PostgresInspection(connection, datastore.path)


class PostgresInspection(inspection.Inspection):
    """Inspection of a log, on a connection of `inspecting`.

    Raises `StoreTimeoutError` if the server goes away: no fault of the log.
    """

    failures = (*RAISED, UnicodeDecodeError)

    def __init__(self, connection: LogConnection, path: str) -> None:
        self.connection = connection
        self._path = path

    def errors(self) -> Iterator[str]:
        try:
            with self._part():
                for table, stream in self.connection.run(ORPHANS).fetchall():
                    yield f"{table} has rows of stream {stream}, which is no conversation"
        except self.failures as error:
            # Where a table is missing, `schema_errors` says so.
            if not isinstance(error, pg.UndefinedTable):
                yield str(error)
        yield from table_checks.amcheck_errors(self.connection)

    def schema_errors(self) -> Iterator[str]:
        return table_checks.schema_errors(self.connection)

    def lost(self) -> tuple[str, str] | None:
        # The server keeps what it has acknowledged; `check log --head` tells what a failover has lost.
        return None

    def conversations(self) -> list[inspection.ConversationRow]:
        found = []
        with self._part():
            for row in self.connection.run(CONVERSATIONS, (RECEIPT,)).fetchall():
                held = inspection.checked_conversation(*row[:5])
                found.append(held._replace(wrong=(*held.wrong, *_repeated(row[5:8], row[8:]))))
        return found

    def history(self) -> Iterator[Change | inspection.DamagedRow]:
        try:
            with self._part():
                yield from inspection.checked_changes(shared.history_rows(self.connection))
        except self.failures as error:
            yield inspection.DamagedRow(0, "/history", "rows that can be read", _message(error))

    def records(self, key: int, after: int, upto: int) -> Iterator[Record | inspection.DamagedRow]:
        position = after
        while True:
            try:
                with self._part():
                    rows = event_rows.page(self.connection, event_rows.WHOLE, key, position, upto)
            except self.failures as error:
                yield inspection.DamagedRow(position + 1, "", "rows that can be read", _message(error))
                return
            if not rows:
                return
            yield from map(inspection.checked_record, rows)
            last = rows[-1][0]
            # Else a damaged index could make this loop read the same page without end.
            if last <= position:
                yield inspection.DamagedRow(position + 1, "/position", "positions in order", repr(last))
                return
            position = last

    def outside(self, held: inspection.ConversationRow) -> Iterator[inspection.DamagedRow]:
        with self._part():
            ends = self.connection.run(ENDS, (held.key,)).fetchone() or ()
        yield from inspection.misplaced(held, ends)

    def blobs(self) -> Iterator[tuple[str, bool]]:
        last = -1
        # One blob at a time, since each may be long.
        while row := self._one(NEXT_BLOB, last):
            last, key, content = row
            yield key.hex(), sha256(content).digest() == key

    def cursors(self) -> Iterator[tuple[str, int, Cursor]]:
        with self._part():
            found = shared.cursors(self.connection)
        yield from found

    def lineage(self, key: int) -> tuple[Segment, ...]:
        with self._part():
            return shared.lineage(self.connection, key, LAST)

    def digest_at(self, key: int, position: int) -> bytes | None:
        with self._part():
            return event_rows.digest_at(self.connection, key, position)

    def heads_until(self, keys: Sequence[int], newest: int) -> Iterator[Head]:
        with self._part():
            rows = self.connection.run(HEADS_UNTIL, ([*keys], newest)).fetchall()
        return (START if position is None else Head(position, digest) for position, digest in rows)

    def newest(self) -> int:
        with self._part():
            return followed.newest(self.connection)[0]

    def newest_given(self) -> int:
        # No counter of the server tells; the rows of the conversations tell of entries that are gone.
        return self.newest()

    @contextmanager
    def at_one_moment(self) -> Iterator[None]:
        with self.connection.transaction():
            self.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield

    def _one(self, statement: str, *values: Any) -> tuple[Any, ...] | None:
        with self._part():
            return self.connection.run(statement, values).fetchone()

    @contextmanager
    def _part(self) -> Iterator[None]:
        """Read in a savepoint, so that the rest can be read after an error."""
        try:
            if self.connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS:
                with self.connection.transaction():
                    yield
            else:
                yield
        except RAISED as error:
            if is_lost(error):
                said = f"{self._path}: the server went away meanwhile ({_message(error)})"
                raise StoreTimeoutError(said) from error
            raise


def _repeated(row: tuple[Any, ...], entry: tuple[Any, ...]) -> Iterator[inspection.DamagedRow]:
    for column, found, stands in zip(("head", "digest", "last_at"), row, entry, strict=True):
        if found != stands:
            yield inspection.DamagedRow(
                entry[0],
                f"/{column}",
                _value_in_words(stands),
                f"{_value_in_words(found)} in its conversation",
            )


def _value_in_words(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _message(error: BaseException) -> str:
    return " ".join(str(error).split())
