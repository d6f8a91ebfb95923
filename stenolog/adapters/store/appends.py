"""Appends of entries: strict or commuting, all or nothing, idempotent by id; ids and times have sources."""

from __future__ import annotations

import os
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple, TypeAlias

from stenolog.domain.codec import REGISTRY
from stenolog.domain.entry import OPENING_ID, NewEntry, Record, check_name, microseconds, seal
from stenolog.domain.errors import (
    ClaimLostError,
    ConversationNotFoundError,
    DuplicateIdError,
    InvalidEventError,
    VersionConflictError,
)
from stenolog.domain.events import ModeSwitch
from stenolog.domain.redaction import redacted

from . import conversation_rows, event_rows
from .event_rows import START, Head
from .group_commit import Savepoint
from .stream import Stream

SWITCH = "mode_switch@"
DELETE_CLAIM = "DELETE FROM claims WHERE fence = ?"


class PendingEntry(NamedTuple):
    """An event on its way in: everything that is drawn at the edge, and the event's bytes.

    `given` tells whether the caller chose the id, and may therefore be repeating an append.
    """

    id: str
    time: int
    topic: str
    salt: bytes
    payload: bytes
    given: bool = False


def prepare(edge: Sources, draft: NewEntry) -> PendingEntry:
    """The draft with everything that the edge adds to it. Raises `InvalidEventError`."""
    event = redacted(draft.event, edge.redact) if edge.redact else draft.event
    topic, payload = REGISTRY.dump(event)
    id = edge.id() if draft.id is None else check_name(draft.id, what="entry id")
    at = edge.clock() if draft.time is None else draft.time
    return PendingEntry(id, microseconds(at), topic, edge.salt(), payload, draft.id is not None)


class Append(NamedTuple):
    """Items on their way into a conversation. Its `write` is a job for `grouping`.

    An item whose id stands there already with the same topic and bytes is not written again. `expected`:
    the position that the conversation must stand at if anything is to be written; None appends wherever
    it stands. `salt` draws the salt of an opening. `fence`: the claim that these items settle; it goes
    in the same transaction, with its draft.
    """

    stream: Stream
    items: Sequence[PendingEntry]
    expected: int | None
    salt: Callable[[], bytes]
    fence: int | None = None

    def write(self, part: Savepoint) -> list[Record]:
        """Write the items behind the last entry; their records as they stand in the log.

        Raises `VersionConflictError`, `DuplicateIdError`, `InvalidEventError`, `ConversationNotFoundError`,
        `ClaimLostError`; nothing is written then.
        """
        stream = self.stream
        if self.fence is not None:
            part.flush()
        key, head = part.heads.get(stream) or (stream.key, stream.head)
        if key is not None and head is not None:
            records = self._append_fast(part, key, head)
            if records is not None:
                part.heads[stream] = key, _last(records)
                return records
        with part:
            key, head, records = self._append_checked(part.connection)
            self._settle(part.connection)
        part.heads[stream] = key, head
        return records

    def _append_fast(self, part: Savepoint, key: int, head: Head) -> list[Record] | None:
        """Write behind the head as this process knows it, without reading; None where that does not hold."""
        if self.expected not in (None, head.position):
            return None
        if self.expected is None and _switches(self.items):
            return None
        records = sealed(head, self.items)
        try:
            if self.fence is None:
                part.insert(key, records)
            else:
                with part:
                    event_rows.insert(part.connection, key, records)
                    self._settle(part.connection)
        except sqlite3.IntegrityError:  # someone else appended, an id is taken, or the conversation is gone
            return None
        return records

    def _append_checked(self, connection: sqlite3.Connection) -> tuple[int, Head, list[Record]]:
        """Look first: at the head, and at the ids that may stand there already."""
        name, expected = self.stream.name, self.expected
        key = _key(connection, self.stream)
        head = event_rows.head(connection, key) or START
        once = _once(name, self.items)
        standing = _existing_records(connection, name, key, once) if head.position else {}
        fresh = [item for item in once if item.id not in standing]
        if fresh:
            if expected not in (None, head.position):
                raise VersionConflictError(name, expected=expected or 0, found=head.position)
            if not head.position and not fresh[0].topic.startswith(SWITCH):
                topic, payload = _opening()
                fresh.insert(0, PendingEntry(OPENING_ID, fresh[0].time, topic, self.salt(), payload))
            elif head.position and expected is None and _switches(fresh):
                raise InvalidEventError(
                    f"{name!r}: a mode switch changes what others decide by: "
                    f"append it with expected= (the log stands at {head.position})"
                )
            records = sealed(head, fresh)
            event_rows.insert(connection, key, records)
            head = _last(records)
            standing.update((record.id, record) for record in records)
        return key, head, [standing[item.id] for item in self.items]

    def _settle(self, connection: sqlite3.Connection) -> None:
        if self.fence is not None:
            settle(connection, self.fence)


