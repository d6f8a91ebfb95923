"""Records of an export on their way in: each must follow from the one before it, in the log itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from stenolog.domain.entry import GENESIS, Record, digest_of, left_hash
from stenolog.domain.errors import ConversationNotFoundError, CorruptLogError, VersionConflictError
from stenolog.domain.history import ERASED, IMPORTED

from .values import START, BlobContent, Continuation, Cursor, ExportPart, Head

MOST_ROWS = 512
MOST_BYTES = 4_000_000
"""Records that are written at once: so many, or fewer of so many bytes."""


class ExportWriter(ABC):
    """Writes an export in a transaction of one of the stores, which says how rows are written there.

    Raises `VersionConflictError`, `ConversationNotFoundError`, `CorruptLogError`; the caller rolls back.
    """

    @abstractmethod
    def put_blob(self, blob: BlobContent) -> None: ...
    @abstractmethod
    def find(self, name: str) -> int | None: ...
    @abstractmethod
    def head(self, key: int) -> Head: ...
    @abstractmethod
    def digest_at(self, key: int, position: int) -> bytes | None: ...
    @abstractmethod
    def create(self, name: str, parent: int | None, fork: int | None) -> int: ...
    @abstractmethod
    def archive(self, key: int, at: int) -> None: ...
    @abstractmethod
    def advance(self, name: str, to: Cursor) -> None: ...
    @abstractmethod
    def add_change(self, key: int, what: str, **values: Any) -> None: ...
    @abstractmethod
    def write(self, key: int, records: Sequence[Record]) -> None: ...

    def insert(self, parts: Iterable[ExportPart]) -> None:
        """Write the blobs, and the missing records of each conversation."""
        now: _Continued | None = None
        for part in parts:
            if isinstance(part, BlobContent):
                self.put_blob(part)
            elif isinstance(part, Continuation):
                self._end(now)
                now = self._begin(part) if part.last > part.already else None
            # Records that the log has already were proved to be the same ones.
            elif now is not None and now.take(part):
                self._write(now.key, now.clear())
        self._end(now)

    def _end(self, now: _Continued | None) -> None:
        """Write the last records of a conversation, and compare its head with the one that was promised."""
        if now is not None:
            if records := now.clear():
                self._write(now.key, records)
            now.check(self.head(now.key))

    def _write(self, key: int, records: Sequence[Record]) -> None:
        self.write(key, records)
        for record in records:
            if record.erased is not None:
                self.add_change(key, ERASED, value=record.position, name=left_hash(record.payload))

    def _begin(self, asked: Continuation) -> _Continued:
        """Return a conversation, created where it is missing."""
        key = self.find(asked.name)
        parent = self.find(asked.parent) if key is None and asked.parent else None
        at = self.head(key) if key is not None else self._fork(asked, parent) if asked.parent else START
        if at.position != asked.already:
            raise VersionConflictError(asked.name, expected=asked.already, found=at.position)
        if key is None:
            key = self.create(asked.name, parent, asked.fork if asked.parent else None)
            if asked.archived_at is not None:
                self.archive(key, asked.archived_at)
        for mark in asked.marks:
            self.advance(mark, Cursor(key))
        first, last = (asked.already + 1, asked.last) if asked.imported is None else asked.imported
        if last:
            self.add_change(key, IMPORTED, value=last, parent=first)
        return _Continued(asked, key, at)

    def _fork(self, asked: Continuation, parent: int | None) -> Head:
        """Return the end of what a new fork inherits."""
        digest = GENESIS
        if parent is not None and asked.fork:
            digest = self.digest_at(parent, asked.fork) or GENESIS
        if parent is None or (asked.fork and not digest):
            raise ConversationNotFoundError(
                f"{asked.parent!r}: no such conversation, or none at {asked.fork}"
            )
        return Head(asked.fork, digest)


class _Continued:
    """One conversation, from where the log has it, and the records that wait to be written."""

    def __init__(self, asked: Continuation, key: int, head: Head) -> None:
        self.key = key
        self._asked = asked
        self._head = head
        self._waiting: list[Record] = []
        self._bytes = 0

    def take(self, record: Record) -> bool:
        """Take the next record, unless the log has it; return whether those waiting are to be written."""
        if not self._asked.already < record.position <= self._asked.last:
            return False
        expected = self._head.position + 1
        if record.position != expected or digest_of(self._head.digest, record) != record.digest:
            raise CorruptLogError(
                f"{self._asked.name!r} at position {expected}: the entry is not what its digest says"
            )
        self._head = Head(record.position, record.digest)
        self._waiting.append(record)
        self._bytes += len(record.payload)
        return len(self._waiting) >= MOST_ROWS or self._bytes >= MOST_BYTES

    def clear(self) -> list[Record]:
        """Return the records that wait; they wait no more."""
        found, self._waiting, self._bytes = self._waiting, [], 0
        return found

    def check(self, head: Head) -> None:
        """Check where the log has it in the end. Raises `CorruptLogError`."""
        promised = self._head._replace(digest=self._asked.digest or self._head.digest)
        if head != promised or head.position != self._asked.last:
            raise CorruptLogError(
                f"{self._asked.name!r}: expected the end at {self._asked.last} with the digest "
                f"{promised.digest.hex()[:12]}, found {head.position} with {head.digest.hex()[:12]}"
            )
