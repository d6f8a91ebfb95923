"""Entries on their way in, whatever database they go to; ids, times and randomness have sources."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple, TypeAlias

from eventsourcing.persistence import StoredEvent

from stenolog.domain.codec import REGISTRY
from stenolog.domain.entry import OPENING_ID, NewEntry, Record, check_name, make_record, microseconds
from stenolog.domain.errors import ClaimLostError, DuplicateIdError, InvalidEventError, VersionConflictError
from stenolog.domain.events import ModeSwitch
from stenolog.domain.redaction import redacted
from stenolog.domain.values import ConversationRef

from .values import Head, PendingEntry

SWITCH = "mode_switch@"
SALT_BYTES = 16


def prepare(edge: Sources, draft: NewEntry) -> PendingEntry:
    """Return the draft with everything that the edge adds to it. Raises `InvalidEventError`."""
    # Before the bytes are made, so that no secret reaches the file.
    event = redacted(draft.event, edge.redact) if edge.redact else draft.event
    topic, payload = REGISTRY.dump(event)
    id = edge.id() if draft.id is None else check_name(draft.id, what="entry id")
    at = edge.clock() if draft.time is None else draft.time
    return PendingEntry(topic, payload, id, microseconds(at), edge.salt(), draft.id is not None)


def prepare_stored(edge: Sources, event: StoredEvent) -> PendingEntry:
    """Return a stored event of the library's, with the edge's additions."""
    at = microseconds(edge.clock())
    return PendingEntry(
        event.topic, event.state, edge.id(), at, edge.salt(), version=event.originator_version
    )


def fork_opening(edge: Sources, parent: str, at: Head, time: datetime | None = None) -> PendingEntry:
    """Return the first entry of a fork, which links it to where it began."""
    link = ConversationRef(conversation=parent, position=at.position, digest=at.digest.hex())
    return prepare(edge, NewEntry(ModeSwitch(fork=True, parent=link), time=time))


def opening(edge: Sources, time: int) -> PendingEntry:
    """Return the mode switch that opens a conversation whose first event is none."""
    return PendingEntry(*_opening(), OPENING_ID, time, edge.salt())


# The same bytes each time, and each new conversation begins with them.
@cache
def _opening() -> tuple[str, bytes]:
    return REGISTRY.dump(ModeSwitch(mode="chat"))


def switches(items: Sequence[PendingEntry]) -> list[PendingEntry]:
    """Return those of the items that change the mode."""
    return [item for item in items if item.topic.startswith(SWITCH)]


def unexpected_switch(name: str, position: int, number: int) -> str:
    """Say why a mode switch is refused, or a list of messages that begins with one."""
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
    """Return what is to be written behind the head: the items whose ids do not stand, and the opening.

    `exact`: a new conversation gets no opening of ours.
    Raises `VersionConflictError`, and `InvalidEventError` for a mode switch that expects no position.
    """
    fresh = [item for item in items if item.id not in standing]
    # An append that repeats itself in full is no conflict, wherever the log stands now.
    if not fresh:
        return []
    if expected not in (None, head.position):
        raise VersionConflictError(name, expected=expected or 0, found=head.position)
    if not (head.position or exact or switches(fresh[:1])):
        fresh.insert(0, opening(edge, fresh[0].time))
    elif head.position and expected is None and switches(fresh):
        raise InvalidEventError(unexpected_switch(name, head.position, len(fresh)))
    return fresh


def claim_lost(fence: int) -> ClaimLostError:
    """Return the error for a result whose claim somebody else has."""
    return ClaimLostError(f"claim {fence} was taken over elsewhere: what came of it here is not appended")


def once(name: str, items: Sequence[PendingEntry]) -> list[PendingEntry]:
    """Return the items without those that repeat another of the same append. Raises `DuplicateIdError`."""
    found: dict[str, PendingEntry] = {}
    for item in items:
        # Only a caller that chose the id can mean the same event twice.
        first = found.setdefault(item.id, item)
        if first is not item and not (item.given and (first.topic, first.state) == (item.topic, item.state)):
            raise DuplicateIdError(f"{name!r}: two events of one append have the id {item.id!r}")
    return list(found.values())


def check_same(name: str, record: Record, item: PendingEntry, *, again: bool = False) -> None:
    """Raise `DuplicateIdError` unless the item repeats the append of an existing record.

    `again`: an attempt before this one may have written this very item.
    """
    if not ((item.given or again) and (record.topic, record.payload) == (item.topic, item.state)):
        raise DuplicateIdError(
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
        raise InvalidEventError(f"{what}: expected no lone surrogate, found {text!a:.60}") from None
    if "\0" in text:
        raise InvalidEventError(f"{what}: expected no NUL character, found {text!r:.60}")


def make_records(head: Head, items: Sequence[PendingEntry]) -> list[Record]:
    """Return the items as records, chained behind the head. Raises `InvalidEventError`."""
    position, digest = head
    records = []
    for item in items:
        check_storable("entry id", item.id)
        check_storable("topic", item.topic)
        position += 1
        record = make_record(digest, position, item.id, item.time, item.topic, item.salt, item.state)
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

    `redact` are the keys, in small letters, whose values are not stored.
    """

    clock: Clock = now
    id: Callable[[], str] = new_id
    entropy: Callable[[int], bytes] = os.urandom
    redact: frozenset[str] = frozenset()

    def salt(self) -> bytes:
        """Return 16 random bytes."""
        # With them, the hash of a short payload cannot be guessed after the payload was erased.
        return self.entropy(SALT_BYTES)
