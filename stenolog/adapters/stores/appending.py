"""Putting entries behind the last one: strict or commuting, all or nothing, idempotent by entry id."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from stenolog.adapters.edge import Edge
from stenolog.domain.codec import REGISTRY
from stenolog.domain.entry import OPENING_ID, Draft, Entry, Record, check_name, microseconds, seal
from stenolog.domain.errors import IdTaken, InvalidEvent, StaleAppend, UnknownConversation
from stenolog.domain.events import ModeSwitch, Unknown

from . import claims, events, streams
from .events import START, Head
from .parts import Part

SWITCH = "mode_switch@"


class Item(NamedTuple):
    """An event on its way in: everything that is drawn at the edge, and the event's bytes.

    `given` tells whether the caller chose the id, and may therefore be repeating an append.
    """

    id: str
    at: int
    topic: str
    salt: bytes
    payload: bytes
    given: bool = False


def item(edge: Edge, draft: Draft) -> Item:
    """The draft with everything that the edge adds to it. Raises `InvalidEvent`."""
    topic, payload = REGISTRY.dump(draft.event)
    id = edge.id() if draft.id is None else check_name(draft.id, what="entry id")
    at = edge.clock() if draft.at is None else draft.at
    return Item(id, microseconds(at), topic, edge.salt(), payload, draft.id is not None)


class Stream:
    """What this process knows of a conversation: its name, its key in the file, and where it stood last.

    `key` and `head` are None while unknown. A head that is out of date does no harm: the position it
    leads to is taken, and the head is read again. `alone`: it is known to be no fork, and never becomes one.
    `recent` are the last entries that this process appended, once somebody wants to know (see `glance`).
    """

    __slots__ = ("alone", "head", "key", "name", "recent")

    def __init__(self, name: str, key: int | None = None) -> None:
        self.name = name
        self.key = key
        self.head: Head | None = None
        self.alone = False
        self.recent: deque[Entry] | None = None

    def note(self, entry: Entry) -> None:
        """Remember an entry that this process has appended, unless its owner could still change it."""
        event = entry.event
        if self.recent is not None and not isinstance(event, ModeSwitch | Unknown) and not event.meta:
            self.recent.append(entry)


class Append(NamedTuple):
    """Items on their way into a conversation. Its `write` is a job for `grouping`.

    An item whose id stands there already with the same topic and bytes is not written again. `expected`:
    the position that the conversation must stand at if anything is to be written; None appends wherever
    it stands. `salt` draws the salt of an opening. `fence`: the claim that these items settle; it goes
    in the same transaction, with its draft.
    """

    stream: Stream
    items: Sequence[Item]
    expected: int | None
    salt: Callable[[], bytes]
    fence: int | None = None

    def write(self, part: Part) -> list[Record]:
        """Write the items behind the last entry; their records as they stand in the log.

        Raises `StaleAppend`, `IdTaken`, `InvalidEvent`, `UnknownConversation`, `ClaimLost`; nothing is
        written then.
        """
        stream = self.stream
        if self.fence is not None:
            part.flush()
        key, head = part.heads.get(stream) or (stream.key, stream.head)
        if key is not None and head is not None:
            records = self._behind(part, key, head)
            if records is not None:
                part.heads[stream] = key, _last(records)
                return records
        with part:
            key, head, records = self._looking(part.connection)
            self._settle(part.connection)
        part.heads[stream] = key, head
        return records

    def _behind(self, part: Part, key: int, head: Head) -> list[Record] | None:
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
                    events.insert(part.connection, key, records)
                    self._settle(part.connection)
        except sqlite3.IntegrityError:  # someone else appended, an id is taken, or the conversation is gone
            return None
        return records

    def _looking(self, connection: sqlite3.Connection) -> tuple[int, Head, list[Record]]:
        """Look first: at the head, and at the ids that may stand there already."""
        name, expected = self.stream.name, self.expected
        key = _key(connection, self.stream)
        head = events.head(connection, key) or START
        once = _once(name, self.items)
        standing = _standing(connection, name, key, once) if head.position else {}
        fresh = [item for item in once if item.id not in standing]
        if fresh:
            if expected not in (None, head.position):
                raise StaleAppend(name, expected=expected or 0, found=head.position)
            if not head.position and not fresh[0].topic.startswith(SWITCH):
                topic, payload = _opening()
                fresh.insert(0, Item(OPENING_ID, fresh[0].at, topic, self.salt(), payload))
            elif head.position and expected is None and _switches(fresh):
                raise InvalidEvent(
                    f"{name!r}: a mode switch changes what others decide by: "
                    f"append it with expected= (the log stands at {head.position})"
                )
            records = sealed(head, fresh)
            events.insert(connection, key, records)
            head = _last(records)
            standing.update((record.id, record) for record in records)
        return key, head, [standing[item.id] for item in self.items]

    def _settle(self, connection: sqlite3.Connection) -> None:
        if self.fence is not None:
            claims.settle(connection, self.fence)


def _last(records: Sequence[Record]) -> Head:
    return Head(records[-1].position, records[-1].digest)


def _switches(items: Sequence[Item]) -> list[Item]:
    return [item for item in items if item.topic.startswith(SWITCH)]


@cache
def _opening() -> tuple[str, bytes]:
    """What a conversation opens with when its first event is no mode switch: topic and bytes."""
    return REGISTRY.dump(ModeSwitch(mode="chat"))


def _key(connection: sqlite3.Connection, stream: Stream) -> int:
    """The stream's key; a conversation that nobody has appended to yet begins to exist."""
    if stream.key is None:
        key = streams.find(connection, stream.name)
        return streams.create(connection, stream.name) if key is None else key
    if streams.name_of(connection, stream.key) is None:
        raise UnknownConversation(f"{stream.name!r}: the conversation was deleted")
    return stream.key


def _once(name: str, items: Sequence[Item]) -> list[Item]:
    """The items without those that repeat another of the same append."""
    once: dict[str, Item] = {}
    for item in items:
        first = once.setdefault(item.id, item)
        if first is not item and not (item.given and _same(first, item)):
            raise IdTaken(f"{name!r}: two events of one append have the id {item.id!r}")
    return list(once.values())


def _standing(connection: sqlite3.Connection, name: str, key: int, items: list[Item]) -> dict[str, Record]:
    """The records that stand there already for items that repeat an earlier append."""
    standing: dict[str, Record] = {}
    for item in items:
        record = events.by_id(connection, key, item.id)
        if record is None:
            continue
        if not (item.given and _same(record, item)):
            raise IdTaken(
                f"{name!r}: the id {item.id!r} stands at position {record.position} with other content"
            )
        standing[item.id] = record
    return standing


def _same(one: Item | Record, other: Item) -> bool:
    return (one.topic, one.payload) == (other.topic, other.payload)


def sealed(head: Head, items: Sequence[Item]) -> list[Record]:
    """The items as records, chained behind the head."""
    position, digest = head
    records = []
    for item in items:
        position += 1
        record = seal(digest, position, item.id, item.at, item.topic, item.salt, item.payload)
        digest = record.digest
        records.append(record)
    return records
