"""Entries before their append to any database; ids, times and randomness have sources."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import groupby
from typing import NamedTuple, TypeAlias

from eventsourcing.persistence import IntegrityError, StoredEvent, Tracking

from stenolog.domain import entry, errors
from stenolog.domain.codec import REGISTRY
from stenolog.domain.events import ModeSwitch
from stenolog.domain.redaction import redacted
from stenolog.domain.values import ConversationRef

from .values import Head, InTransaction, PendingEntry, Stream

SWITCH = "mode_switch@"
SALT_BYTES = 16


def prepare(edge: Sources, draft: entry.NewEntry) -> PendingEntry:
    """Return the draft with all that the edge adds. Raises `InvalidEventError`."""
    # Before the bytes are made, so that no secret reaches the file.
    event = redacted(draft.event, edge.redact) if edge.redact else draft.event
    id = edge.id() if draft.id is None else entry.check_name(draft.id, what="entry id")
    at, salt = edge.clock() if draft.time is None else draft.time, edge.salt()
    topic, payload = REGISTRY.dump(event)
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
    """Return the library's error for an exact append at a wrong version."""
    return IntegrityError(
        f"{error.conversation!r}: expected version {error.found + 1}, found {error.expected + 1}"
    )


def switches(items: Sequence[PendingEntry]) -> list[PendingEntry]:
    """Return the items that change the mode."""
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
    asked: Append, items: Sequence[PendingEntry], standing: Container[str], head: Head
) -> list[PendingEntry]:
    """Return the items to write after the head, with the opening.

    Raises `VersionConflictError`, and `InvalidEventError` for a mode switch without an expected position.
    """
    name, expected = asked.stream.name, asked.expected
    fresh = [item for item in items if item.id not in standing]
    # An append that repeats itself in full is no conflict, wherever the log stands now.
    if not fresh:
        return []
    if expected not in (None, head.position):
        raise errors.VersionConflictError(name, expected=expected or 0, found=head.position)
    if not (head.position or asked.exact or switches(fresh[:1])):
        fresh.insert(0, opening(asked.edge, fresh[0].time))
    elif head.position and expected is None and switches(fresh):
        raise errors.InvalidEventError(unexpected_switch(name, head.position, len(fresh)))
    return fresh


def last_head(records: Sequence[entry.Record]) -> Head:
    """Return the head after these records."""
    return Head(records[-1].position, records[-1].digest)


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
        check_storable("entry id and topic", f"{item.id} {item.topic}")
        position += 1
        record = entry.make_record(digest, position, item.id, item.time, item.topic, item.salt, item.state)
        digest = record.digest
        records.append(record)
    return records


Clock: TypeAlias = Callable[[], datetime]


def now() -> datetime:
    """Return the time, aware, in UTC."""
    return datetime.now(UTC)


class _Ids:
    """Ids of a process: each is larger than the one before by a random number, from a random beginning."""

    # An index takes ids in order at its end; random ones change and split pages all over it. By the random
    # step nobody can take the next id, and a copy of the process draws others.

    def __init__(self) -> None:
        self._last = int.from_bytes(os.urandom(8)) >> 1

    def __call__(self) -> str:
        """Return a new entry id: 16 hexadecimal digits."""
        self._last = last = (self._last + 1 + int.from_bytes(os.urandom(4))) % 2**64
        return f"{last:016x}"


new_id = _Ids()


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
