"""Putting entries behind the last one: strict or commuting, all or nothing, idempotent by entry id."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from stenolog.adapters.edge import Edge
from stenolog.domain.codec import REGISTRY
from stenolog.domain.entry import OPENING_ID, Draft, Record, check_name, microseconds, seal
from stenolog.domain.errors import IdTaken, InvalidEvent, StaleAppend, UnknownConversation
from stenolog.domain.events import ModeSwitch

from . import claims, events, streams
from .datastore import LogDatastore
from .events import START, Head

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
    leads to is taken, and the head is read again.
    """

    __slots__ = ("head", "key", "name")

    def __init__(self, name: str, key: int | None = None) -> None:
        self.name = name
        self.key = key
        self.head: Head | None = None


def append(
    datastore: LogDatastore,
    stream: Stream,
    items: Sequence[Item],
    expected: int | None,
    salt: Callable[[], bytes],
    fence: int | None = None,
) -> list[Record]:
    """Write the items behind the last entry, and return their records as they stand in the log.

    An item whose id stands there already with the same topic and bytes is not written again. `expected`:
    the position that the conversation must stand at if anything is to be written; None appends wherever
    it stands. `salt` draws the salt of an opening. `fence`: the claim that these items settle; it goes
    in the same transaction, with its draft. Raises `StaleAppend`, `IdTaken`, `InvalidEvent`,
    `UnknownConversation`, `ClaimLost`; nothing is written then.
    """
    with datastore.writing() as connection:
        placed = _place_at_known_head(connection, stream, items, expected)
        key, head, records = placed or _place(connection, stream, items, expected, salt)
        if fence is not None:
            claims.settle(connection, fence)
    stream.key, stream.head = key, head
    return records


def _place_at_known_head(
    connection: sqlite3.Connection, stream: Stream, items: Sequence[Item], expected: int | None
) -> tuple[int, Head, list[Record]] | None:
    """Write behind the head as this process knows it, without reading; None where that does not hold."""
    key, head = stream.key, stream.head
    if key is None or head is None or expected not in (None, head.position):
        return None
    if expected is None and any(item.topic.startswith(SWITCH) for item in items):
        return None
    records = sealed(head, items)
    try:
        events.insert(connection, key, records)
    except sqlite3.IntegrityError:  # someone else appended, an id is taken, or the conversation is gone
        connection.execute("ROLLBACK")
        connection.execute("BEGIN IMMEDIATE")
        return None
    return key, Head(records[-1].position, records[-1].digest), records


def _place(
    connection: sqlite3.Connection,
    stream: Stream,
    items: Sequence[Item],
    expected: int | None,
    salt: Callable[[], bytes],
) -> tuple[int, Head, list[Record]]:
    """Look first: at the head, and at the ids that may stand there already."""
    key = _key(connection, stream)
    head = events.head(connection, key) or START
    once = _once(stream.name, items)
    standing = _standing(connection, stream.name, key, once) if head.position else {}
    fresh = [item for item in once if item.id not in standing]
    if fresh:
        if expected not in (None, head.position):
            raise StaleAppend(stream.name, expected=expected or 0, found=head.position)
        if not head.position and not fresh[0].topic.startswith(SWITCH):
            topic, payload = _opening()
            fresh.insert(0, Item(OPENING_ID, fresh[0].at, topic, salt(), payload))
        elif head.position and expected is None and any(item.topic.startswith(SWITCH) for item in fresh):
            raise InvalidEvent(
                f"{stream.name!r}: a mode switch changes what others decide by: "
                f"append it with expected= (the log stands at {head.position})"
            )
        records = sealed(head, fresh)
        events.insert(connection, key, records)
        head = Head(records[-1].position, records[-1].digest)
        standing.update((record.id, record) for record in records)
    return key, head, [standing[item.id] for item in items]


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
