"""Forks, imports and exports in PostgreSQL: writes to several conversations in a transaction."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from stenolog.adapters.store.contract.appends import (
    Append,
    Sources,
)
from stenolog.adapters.store.contract.values import (
    Continuation,
    ExportPart,
    Head,
    PendingEntry,
    Share,
    Stream,
    Written,
)
from stenolog.domain.entry import Record
from stenolog.domain.errors import (
    CallerError,
)

from .appends import PostgresWriter, append_checked, take_turns_of
from .connection.datastore import HISTORY, LogConnection, take_turns
from .statements import blob_rows

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
    """Fork as `ConversationStore.fork`, having the history's turn; `again`: it may have been made."""
    if again and items:
        row = connection.run(MADE, (parent.key, at.position + 1, items[0].id)).fetchone()
        if row:
            return Stream(*row)
    return PostgresWriter(connection).fork(parent, at, name, items)


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
    placed = connection.placed
    try:
        with connection.transaction():
            asked = Append(share.stream, share.items, share.expected, edge)
            done = append_checked(connection, asked, again=again)
    except CallerError as error:
        connection.placed = placed
        return error
    return PostgresWriter(connection).end_share(share, done, edge, again=again)


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
    """Write as `LogRecorder.insert_export`; `again`: an earlier attempt may have committed."""
    take_turns(connection, [HISTORY])
    take_turns_of(connection, {*export.ends})
    writer = PostgresWriter(connection)
    if not (again and all(end is None or writer.has(name, end) for name, end in export.ends.items())):
        writer.insert_export(export.parts())
