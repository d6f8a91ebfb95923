"""Entries before their append to any database; ids, times and randomness have sources."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

from eventsourcing.persistence import IntegrityError, StoredEvent, Tracking

from stenolog.domain import entry, errors
from stenolog.domain.codec import REGISTRY
from stenolog.domain.events import ModeSwitch
from stenolog.domain.history import ERASED, IMPORTED
from stenolog.domain.redaction import redacted
from stenolog.domain.values import ConversationRef

from .values import (
    START,
    BlobContent,
    Continuation,
    Cursor,
    ExportPart,
    Head,
    InTransaction,
    PendingEntry,
    Stream,
)

SWITCH = "mode_switch@"
SALT_BYTES = 16


def prepare(edge: Sources, draft: entry.NewEntry) -> PendingEntry:
    """Return the draft with all that the edge adds. Raises `InvalidEventError`."""
    # Before the bytes are made, so that no secret reaches the file.
    event = redacted(draft.event, edge.redact) if edge.redact else draft.event
    topic, payload = REGISTRY.dump(event)
    id = edge.id() if draft.id is None else entry.check_name(draft.id, what="entry id")
    at, salt = edge.clock() if draft.time is None else draft.time, edge.salt()
    return PendingEntry(topic, payload, id, entry.microseconds(at), salt, draft.id is not None)


def fork_opening(edge: Sources, parent: str, at: Head, time: datetime | None = None) -> PendingEntry:
    """Return a fork's first entry, which links it to its origin."""
    link = ConversationRef(conversation=parent, position=at.position, digest=at.digest.hex())
    return prepare(edge, entry.NewEntry(ModeSwitch(fork=True, parent=link), time=time))


def opening(edge: Sources, time: int) -> PendingEntry:
    """Return the mode switch that opens a conversation whose first event is not one."""
    return PendingEntry(*_opening(), entry.OPENING_ID, time, edge.salt())


# The same bytes each time, and each new conversation begins with them.
@cache
def _opening() -> tuple[str, bytes]:
    return REGISTRY.dump(ModeSwitch(mode="chat"))


class Append(NamedTuple):
    """Items to append to a conversation; see `LogRecorder.append`.

    `exact`: as the library wants it, without an added opening.
    """

    stream: Stream
    items: Sequence[PendingEntry]
    expected: int | None
    edge: Sources
    fence: int | None = None
    also: InTransaction | None = None
    exact: bool = False


class Appended(NamedTuple):
    """Outcome of an append: stream's key, new head, and records."""

    key: int
    head: Head
    records: list[entry.Record]


class ExactAppend(NamedTuple):
    """Events of any conversations at their versions: an append as the library makes it.

    Ids are drawn once, so that another attempt finds what the previous one wrote.
    """

    appends: list[Append]
    tracking: Tracking | None


def exact_append(edge: Sources, events: Sequence[StoredEvent], tracking: Tracking | None) -> ExactAppend:
    """Return the library's append, with what the edge adds. Raises `IntegrityError` for a gap."""
    groups = groupby(events, key=lambda event: str(event.originator_id))
    return ExactAppend([_exact(edge, name, [*group]) for name, group in groups], tracking)


def _exact(edge: Sources, name: str, events: list[StoredEvent]) -> Append:
    before = events[0].originator_version - 1
    items = []
    for version, event in enumerate(events, before + 1):
        if event.originator_version != version:
            raise IntegrityError(f"{name!r}: expected version {version}, found {event.originator_version}")
        at = entry.microseconds(edge.clock())
        items.append(PendingEntry(event.topic, event.state, edge.id(), at, edge.salt()))
    return Append(Stream(name), items, before, edge, exact=True)


def version_taken(error: errors.VersionConflictError) -> IntegrityError:
    """Return the library's error for an exact append at another version than the next."""
    return IntegrityError(
        f"{error.conversation!r}: expected version {error.found + 1}, found {error.expected + 1}"
    )


