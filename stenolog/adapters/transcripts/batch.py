"""Writing to several conversations at once: what comes in small pieces goes into few, large transactions."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stenolog.adapters.stores import appending, blobs, events, streams
from stenolog.adapters.stores.appending import Item, Stream
from stenolog.adapters.stores.events import START, Head
from stenolog.domain.entry import Draft
from stenolog.domain.errors import CallerError, CorruptLog, StaleAppend

from .report import Imported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stenolog.adapters.log import Log

BYTES = 8_000_000
"""How much is written in one transaction: payloads and blobs."""
AROUND = 1_000
"""What an entry takes in memory beside its payload, in bytes."""


@dataclass(eq=False)
class Share:
    """What is to be written to one conversation, behind `position`, where it stands; `found` reports it."""

    stream: Stream
    position: int
    found: Imported
    items: list[Item] = field(default_factory=list)

    def refuse(self, why: CallerError) -> None:
        """Nothing more is written to the conversation."""
        self.found.failed = str(why)
        self.items.clear()

    def wrote(self, key: int, head: Head) -> None:
        """All that waited is written, and the conversation stands here now."""
        self.found.appended += len(self.items)
        self.stream.key, self.stream.head, self.position = key, head, head.position
        self.items.clear()


class Batch:
    """What waits to be written to the conversations of a log.

    It is written once it is enough, and with `flush`: all of it in one transaction or, where something cannot
    be written, the share of each conversation in one of its own.
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self._clear()

    @property
    def is_empty(self) -> bool:
        return not (self._shares or self._blobs)

    def holds(self, name: str) -> bool:
        """Whether something waits for the conversation of that name."""
        return any(share.stream.name == name for share in self._shares)

    def add(self, share: Share, draft: Draft, content: Mapping[str, bytes]) -> None:
        """Have a draft written, with its blobs by their sha256. Raises `InvalidEvent`."""
        self._blobs.update(content)
        item = appending.item(self.log.edge, draft)
        if not share.items:
            self._shares.append(share)
        share.items.append(item)
        self._size += len(item.payload) + AROUND + sum(map(len, content.values()))
        if self._size >= BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what waits. Why a conversation could not be written to is told in its report."""
        shares, content = [share for share in self._shares if share.items], self._blobs
        self._clear()
        try:
            if shares or content:
                self._write(shares, content)
        except (CallerError, CorruptLog):  # a position or an id is taken: whose?
            self._write([], content)
            for share in shares:
                self._write_alone(share)

    def _clear(self) -> None:
        self._shares: list[Share] = []
        self._blobs: dict[str, bytes] = {}
        self._size = 0

    def _write(self, shares: list[Share], content: Mapping[str, bytes]) -> None:
        with self.log.datastore.writing() as connection:
            blobs.insert(connection, content.items())
            heads = [_written(connection, share) for share in shares]
        for share, (key, head) in zip(shares, heads, strict=True):
            share.wrote(key, head)

    def _write_alone(self, share: Share) -> None:
        salt = self.log.edge.salt
        try:
            records = appending.append(self.log.datastore, share.stream, share.items, share.position, salt)
        except CallerError as error:
            share.refuse(error)
        else:
            assert share.stream.key is not None, "it has entries"
            share.wrote(share.stream.key, Head(records[-1].position, records[-1].digest))


def _written(connection: sqlite3.Connection, share: Share) -> tuple[int, Head]:
    """Write the share of a conversation; its key, and where it stands then."""
    key, head = opened(connection, share.stream, share.position)
    records = appending.sealed(head, share.items)
    events.insert(connection, key, records)
    return key, Head(records[-1].position, records[-1].digest)


def opened(connection: sqlite3.Connection, stream: Stream, expected: int) -> tuple[int, Head]:
    """The key of a conversation, which begins to exist where it did not, and its head, to write behind.

    Raises `StaleAppend` where it does not stand at the position `expected`.
    """
    key = streams.find(connection, stream.name) if stream.key is None else stream.key
    head = (events.head(connection, key) if key is not None else None) or START
    if head.position != expected:
        raise StaleAppend(stream.name, expected=expected, found=head.position)
    return streams.create(connection, stream.name) if key is None else key, head