def settle(connection: sqlite3.Connection, fence: int) -> None:
    """Remove a claim, in the transaction that appends what came of it. Raises `ClaimLostError`."""
    if connection.execute(DELETE_CLAIM, (fence,)).rowcount != 1:
        raise ClaimLostError(f"claim {fence} was taken over elsewhere: what came of it here is not appended")


def _last(records: Sequence[Record]) -> Head:
    return Head(records[-1].position, records[-1].digest)


def _switches(items: Sequence[PendingEntry]) -> list[PendingEntry]:
    return [item for item in items if item.topic.startswith(SWITCH)]


@cache
def _opening() -> tuple[str, bytes]:
    """Return topic and bytes of the mode switch that opens a conversation whose first event is none."""
    return REGISTRY.dump(ModeSwitch(mode="chat"))


def _key(connection: sqlite3.Connection, stream: Stream) -> int:
    """The stream's key; a conversation that nobody has appended to yet begins to exist."""
    if stream.key is None:
        key = conversation_rows.find(connection, stream.name)
        return conversation_rows.create(connection, stream.name) if key is None else key
    if conversation_rows.name_of(connection, stream.key) is None:
        raise ConversationNotFoundError(f"{stream.name!r}: the conversation was deleted")
    return stream.key


def _once(name: str, items: Sequence[PendingEntry]) -> list[PendingEntry]:
    """The items without those that repeat another of the same append."""
    once: dict[str, PendingEntry] = {}
    for item in items:
        first = once.setdefault(item.id, item)
        if first is not item and not (item.given and _same(first, item)):
            raise DuplicateIdError(f"{name!r}: two events of one append have the id {item.id!r}")
    return list(once.values())


def _existing_records(
    connection: sqlite3.Connection, name: str, key: int, items: list[PendingEntry]
) -> dict[str, Record]:
    """The records that stand there already for items that repeat an earlier append."""
    standing: dict[str, Record] = {}
    for item in items:
        record = event_rows.by_id(connection, key, item.id)
        if record is None:
            continue
        if not (item.given and _same(record, item)):
            raise DuplicateIdError(
                f"{name!r}: the id {item.id!r} stands at position {record.position} with other content"
            )
        standing[item.id] = record
    return standing


def _same(one: PendingEntry | Record, other: PendingEntry) -> bool:
    return (one.topic, one.payload) == (other.topic, other.payload)


def sealed(head: Head, items: Sequence[PendingEntry]) -> list[Record]:
    """The items as records, chained behind the head."""
    position, digest = head
    records = []
    for item in items:
        position += 1
        record = seal(digest, position, item.id, item.time, item.topic, item.salt, item.payload)
        digest = record.digest
        records.append(record)
    return records


Clock: TypeAlias = Callable[[], datetime]
SALT_BYTES = 16
DRAWN = 16
"""Bytes of the pieces that randomness is drawn in, more than are asked for at a time."""
AT_ONCE = 64
"""Pieces that are drawn from the system at once."""
_pools: dict[int, deque[bytes]] = {}
"""By process: what parent and child both have is not random."""


def now() -> datetime:
    """The time, aware, in UTC."""
    return datetime.now(UTC)


def new_id() -> str:
    """A new entry id: 16 hexadecimal digits."""
    return random_bytes(8).hex()


def random_bytes(number: int) -> bytes:
    """Random bytes, as `os.urandom` gives them. Where few are asked for, many are drawn at once: a thread
    that asks the system has to wait for all others that compute."""
    if not 0 <= number <= DRAWN:
        return os.urandom(number)
    pool = _pools.setdefault(os.getpid(), deque())
    while True:
        try:
            return pool.popleft()[:number]
        except IndexError:
            drawn = os.urandom(DRAWN * AT_ONCE)
            pool.extend(drawn[at : at + DRAWN] for at in range(0, len(drawn), DRAWN))


class Sources(NamedTuple):
    """Sources of times, entry ids and salts; `entropy` takes a number of bytes.

    `redact` are the keys, in small letters, whose values are not stored.
    """

    clock: Clock = now
    id: Callable[[], str] = new_id
    entropy: Callable[[int], bytes] = random_bytes
    redact: frozenset[str] = frozenset()

    def salt(self) -> bytes:
        """Return 16 random bytes, which make the hash of a short payload impossible to guess."""
        return self.entropy(SALT_BYTES)
