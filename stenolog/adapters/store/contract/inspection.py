"""Inspecting a log that may be damaged: nothing trusts a row, or stops at one that cannot be read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from stenolog.domain.entry import Record
from stenolog.domain.history import Change

from .values import LAST, Cursor, Head, Row, Segment

TYPES: dict[str, type | tuple[type, ...]] = {
    "position": int,
    "id": str,
    "at": int,
    "topic": str,
    "salt": bytes,
    "payload": bytes,
    "digest": bytes,
    "size": int,
    "erased": (bytes, type(None)),
}
"""The type of each field of a record."""
HISTORY: dict[str, Any] = {
    "number": int,
    "stream": int,
    "what": str,
    "value": int,
    "parent": int,
    "salt": bytes,
    "name": str,
    "digest": bytes,
    "erased": bytes | None,
}
"""The type of each field of a record of the history."""


class DamagedRow(NamedTuple):
    """A place that the store cannot read, or where something stands that nobody wrote."""

    position: int
    pointer: str
    expected: str
    found: str


class ConversationRow(NamedTuple):
    """A conversation as its row tells it, unchecked but for the types: what has another is left out."""

    key: int
    name: str
    parent: int | None
    fork: int
    archived_at: int | None
    wrong: tuple[DamagedRow, ...] = ()


def checked_conversation(key: int, name: Any, parent: Any, fork: Any, archived_at: Any) -> ConversationRow:
    """Return the row, without the columns that hold a value of the wrong type."""
    numbers = {"parent": parent, "fork_position": fork, "archived_at": archived_at}
    wrong = [
        DamagedRow(0, f"/{column}", "a number or nothing", type(value).__name__)
        for column, value in numbers.items()
        if not isinstance(value, int | None)
    ]
    if not isinstance(name, str):
        wrong.append(DamagedRow(0, "/name", "text", type(name).__name__))
        name = repr(name)
    parent, fork, archived_at = (value if isinstance(value, int) else None for value in numbers.values())
    return ConversationRow(key, name, parent, fork or 0, archived_at, tuple(wrong))


def checked_record(row: Row) -> Record | DamagedRow:
    """Return the row as a record, unless a column holds a value of the wrong type."""
    for (field, kind), value in zip(TYPES.items(), row, strict=True):
        if not isinstance(value, kind):
            position = row[0] if isinstance(row[0], int) else 0
            expected = kind.__name__ if isinstance(kind, type) else "bytes or nothing"
            return DamagedRow(position, f"/{field}", expected, type(value).__name__)
    return Record._make(row)


def checked_changes(rows: Iterator[Row]) -> Iterator[Change | DamagedRow]:
    """Yield the rows as records of the history; one that holds a value of the wrong type is the last."""
    for row in rows:
        odd = [
            DamagedRow(row[0], f"/history/{field}", str(kind), type(value).__name__)
            for (field, kind), value in zip(HISTORY.items(), row, strict=True)
            if not isinstance(value, kind)
        ]
        yield odd[0] if odd else Change._make(row)
        if odd:
            return


def misplaced(held: ConversationRow, positions: Row) -> Iterator[DamagedRow]:
    """Yield those of these positions, or None, that a stream of the conversation cannot have."""
    for position in positions:
        if position is not None and not (isinstance(position, int) and held.fork < position <= LAST):
            where = position if isinstance(position, int) else 0
            yield DamagedRow(where, "/position", f"positions behind {held.fork}", repr(position))


class Inspection(ABC):
    """A look at a log by itself. What cannot be read at all raises `failures`."""

    failures: tuple[type[Exception], ...]

    @abstractmethod
    def errors(self) -> Iterator[str]:
        """Yield the errors that the database finds in itself."""

    @abstractmethod
    def schema_errors(self) -> Iterator[str]:
        """Yield how tables differ from those of this release, and what changes or hides their rows."""

    @abstractmethod
    def lost(self) -> tuple[str, str] | None:
        """Return the noted durable entry and the entry found instead of it; None if none is lost."""

    @abstractmethod
    def conversations(self) -> list[ConversationRow]:
        """Return every conversation, the oldest first."""

    @abstractmethod
    def history(self) -> Iterator[Change | DamagedRow]:
        """Yield the records of the history; the first that cannot be read is the last."""

    @abstractmethod
    def records(self, key: int, after: int, upto: int) -> Iterator[Record | DamagedRow]:
        """Yield the records of a stream, and for a damaged one its fault."""

    @abstractmethod
    def outside(self, held: ConversationRow) -> Iterator[DamagedRow]:
        """Yield the first and the last position of a stream, where its conversation can have none such."""

    @abstractmethod
    def blobs(self) -> Iterator[tuple[str, bool]]:
        """Yield the sha256 of each blob, and whether its bytes still have that hash."""

    @abstractmethod
    def cursors(self) -> Iterator[tuple[str, int, Cursor]]:
        """Yield the name of each follower, the key of a conversation or `EVERYWHERE`, and its cursor."""

    @abstractmethod
    def lineage(self, key: int) -> tuple[Segment, ...]:
        """Return the segments that a conversation is made of."""

    @abstractmethod
    def digest_at(self, key: int, position: int) -> bytes | None:
        """Return the digest stored at a position of a stream itself."""

    @abstractmethod
    def head_until(self, key: int, newest: int) -> Head:
        """Return where a stream ended when the log's newest entry had this notification id."""

    @abstractmethod
    def newest(self) -> int:
        """Return the notification id of the last entry."""

    @abstractmethod
    def newest_given(self) -> object:
        """Return the newest notification id that was ever given; a damaged file may say anything."""

    @abstractmethod
    def at_one_moment(self) -> AbstractContextManager[None]:
        """Read everything in the block as of one moment: other processes may be appending."""
