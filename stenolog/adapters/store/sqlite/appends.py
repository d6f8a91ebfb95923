"""Appends in SQLite to one or several conversations: all or nothing, idempotent by id."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stenolog.adapters.store.contract import appends
from stenolog.adapters.store.contract.appends import Append, Appended, ExactAppend
from stenolog.adapters.store.contract.shared_rows import SharedExportWriter
from stenolog.adapters.store.contract.values import (
    START,
    BlobContent,
    Cursor,
    Head,
    PendingEntry,
    Share,
    Stream,
    Written,
)
from stenolog.adapters.store.sqlite.statements.dialect import shared
from stenolog.domain.entry import Record, check_name
from stenolog.domain.errors import (
    CallerError,
    ConversationExistsError,
    ConversationNotFoundError,
    VersionConflictError,
)

from . import blob_store
from .statements import claim_rows, conversation_rows, event_rows
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
    if key is not None and head is not None:
        records = _append_fast(asked, part, key, head)
        if records is not None:
            last = records[-1]
            part.heads[stream] = key, Head(last.position, last.digest)
            return records
    with part:
        done = _append_checked(asked, part.connection)
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


def _append_checked(asked: Append, connection: sqlite3.Connection) -> Appended:
    """Append after reading the head, and ids that may exist."""
    name = asked.stream.name
    key = _key(connection, asked.stream)
    head = event_rows.head(connection, key) or START
    items = appends.once(name, asked.items)
    standing = _existing_records(connection, name, key, items) if head.position else {}
    if fresh := appends.unwritten(
        name, items, standing, head, expected=asked.expected, edge=asked.edge, exact=asked.exact
    ):
        records = appends.make_records(head, fresh)
        event_rows.insert(connection, key, records)
        head = _last(records)
        standing.update((record.id, record) for record in records)
    return Appended(key, head, [standing[item.id] for item in asked.items])


def settle(connection: sqlite3.Connection, fence: int) -> None:
    """Remove a claim, in the transaction that appends its result. Raises `ClaimLostError`."""
    # In the same transaction as the result: a process killed in between leaves both or neither.
    if connection.execute(claim_rows.DELETE, (fence,)).rowcount != 1:
        raise appends.claim_lost(fence)


def append_exactly(asked: ExactAppend, part: Savepoint) -> list[int]:
    """Write the events, or none; return their notification ids. Raises the library's `IntegrityError`."""
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


def _last(records: Sequence[Record]) -> Head:
    return Head(records[-1].position, records[-1].digest)


def _key(connection: sqlite3.Connection, stream: Stream) -> int:
    """Return the stream's key; create a new conversation."""
    if stream.key is None:
        key = shared.find(connection, stream.name)
        return conversation_rows.create(connection, stream.name) if key is None else key
    if shared.name_of(connection, stream.key) is None:
        raise ConversationNotFoundError(f"{stream.name!r}: the conversation was deleted")
    return stream.key


def _existing_records(
    connection: sqlite3.Connection, name: str, key: int, items: list[PendingEntry]
) -> dict[str, Record]:
    """Return the existing records of items that repeat an earlier append."""
    standing: dict[str, Record] = {}
    for item in items:
        record = event_rows.by_id(connection, key, item.id)
        if record is not None:
            appends.check_same(name, record, item)
            standing[item.id] = record
    return standing


def fork(
    connection: sqlite3.Connection, parent: Stream, at: Head, name: str | None, items: Sequence[PendingEntry]
) -> Stream:
    """See `ConversationStore.fork`."""
    key = parent.key
    assert key is not None, "it has entries"
    if shared.name_of(connection, key) is None:
        raise ConversationNotFoundError(f"{parent.name!r}: the conversation was deleted")
    if name is None:
        name = _free_name(connection, parent.name, key)
    elif shared.find(connection, name) is not None:
        raise ConversationExistsError(f"{name!r}: a conversation of this name exists already")
    made = conversation_rows.create(connection, name, parent=key, fork=at.position)
    event_rows.insert(connection, made, appends.make_records(at, appends.once(name, items)))
    return Stream(name, made)


def _free_name(connection: sqlite3.Connection, parent: str, key: int) -> str:
    """Return the first free one of `<name>~1`, `~2` …"""
    # Where no fork has been renamed or deleted, the first try is free.
    number = len(shared.forks(connection, key)) + 1
    while shared.find(connection, f"{parent}~{number}") is not None:
        number += 1
    return check_name(f"{parent}~{number}", what="name of the fork")


class Batch(NamedTuple):
    """Shares of conversations, and blobs; its `write` is a job for `group_commit`."""

    shares: Sequence[Share]
    blobs: Iterable[tuple[str, bytes]]
    edge: appends.Sources

    def write(self, part: Savepoint) -> list[Written | CallerError]:
        """See `LogRecorder.insert_batch`."""
        with part:
            blob_store.insert(part.connection, self.blobs)
            return [self._written(share, part.smaller()) for share in self.shares]

    def _written(self, share: Share, part: Savepoint) -> Written | CallerError:
        """Write a conversation's entries; return its new head, or the error."""
        try:
            records = append(Append(share.stream, share.items, share.expected, self.edge), part)
        except CallerError as error:
            return error
        key, head = part.heads[share.stream]
        if head.position > share.expected:
            part.flush()
            shared.note_import(part.connection, key, share.expected + 1, head.position)
        for mark in share.marks:
            shared.save_cursor(part.connection, mark, Cursor(key))
        forks = self._forks(share, part, records) if share.branches else []
        return Written(head.position, forks)

    def _forks(self, share: Share, part: Savepoint, records: list[Record]) -> list[str]:
        """Store a conversation's branches; return the new ones' names."""
        connection, (key, _) = part.connection, part.heads[share.stream]
        digests = {record.position: record.digest for record in records}
        made = []
        for name, after in share.branches:
            digest = digests.get(after) or event_rows.digest_on(
                connection, shared.lineage(connection, key, after), after
            )
            assert digest is not None, "it is written"
            if shared.find(connection, name) is None:
                at, parent = Head(after, digest), Stream(share.stream.name, key)
                fork(connection, parent, at, name, [appends.fork_opening(self.edge, parent.name, at)])
                made.append(name)
        return made


class SqliteExportWriter(SharedExportWriter[sqlite3.Connection]):
    """Writes an export in one transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(shared, connection)

    def put_blob(self, blob: BlobContent) -> None:
        blob_store.insert(self._connection, [blob])

    def head(self, key: int) -> Head:
        return event_rows.head(self._connection, key) or START

    def digest_at(self, key: int, position: int) -> bytes | None:
        segments = shared.lineage(self._connection, key, position)
        return event_rows.digest_on(self._connection, segments, position)

    def create(self, name: str, parent: int | None, fork: int | None) -> int:
        return conversation_rows.create(self._connection, name, parent=parent, fork=fork)

    def write(self, key: int, records: Sequence[Record]) -> None:
        event_rows.insert_stored(self._connection, key, records)
