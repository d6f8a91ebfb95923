"""Forks, imports and exports in PostgreSQL: writes to several conversations in a transaction."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from stenolog.adapters.store.contract.appends import (
    Append,
    Appended,
    Sources,
    fork_opening,
    make_records,
    once,
)
from stenolog.adapters.store.contract.shared_rows import SharedExportWriter
from stenolog.adapters.store.contract.values import (
    START,
    BlobContent,
    Continuation,
    Cursor,
    ExportPart,
    Head,
    PendingEntry,
    Share,
    Stream,
    Written,
)
from stenolog.adapters.store.postgres.statements.dialect import shared
from stenolog.domain.entry import Record, check_name
from stenolog.domain.errors import (
    CallerError,
    ConversationExistsError,
    ConversationNotFoundError,
)

from .appends import append_checked, take_turns_of, write_rows
from .connection.datastore import HISTORY, LogConnection, take_turns
from .statements import blob_rows, conversation_rows, event_rows

MADE = """SELECT c.name, c.stream FROM {s}.conversations AS c JOIN {s}.stored_events AS e USING (stream)
    WHERE c.parent = %s AND e.position = %s AND e.entry_id = %s"""


def fork(
    connection: LogConnection,
    parent: Stream,
    at: Head,
    name: str | None,
    items: Sequence[PendingEntry],
    *,
    again: bool = False,
) -> Stream:
    """Fork as `ConversationStore.fork`; the caller has the history's turn.

    `again`: an earlier attempt may have made it.
    """
    key = parent.key
    assert key is not None, "it has entries"
    if again and items and (row := connection.run(MADE, (key, at.position + 1, items[0].id)).fetchone()):
        return Stream(*row)
    if shared.name_of(connection, key) is None:
        raise ConversationNotFoundError(f"{parent.name!r}: the conversation was deleted")
    if name is None:
        name = _free_name(connection, parent.name, key)
    elif shared.find(connection, name) is not None:
        raise ConversationExistsError(f"{name!r}: a conversation of this name exists already")
    made = conversation_rows.create(connection, name, parent=key, fork=at.position)
    write_rows(connection, made, at, make_records(at, once(name, items)))
    return Stream(name, made)


def _free_name(connection: LogConnection, parent: str, key: int) -> str:
    """Return the first free one of `<name>~1`, `~2` …"""
    # Where no fork has been renamed or deleted, the first try is free.
    number = len(shared.forks(connection, key)) + 1
    while shared.find(connection, f"{parent}~{number}") is not None:
        number += 1
    return check_name(f"{parent}~{number}", what="name of the fork")


def insert_batch(
    connection: LogConnection,
    shares: Sequence[Share],
    blobs: Iterable[tuple[str, bytes]],
    edge: Sources,
    *,
    again: bool = False,
) -> list[Written | CallerError]:
    """Insert as `LogRecorder.insert_batch`; `again`: an earlier attempt may have committed."""
    take_turns(connection, [HISTORY])
    take_turns_of(connection, {share.stream.name for share in shares})
    blob_rows.insert(connection, blobs)
    return [_written(connection, share, edge, again) for share in shares]


def _written(connection: LogConnection, share: Share, edge: Sources, again: bool) -> Written | CallerError:
    """Write a conversation's entries; return its new head, or the error."""
    placed = connection.placed
    try:
        with connection.transaction():
            asked = Append(share.stream, share.items, share.expected, edge)
            done = append_checked(connection, asked, again=again)
    except CallerError as error:
        connection.placed = placed
        return error
    if (last := done.head.position) > share.expected and not (again and _has_import(connection, done)):
        shared.note_import(connection, done.key, share.expected + 1, last)
    for mark in share.marks:
        shared.save_cursor(connection, mark, Cursor(done.key))
    return Written(done.head.position, _forks(connection, share, done, edge, again) if share.branches else [])


def _has_import(connection: LogConnection, done: Appended) -> bool:
    """Return whether the attempt before this one has recorded the import."""
    return shared.imported(connection, done.key)[1] >= done.head.position


def _forks(connection: LogConnection, share: Share, done: Appended, edge: Sources, again: bool) -> list[str]:
    """Store a conversation's branches; return the new ones' names."""
    digests = {record.position: record.digest for record in done.records}
    made = []
    for name, after in share.branches:
        digest = digests.get(after) or event_rows.digest_on(
            connection, shared.lineage(connection, done.key, after), after
        )
        assert digest is not None, "it is written"
        found = shared.find(connection, name)
        if found is None:
            at, parent = Head(after, digest), Stream(share.stream.name, done.key)
            fork(connection, parent, at, name, [fork_opening(edge, parent.name, at)])
            made.append(name)
        elif again and _is_branch(connection, found, done.key, after):
            # The attempt before this one has made it.
            made.append(name)
    return made


def _is_branch(connection: LogConnection, key: int, parent: int, after: int) -> bool:
    """Return whether a stream is a fork of another at a position."""
    segments = shared.lineage(connection, key)
    return len(segments) > 1 and (segments[-2].key, segments[-1].after) == (parent, after)


class Spooled(NamedTuple):
    """An export: a function that returns its parts, and its conversations' ends by name."""

    parts: Callable[[], Iterator[ExportPart]]
    ends: dict[str, Head | None]


@contextmanager
def spooled(parts: Iterator[ExportPart]) -> Iterator[Spooled]:
    """Yield an export that can be read more than once.

    Its conversations' turns are taken before the first write, and it may exceed memory.
    """
    with tempfile.TemporaryFile() as file:
        ends: dict[str, Head | None] = {}
        name = ""
        for part in parts:
            pickle.dump(part, file)
            if isinstance(part, Continuation):
                name = part.name
                ends[name] = None
            elif isinstance(part, Record):
                ends[name] = Head(part.position, part.digest)

        def read() -> Iterator[ExportPart]:
            file.seek(0)
            with suppress(EOFError):
                while True:
                    yield pickle.load(file)

        yield Spooled(read, ends)


def insert_export(connection: LogConnection, export: Spooled, *, again: bool = False) -> None:
    """Write the blobs, and each conversation's missing records.

    `again`: an earlier attempt may have committed.
    """
    take_turns(connection, [HISTORY])
    take_turns_of(connection, {*export.ends})
    writer = PostgresExportWriter(connection)
    if not (again and all(end is None or writer.has(name, end) for name, end in export.ends.items())):
        writer.insert(export.parts())


class PostgresExportWriter(SharedExportWriter[LogConnection]):
    """Writes an export in one transaction."""

    def __init__(self, connection: LogConnection) -> None:
        super().__init__(shared, connection)

    def has(self, name: str, end: Head) -> bool:
        """Return whether a conversation has an entry with that position and digest."""
        key = self.find(name)
        return key is not None and self.digest_at(key, end.position) == end.digest

    def put_blob(self, blob: BlobContent) -> None:
        blob_rows.insert(self._connection, [blob])

    def head(self, key: int) -> Head:
        return event_rows.head(self._connection, key) or START

    def digest_at(self, key: int, position: int) -> bytes | None:
        segments = shared.lineage(self._connection, key, position)
        return event_rows.digest_on(self._connection, segments, position)

    def create(self, name: str, parent: int | None, fork: int | None) -> int:
        return conversation_rows.create(self._connection, name, parent=parent, fork=fork)

    def write(self, key: int, records: Sequence[Record]) -> None:
        write_rows(self._connection, key, Head(records[0].position - 1, b""), records)
