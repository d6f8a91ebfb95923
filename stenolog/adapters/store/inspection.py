"""Inspecting a log that may be damaged: nothing trusts a row, or stops at one that cannot be read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

from stenolog.domain.entry import Record
from stenolog.domain.history import Change

from .store_values import Head, Segment


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


class Inspection(ABC):
    """A look at a log by itself. What cannot be read at all raises `failures`."""

    failures: tuple[type[Exception], ...]

    @abstractmethod
    def errors(self) -> Iterator[str]:
        """Yield the errors that the database finds in itself, and tables that differ from the schema."""

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