def switches(items: Sequence[PendingEntry]) -> list[PendingEntry]:
    """Return those of the items that change the mode."""
    return [item for item in items if item.topic.startswith(SWITCH)]


def unexpected_switch(name: str, position: int, number: int) -> str:
    """Return the message for a refused mode switch, or a list that begins with one."""
    reason = (
        f"{name!r}: a mode switch changes what others decide by: append it with expected=, the position "
        f"that you decided at, or --expected in a shell (the log stands at {position})"
    )
    return (
        f"{reason}; a list of messages (events_from) goes into a new conversation" if number > 1 else reason
    )


def unwritten(
    name: str,
    items: Sequence[PendingEntry],
    standing: Container[str],
    head: Head,
    *,
    expected: int | None,
    edge: Sources,
    exact: bool,
) -> list[PendingEntry]:
    """Return the items to write after the head: those with new ids, and the opening.

    `exact`: no opening is added. Raises `VersionConflictError`, and `InvalidEventError` for a mode switch
    without an expected position.
    """
    fresh = [item for item in items if item.id not in standing]
    # An append that repeats itself in full is no conflict, wherever the log stands now.
    if not fresh:
        return []
    if expected not in (None, head.position):
        raise errors.VersionConflictError(name, expected=expected or 0, found=head.position)
    if not (head.position or exact or switches(fresh[:1])):
        fresh.insert(0, opening(edge, fresh[0].time))
    elif head.position and expected is None and switches(fresh):
        raise errors.InvalidEventError(unexpected_switch(name, head.position, len(fresh)))
    return fresh


def claim_lost(fence: int) -> errors.ClaimLostError:
    """Return the error for a result whose claim another process has."""
    return errors.ClaimLostError(
        f"claim {fence} was taken over elsewhere: what came of it here is not appended"
    )


def once(name: str, items: Sequence[PendingEntry]) -> list[PendingEntry]:
    """Return the items without repetitions in the same append. Raises `DuplicateIdError`."""
    found: dict[str, PendingEntry] = {}
    for item in items:
        # Only a caller that chose the id can mean the same event twice.
        first = found.setdefault(item.id, item)
        if first is not item and not (item.given and (first.topic, first.state) == (item.topic, item.state)):
            raise errors.DuplicateIdError(f"{name!r}: two events of one append have the id {item.id!r}")
    return list(found.values())


def check_same(name: str, record: entry.Record, item: PendingEntry, *, again: bool = False) -> None:
    """Raise `DuplicateIdError` unless the item repeats an existing record's append.

    `again`: an earlier attempt may have written this item.
    """
    if not ((item.given or again) and (record.topic, record.payload) == (item.topic, item.state)):
        raise errors.DuplicateIdError(
            f"{name!r}: the id {item.id!r} stands at position {record.position} with other content"
        )


def check_storable(what: str, text: str) -> None:
    """Check that a text can be kept in every database. Raises `InvalidEventError`."""
    # Asked first, because nearly all texts are plain and this costs the least.
    if text.isascii() and "\0" not in text:
        return
    try:
        text.encode()
    except UnicodeEncodeError:
        raise errors.InvalidEventError(f"{what}: expected no lone surrogate, found {text!a:.60}") from None
    if "\0" in text:
        raise errors.InvalidEventError(f"{what}: expected no NUL character, found {text!r:.60}")


def make_records(head: Head, items: Sequence[PendingEntry]) -> list[entry.Record]:
    """Return the items as records chained after the head. Raises `InvalidEventError`."""
    position, digest = head
    records = []
    for item in items:
        check_storable("entry id", item.id)
        check_storable("topic", item.topic)
        position += 1
        record = entry.make_record(digest, position, item.id, item.time, item.topic, item.salt, item.state)
        digest = record.digest
        records.append(record)
    return records


Clock: TypeAlias = Callable[[], datetime]


