"""Inspection of a possibly damaged log: trusts no row, and continues after unreadable ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
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
    """A place that cannot be read, or that nobody wrote."""

    position: int
    pointer: str
    expected: str
    found: str


class ConversationRow(NamedTuple):
    """A conversation's row, checked only for types; wrong ones are left out."""

    key: int
    name: str
    parent: int | None
    fork: int
    archived_at: int | None
    wrong: tuple[DamagedRow, ...] = ()


def checked_conversation(key: int, name: Any, parent: Any, fork: Any, archived_at: Any) -> ConversationRow:
    """Return the row without columns of a wrong type."""
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
    """Return the row as a record, unless a column has a wrong type."""
    for (field, kind), value in zip(TYPES.items(), row, strict=True):
        if not isinstance(value, kind):
            position = row[0] if isinstance(row[0], int) else 0
            expected = kind.__name__ if isinstance(kind, type) else "bytes or nothing"
            return DamagedRow(position, f"/{field}", expected, type(value).__name__)
    return Record._make(row)


def checked_changes(rows: Iterator[Row]) -> Iterator[Change | DamagedRow]:
    """Yield rows as records of the history, up to one with a wrong type."""
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
    """Yield the positions, or None, that a conversation's stream cannot have."""
    for position in positions:
        if position is not None and not (isinstance(position, int) and held.fork < position <= LAST):
            where = position if isinstance(position, int) else 0
            yield DamagedRow(where, "/position", f"positions behind {held.fork}", repr(position))


class Inspection(ABC):
    """A view of a log by itself. What cannot be read at all raises `failures`."""

    failures: tuple[type[Exception], ...]

    @abstractmethod
    def errors(self) -> Iterator[str]:
        """Yield the errors that the database finds in itself."""

    @abstractmethod
    def schema_errors(self) -> Iterator[str]:
        """Yield how tables differ from this release's, and what changes or hides rows."""

    @abstractmethod
    def lost(self) -> tuple[str, str] | None:
        """Return the noted durable entry and the one found instead; None if none is lost."""

    @abstractmethod
    def conversations(self) -> list[ConversationRow]:
        """Return every conversation, the oldest first."""

    @abstractmethod
    def history(self) -> Iterator[Change | DamagedRow]:
        """Yield the history's records up to the first unreadable one."""

    @abstractmethod
    def records(self, key: int, after: int, upto: int) -> Iterator[Record | DamagedRow]:
        """Yield a stream's records, and faults of damaged ones."""

    @abstractmethod
    def outside(self, held: ConversationRow) -> Iterator[DamagedRow]:
        """Yield a stream's first and last positions that its conversation cannot have."""

    @abstractmethod
    def blobs(self) -> Iterator[tuple[str, bool]]:
        """Yield each blob's sha256, and whether its bytes still match."""

    @abstractmethod
    def cursors(self) -> Iterator[tuple[str, int, Cursor]]:
        """Yield followers' names, a conversation's key or `EVERYWHERE`, and cursors."""

    @abstractmethod
    def lineage(self, key: int) -> tuple[Segment, ...]:
        """Return the segments that a conversation is made of."""

    @abstractmethod
    def withheld(self, key: int) -> frozenset[int]:
        """Return the positions of a stream that were imported without their words."""

    @abstractmethod
    def digest_at(self, key: int, position: int) -> bytes | None:
        """Return the digest stored at a position of a stream itself."""

    @abstractmethod
    def heads_until(self, keys: Sequence[int], newest: int) -> Iterable[Head]:
        """Return streams' heads when the log's newest entry had this notification id."""

    @abstractmethod
    def newest(self) -> int:
        """Return the notification id of the last entry."""

    @abstractmethod
    def newest_given(self) -> object:
        """Return the newest notification id ever given; damaged files may have any value."""

    @abstractmethod
    def at_one_moment(self) -> AbstractContextManager[None]:
        """Read the block's contents as of one moment: other processes may append."""
