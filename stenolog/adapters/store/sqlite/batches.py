"""Forks, imports and exports in SQLite: what writes to several conversations in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from stenolog.adapters.store.contract.appends import Sources, fork_opening, make_records, once
from stenolog.adapters.store.contract.continued import ExportWriter
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
from stenolog.domain.entry import Record, check_name
from stenolog.domain.errors import (
    CallerError,
    ConversationExistsError,
    ConversationNotFoundError,
)

from .appends import Append
from .statements import blob_rows, conversation_rows, event_rows, tracking_rows
from .turn.group_commit import Savepoint


def fork(
    connection: sqlite3.Connection, parent: Stream, at: Head, name: str | None, items: Sequence[PendingEntry]
) -> Stream:
    """See `LogRecorder.fork`."""
    key = parent.key
    assert key is not None, "it has entries"
    if conversation_rows.name_of(connection, key) is None:
        raise ConversationNotFoundError(f"{parent.name!r}: the conversation was deleted")
    if name is None:
        name = _free_name(connection, parent.name, key)
    elif conversation_rows.find(connection, name) is not None:
        raise ConversationExistsError(f"{name!r}: a conversation of this name exists already")
    made = conversation_rows.create(connection, name, parent=key, fork=at.position)
    event_rows.insert(connection, made, make_records(at, once(name, items)))
    return Stream(name, made)


def _free_name(connection: sqlite3.Connection, parent: str, key: int) -> str:
    """Return the first free one of `<name>~1`, `~2` …"""
    # Where no fork has been renamed or deleted, the first try is free.
    number = len(conversation_rows.forks(connection, key)) + 1
    while conversation_rows.find(connection, f"{parent}~{number}") is not None:
        number += 1
    return check_name(f"{parent}~{number}", what="name of the fork")


class Batch(NamedTuple):
    """Shares of conversations, and blobs; its `write` is a job for `group_commit`."""

    shares: Sequence[Share]
    blobs: Iterable[tuple[str, bytes]]
    edge: Sources

    def write(self, part: Savepoint) -> list[Written | CallerError]:
        """See `LogRecorder.insert_batch`."""
        with part:
            blob_rows.insert(part.connection, self.blobs)
            return [self._written(share, part.smaller()) for share in self.shares]

    def _written(self, share: Share, part: Savepoint) -> Written | CallerError:
        """Write a conversation's entries; return its new head, or the error if it cannot be written to."""
        try:
            records = Append(share.stream, share.items, share.expected, self.edge).write(part)
        except CallerError as error:
            return error
        key, head = part.heads[share.stream]
        if head.position > share.expected:
            part.flush()
            conversation_rows.note_import(part.connection, key, share.expected + 1, head.position)
        for mark in share.marks:
            tracking_rows.advance(part.connection, mark, Cursor(key))
        forks = self._forks(share, part, records) if share.branches else []
        return Written(head.position, forks)

    def _forks(self, share: Share, part: Savepoint, records: list[Record]) -> list[str]:
        """Store the branches of a conversation, and return the names of the new ones."""
        connection, (key, _) = part.connection, part.heads[share.stream]
        digests = {record.position: record.digest for record in records}
        made = []
        for name, after in share.branches:
            digest = digests.get(after) or event_rows.digest_on(
                connection, conversation_rows.lineage(connection, key, after), after
            )
            assert digest is not None, "it is written"
            if conversation_rows.find(connection, name) is None:
                at, parent = Head(after, digest), Stream(share.stream.name, key)
                fork(connection, parent, at, name, [fork_opening(self.edge, parent.name, at)])
                made.append(name)
        return made


class SqliteExportWriter(ExportWriter):
    """Writes an export in one transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def put_blob(self, blob: BlobContent) -> None:
        blob_rows.insert(self._connection, [blob])

    def find(self, name: str) -> int | None:
        return conversation_rows.find(self._connection, name)

    def head(self, key: int) -> Head:
        return event_rows.head(self._connection, key) or START

    def digest_at(self, key: int, position: int) -> bytes | None:
        segments = conversation_rows.lineage(self._connection, key, position)
        return event_rows.digest_on(self._connection, segments, position)

    def create(self, name: str, parent: int | None, fork: int | None) -> int:
        return conversation_rows.create(self._connection, name, parent=parent, fork=fork)

    def archive(self, key: int, at: int) -> None:
        conversation_rows.archive(self._connection, key, at)

    def advance(self, name: str, to: Cursor) -> None:
        tracking_rows.advance(self._connection, name, to)

    def add_change(self, key: int, what: str, **values: Any) -> None:
        conversation_rows.add_change(self._connection, key, what, **values)

    def write(self, key: int, records: Sequence[Record]) -> None:
        event_rows.insert_stored(self._connection, key, records)