def now() -> datetime:
    """Return the time, aware, in UTC."""
    return datetime.now(UTC)


def new_id() -> str:
    """Return a new entry id: 16 hexadecimal digits."""
    return os.urandom(8).hex()


class Sources(NamedTuple):
    """Sources of times, entry ids and salts; `entropy` takes a number of bytes.

    `redact` are keys, in lower case, whose values are not stored.
    """

    clock: Clock = now
    id: Callable[[], str] = new_id
    entropy: Callable[[int], bytes] = os.urandom
    redact: frozenset[str] = frozenset()

    def salt(self) -> bytes:
        """Return 16 random bytes."""
        # With them, the hash of a short payload cannot be guessed after the payload was erased.
        return self.entropy(SALT_BYTES)


MOST_ROWS = 512
MOST_BYTES = 4_000_000
"""Records that are written at once: so many, or fewer of so many bytes."""


class ExportWriter(ABC):
    """Writer of an export in a transaction of a store, which defines how rows are written.

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
    def write(self, key: int, records: Sequence[entry.Record]) -> None: ...

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
            elif now is not None and now.add(part):
                self._write(now.key, now.clear())
        self._end(now)

    def _end(self, now: _Continued | None) -> None:
        """Write a conversation's last records; compare its head with the promised one."""
        if now is not None:
            if records := now.clear():
                self._write(now.key, records)
            now.check(self.head(now.key))

    def _write(self, key: int, records: Sequence[entry.Record]) -> None:
        self.write(key, records)
        for record in records:
            if record.erased is not None:
                self.add_change(key, ERASED, value=record.position, name=entry.left_hash(record.payload))

    def _begin(self, asked: Continuation) -> _Continued:
        """Return a conversation, created if missing."""
        key = self.find(asked.name)
        parent = self.find(asked.parent) if key is None and asked.parent else None
        at = self.head(key) if key is not None else self._fork(asked, parent) if asked.parent else START
        if at.position != asked.already:
            raise errors.VersionConflictError(asked.name, expected=asked.already, found=at.position)
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
        digest = entry.GENESIS
        if parent is not None and asked.fork:
            digest = self.digest_at(parent, asked.fork) or entry.GENESIS
        if parent is None or (asked.fork and not digest):
            raise errors.ConversationNotFoundError(
                f"{asked.parent!r}: no such conversation, or none at {asked.fork}"
            )
        return Head(asked.fork, digest)


class _Continued:
    """A conversation from its logged head, and records to write."""

    def __init__(self, asked: Continuation, key: int, head: Head) -> None:
        self.key = key
        self._asked = asked
        self._head = head
        self._waiting: list[entry.Record] = []
        self._bytes = 0

    def add(self, record: entry.Record) -> bool:
        """Add a record unless logged; return whether to write those waiting."""
        if not self._asked.already < record.position <= self._asked.last:
            return False
        expected = self._head.position + 1
        if record.position != expected or entry.digest_of(self._head.digest, record) != record.digest:
            raise errors.CorruptLogError(
                f"{self._asked.name!r} at position {expected}: the entry is not what its digest says"
            )
        self._head = Head(record.position, record.digest)
        self._waiting.append(record)
        self._bytes += len(record.payload)
        return len(self._waiting) >= MOST_ROWS or self._bytes >= MOST_BYTES

    def clear(self) -> list[entry.Record]:
        """Return the records that wait; they wait no more."""
        found, self._waiting, self._bytes = self._waiting, [], 0
        return found

    def check(self, head: Head) -> None:
        """Check the final head. Raises `CorruptLogError`."""
        promised = self._head._replace(digest=self._asked.digest or self._head.digest)
        if head != promised or head.position != self._asked.last:
            raise errors.CorruptLogError(
                f"{self._asked.name!r}: expected the end at {self._asked.last} with the digest "
                f"{promised.digest.hex()[:12]}, found {head.position} with {head.digest.hex()[:12]}"
            )
