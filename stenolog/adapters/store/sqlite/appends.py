"""Appends in SQLite to one or several conversations: all or nothing, idempotent by id."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from stenolog.adapters.store.contract import appends
from stenolog.adapters.store.contract.appends import Append, Appended, ExactAppend
from stenolog.adapters.store.contract.shared_writes import SharedWriter
from stenolog.adapters.store.contract.values import (
    START,
    BlobContent,
    Head,
    Share,
    Stream,
    Written,
)
from stenolog.adapters.store.sqlite.statements.dialect import shared
from stenolog.domain.entry import Record
from stenolog.domain.errors import (
    CallerError,
    ConversationNotFoundError,
    VersionConflictError,
)

from . import blob_store
from .statements import claim_rows, conversation_rows, erasure_rows, event_rows
from .turn.group_commit import Savepoint


def append(asked: Append, part: Savepoint) -> list[Record]:
    """Write the items after the last entry, as a job for `group_commit`; return their records.

    Raises `VersionConflictError`, `DuplicateIdError`, `InvalidEventError`, `ConversationNotFoundError`,
    `ClaimLostError`; then nothing is written.
    """
    stream = asked.stream
    if asked.fence is not None:
        # The claim is settled by a statement of its own, before which gathered rows must be written.
        part.flush()
    key, head = part.heads.get(stream) or (stream.key, stream.head)
    if key is not None and head is not None and asked.items:
        records = _append_fast(asked, part, key, head)
        if records is not None:
            last = records[-1]
            part.heads[stream] = key, Head(last.position, last.digest)
            return records
    with part:
        writer = SqliteWriter(part.connection)
        key = _key(part.connection, stream)
        done = writer.append(asked, key, writer.head(key))
        if asked.fence is not None:
            settle(part.connection, asked.fence)
    part.heads[stream] = done.key, done.head
    return done.records


def _append_fast(asked: Append, part: Savepoint, key: int, head: Head) -> list[Record] | None:
    """Append after the known head without reading; None if it has moved."""
    # The known head may be outdated, so the conflict is told only after a look at the log.
    if asked.expected not in (None, head.position):
        return None
    # A switch without `expected` is refused, but not one that repeats an earlier append.
    if asked.expected is None and appends.switches(asked.items):
        return None
    records = appends.make_records(head, asked.items)
    try:
        if asked.fence is None:
            part.insert(key, records)
        else:
            with part:
                event_rows.insert(part.connection, key, records)
                settle(part.connection, asked.fence)
    # Another process appended, an id is taken, or the conversation is gone: the slow way tells which.
    except sqlite3.IntegrityError:
        return None
    return records


def settle(connection: sqlite3.Connection, fence: int) -> None:
    """Remove a claim in its result's transaction. Raises `ClaimLostError`."""
    # In the same transaction as the result: a process killed in between leaves both or neither.
    if connection.execute(claim_rows.DELETE, (fence,)).rowcount != 1:
        raise appends.claim_lost(fence)


def append_exactly(asked: ExactAppend, part: Savepoint) -> list[int]:
    """Write the events, or none; return their notification ids. Raises `IntegrityError`."""
    found: list[int] = []
    with part:
        for one in asked.appends:
            try:
                records = append(one, part.smaller())
            except VersionConflictError as error:
                raise appends.version_taken(error) from None
            # This `Stream` was made for this append, so there is no caller to tell its head.
            (key, _) = part.heads.pop(one.stream)
            part.flush()
            found += event_rows.notifications(part.connection, key, records[0].position, records[-1].position)
        if asked.tracking is not None:
            shared.track(part.connection, asked.tracking)
    return found


def _key(connection: sqlite3.Connection, stream: Stream) -> int:
    if stream.key is None:
        key = shared.find(connection, stream.name)
        return conversation_rows.create(connection, stream.name) if key is None else key
    if shared.name_of(connection, stream.key) is None:
        raise ConversationNotFoundError(f"{stream.name!r}: the conversation was deleted")
    return stream.key


class Batch(NamedTuple):
    """Shares and blobs; its `write` is a job for `group_commit`."""

    shares: Sequence[Share]
    blobs: Iterable[tuple[str, bytes]]
    edge: appends.Sources

    def write(self, part: Savepoint) -> list[Written | CallerError]:
        """See `LogRecorder.insert_batch`."""
        with part:
            blob_store.insert(part.connection, self.blobs)
            return [self._written(share, part.smaller()) for share in self.shares]

    def _written(self, share: Share, part: Savepoint) -> Written | CallerError:
        try:
            records = append(Append(share.stream, share.items, share.expected, self.edge), part)
        except CallerError as error:
            return error
        done = Appended(*part.heads[share.stream], records)
        part.flush()
        return SqliteWriter(part.connection).end_share(share, done, self.edge)


class SqliteWriter(SharedWriter[sqlite3.Connection]):
    """The shared writer, with SQLite's statements."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(shared, connection)

    def put_blob(self, blob: BlobContent) -> None:
        blob_store.insert(self._connection, [blob])

    def named_by(self, key: int) -> set[str]:
        return blob_store.named_by(self._connection, key)

    def remove_blobs(self, shas: Collection[str]) -> None:
        blob_store.remove(self._connection, shas)

    def times(self, key: int, positions: Collection[int] | None) -> list[tuple[int, int]]:
        return event_rows.times(self._connection, key, positions)

    def head(self, key: int) -> Head:
        return event_rows.head(self._connection, key) or START

    def by_ids(self, key: int, ids: Sequence[str]) -> dict[str, Record]:
        found = (event_rows.by_id(self._connection, key, id) for id in ids)
        return {record.id: record for record in found if record is not None}

    def digest_at(self, key: int, position: int) -> bytes | None:
        segments = shared.lineage(self._connection, key, position)
        return event_rows.digest_on(self._connection, segments, position)

    def create(self, name: str, parent: int | None, fork: int | None) -> int:
        return conversation_rows.create(self._connection, name, parent=parent, fork=fork)

    def write(self, key: int, records: Sequence[Record]) -> None:
        event_rows.insert_stored(self._connection, key, records)

    def stored(self, key: int, position: int) -> tuple[str, bytes, bytes] | None:
        return erasure_rows.stored(self._connection, key, position)

    def replace(self, key: int, position: int, size: int, erased: bytes, left: bytes) -> None:
        erasure_rows.replace(self._connection, key, position, size, erased, left)
