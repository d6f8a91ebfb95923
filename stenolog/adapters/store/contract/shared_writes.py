"""Writes that both stores share: appends that read first, forks, imports, exports and erasures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

from stenolog.domain import entry, errors
from stenolog.domain.history import ERASED, EVERY_STREAM, IMPORTED, WITHHELD, Hold, holds_of

from . import appends
from .appends import Append, Appended, Sources
from .blobs import shas_in
from .shared_rows import SharedRows
from .values import (
    LAST,
    START,
    BlobContent,
    Continuation,
    Cursor,
    ExportPart,
    Head,
    PendingEntry,
    Share,
    Stream,
    Written,
)

C = TypeVar("C")
MOST_ROWS = 512
MOST_BYTES = 4_000_000
"""Records that are written at once: so many, or fewer of so many bytes."""


class SharedWriter(ABC, Generic[C]):
    """Writer in a transaction that the caller makes; if it raises, the caller rolls back."""

    def __init__(self, rows: SharedRows[C], connection: C) -> None:
        self._rows, self._connection = rows, connection

    @abstractmethod
    def put_blob(self, blob: BlobContent) -> None: ...
    @abstractmethod
    def head(self, key: int) -> Head: ...
    @abstractmethod
    def by_ids(self, key: int, ids: Sequence[str]) -> dict[str, entry.Record]: ...
    @abstractmethod
    def digest_at(self, key: int, position: int) -> bytes | None: ...
    @abstractmethod
    def create(self, name: str, parent: int | None, fork: int | None) -> int: ...
    @abstractmethod
    def write(self, key: int, records: Sequence[entry.Record]) -> None: ...
    @abstractmethod
    def stored(self, key: int, position: int) -> tuple[str, bytes, bytes] | None:
        """Return topic, salt and payload of an entry that is not erased."""

    @abstractmethod
    def replace(self, key: int, position: int, size: int, erased: bytes, left: bytes) -> None:
        """Overwrite a payload by what an erasure leaves of it."""

    @abstractmethod
    def named_by(self, key: int) -> set[str]:
        """Return what looks like a blob's sha256 in a stream's own entries."""

    @abstractmethod
    def remove_blobs(self, shas: Collection[str]) -> None: ...
    @abstractmethod
    def times(self, key: int, positions: Collection[int] | None) -> list[tuple[int, int]]:
        """Return position and time of a stream's own entries, of some or all, by position."""

    def append(self, asked: Append, key: int, head: Head, *, again: bool = False) -> Appended:
        """Append after the head, except for items that repeat an earlier append.

        `again`: an earlier attempt may have committed them.
        """
        name = asked.stream.name
        items = appends.once(name, asked.items)
        standing = self.by_ids(key, [item.id for item in items]) if head.position else {}
        for item in items:
            if (record := standing.get(item.id)) is not None:
                appends.check_same(name, record, item, again=again)
        if fresh := appends.unwritten(asked, items, standing, head):
            records = appends.make_records(head, fresh)
            self.write(key, records)
            head = appends.last_head(records)
            standing.update((record.id, record) for record in records)
        return Appended(key, head, [standing[item.id] for item in asked.items])

    # Conversations

    def fork(self, parent: Stream, at: Head, name: str | None, items: Sequence[PendingEntry]) -> Stream:
        key = parent.key
        assert key is not None, "it has entries"
        if self._rows.name_of(self._connection, key) is None:
            raise errors.ConversationNotFoundError(f"{parent.name!r}: the conversation was deleted")
        if name is None:
            name = self._free_name(parent.name, key)
        else:
            self._check_free(name)
        made = self.create(name, key, at.position)
        self.write(made, appends.make_records(at, appends.once(name, items)))
        return Stream(name, made)

    def _free_name(self, parent: str, key: int) -> str:
        # Where no fork has been renamed or deleted, the first try is free.
        number = len(self._rows.forks(self._connection, key)) + 1
        while self._find(f"{parent}~{number}") is not None:
            number += 1
        return entry.check_name(f"{parent}~{number}", what="name of the fork")

    def rename(self, key: int, name: str) -> None:
        """Give a stream a free name, or its own again. Raises `ConversationExistsError`."""
        self._check_free(name, key)
        self._rows.rename(self._connection, key, name)

    def _check_free(self, name: str, key: int | None = None) -> None:
        if self._find(name) not in (None, key):
            raise errors.ConversationExistsError(f"{name!r}: a conversation of this name exists already")

    def check_deletable(self, key: int, name: str, now: int) -> None:
        """Raise `ConversationExistsError` if a stream has forks, `HeldError` if it is under hold."""
        if living := self._rows.forks(self._connection, key):
            raise errors.ConversationExistsError(f"{name!r}: forks of it exist: {', '.join(living[:5])}")
        self.check_held(key, name, None, now)

    # Holds

    def check_held(self, key: int, name: str, positions: Collection[int] | None, now: int) -> None:
        """Raise `HeldError` if a hold covers one of a stream's own entries, all of them with None.

        Every erasure and deletion asks this, in its own transaction.
        """
        for position, hold in self.covered(key, name, positions, now):
            raise errors.HeldError(f"{name!r} at position {position}: under {hold}")

    def covered(
        self, key: int, name: str, positions: Collection[int] | None, now: int
    ) -> Iterator[tuple[int, Hold]]:
        """Yield those of a stream's own entries that a hold covers, each with the first such hold.

        A hold on a conversation covers what it inherits, and its forks.
        """
        first = 0 if positions is None else min(positions, default=0)
        upto = {EVERY_STREAM: LAST}
        for fork, _ in self._rows.conversations_with(self._connection, key, name, first):
            lineage = self._rows.lineage(self._connection, fork)
            upto[fork] = next((each.upto for each in lineage if each.key == key), LAST)
        upto |= {each.key: LAST for each in self._rows.lineage(self._connection, key)}
        changes = [one for each in sorted(upto) for one in self._rows.holds(self._connection, each)]
        holds = [hold for hold in holds_of(changes) if hold.released is None]
        for position, at in self.times(key, positions) if holds else ():
            on = (hold for hold in holds if position <= upto[hold.stream] and hold.covers(at, now))
            yield from ((position, hold) for hold in islice(on, 1))

    # Imports

    def end_share(self, share: Share, done: Appended, edge: Sources, *, again: bool = False) -> Written:
        """Note an appended share as imported, and store its branches; `again` as in `append`."""
        last = done.head.position
        was_noted = again and self._rows.imported(self._connection, done.key)[1] >= last
        if last > share.expected and not was_noted:
            self._rows.note_import(self._connection, done.key, share.expected + 1, last)
        for mark in share.marks:
            self._rows.save_cursor(self._connection, mark, Cursor(done.key))
        return Written(last, self._branches(share, done, edge, again) if share.branches else [])

    def _branches(self, share: Share, done: Appended, edge: Sources, again: bool) -> list[str]:
        """Store a conversation's branches; return the new ones' names."""
        digests = {record.position: record.digest for record in done.records}
        made = []
        for name, after in share.branches:
            found = self._find(name)
            if found is None:
                digest = digests.get(after) or self.digest_at(done.key, after)
                assert digest is not None, "it is written"
                at, parent = Head(after, digest), Stream(share.stream.name, done.key)
                self.fork(parent, at, name, [appends.fork_opening(edge, parent.name, at)])
            if found is None or (again and self._is_branch(found, done.key, after)):
                made.append(name)
        return made

    def _is_branch(self, key: int, parent: int, after: int) -> bool:
        segments = self._rows.lineage(self._connection, key)
        return len(segments) > 1 and (segments[-2].key, segments[-1].after) == (parent, after)

    # Erasures

    def erase(
        self,
        stream: Stream,
        positions: Sequence[int],
        having: Mapping[int, str],
        written: Mapping[int, tuple[int, Sequence[PendingEntry]]],
        blobs: Mapping[str, Collection[tuple[int, int]]],
        now: int,
    ) -> None:
        key = stream.key
        assert key is not None, "it has entries"
        first = self._rows.conversations_with(self._connection, key, having[key], positions[0])
        # A fork that was made since the caller looked also has the words, and needs an entry of its own.
        if dict(first) != having:
            raise errors.VersionConflictError(stream.name, expected=0, found=0)
        self.check_held(key, having[key], positions, now)
        # Another conversation names the same bytes as its own: they are not this one's to remove.
        for each in set(self._rows.streams(self._connection)) - having.keys() if blobs else ():
            theirs = self.named_by(each)
            blobs = {sha: places for sha, places in blobs.items() if sha not in theirs}
        for holder in {holder for places in blobs.values() for holder, _ in places}:
            at = {at for places in blobs.values() for each, at in places if each == holder}
            self.check_held(holder, having[holder], at, now)
        self.remove_blobs(blobs)
        self._overwrite(key, positions, having)
        for each, (position, items) in written.items():
            head = self.head(each)
            if head.position != position:
                raise errors.VersionConflictError(having[each], expected=position, found=head.position)
            self.write(each, appends.make_records(head, items))

    def _overwrite(self, key: int, positions: Sequence[int], keys: Iterable[int]) -> None:
        """Overwrite payloads, and drafts that may repeat them; mark what derives from them."""
        named: set[str] = set()
        for position in positions:
            row = self.stored(key, position)
            if row is None:
                # Of an erased entry the hash is all that is left, and must stay.
                continue
            topic, salt, payload = row
            left = entry.effects_left(topic, payload)
            named |= shas_in(payload)
            # Length and hash stay, because the digest of the entry is made of them.
            self.replace(key, position, len(payload), entry.content_hash(salt, payload), left)
            self._change(key, ERASED, value=position, name=entry.left_hash(left))
        for each in keys:
            # A draft of a model that was shown the words may repeat them.
            self._rows.drop_drafts(self._connection, each)
        self._rows.mark_erased(self._connection, keys, named)

    # Exports. Raises `VersionConflictError`, `ConversationNotFoundError`, `CorruptLogError`

    def insert_export(self, parts: Iterable[ExportPart]) -> None:
        now: _Continued | None = None
        for part in parts:
            if isinstance(part, BlobContent):
                self.put_blob(part)
            elif isinstance(part, Continuation):
                self._end(now)
                now = self._begin(part) if part.last > part.already else None
            # Records that the log has already were proved to be the same ones.
            elif now is not None and now.add(part):
                self._write(now, now.clear())
        self._end(now)

    def _end(self, now: _Continued | None) -> None:
        """Write a conversation's last records; compare its head with the promised one."""
        if now is not None:
            if records := now.clear():
                self._write(now, records)
            now.check(self.head(now.key))

    def _write(self, now: _Continued, records: Sequence[entry.Record]) -> None:
        self.write(now.key, records)
        for record in records:
            if record.position in now.asked.withheld:
                self._change(now.key, WITHHELD, value=record.position)
            elif record.erased is not None:
                first, last = now.asked.imported or (0, now.asked.last)
                if not first <= record.position <= last and self._rows.holds(self._connection):
                    # Without this, an erasure under a hold would be a fault.
                    self._rows.note_import(self._connection, now.key, record.position, record.position)
                self._change(now.key, ERASED, value=record.position, name=entry.left_hash(record.payload))

    def _begin(self, asked: Continuation) -> _Continued:
        key = self._find(asked.name)
        parent = self._find(asked.parent) if key is None and asked.parent else None
        at = self.head(key) if key is not None else self._inherited(asked, parent) if asked.parent else START
        if at.position != asked.already:
            raise errors.VersionConflictError(asked.name, expected=asked.already, found=at.position)
        if key is None:
            key = self.create(asked.name, parent, asked.fork if asked.parent else None)
            if asked.archived_at is not None:
                self._rows.archive(self._connection, key, asked.archived_at)
        for mark in asked.marks:
            self._rows.save_cursor(self._connection, mark, Cursor(key))
        first, last = (asked.already + 1, asked.last) if asked.imported is None else asked.imported
        if last:
            self._change(key, IMPORTED, value=last, parent=first)
        return _Continued(asked, key, at)

    def _inherited(self, asked: Continuation, parent: int | None) -> Head:
        digest = entry.GENESIS
        if parent is not None and asked.fork:
            digest = self.digest_at(parent, asked.fork) or entry.GENESIS
        if parent is None or (asked.fork and not digest):
            raise errors.ConversationNotFoundError(
                f"{asked.parent!r}: no such conversation, or none at {asked.fork}"
            )
        return Head(asked.fork, digest)

    def _find(self, name: str) -> int | None:
        return self._rows.find(self._connection, name)

    def _change(self, key: int, what: str, **values: Any) -> None:
        self._rows.add_change(self._connection, key, what, **values)


class _Continued:
    """A conversation from its logged head, and records to write."""

    def __init__(self, asked: Continuation, key: int, head: Head) -> None:
        self.key = key
        self.asked = asked
        self._head = head
        self._waiting: list[entry.Record] = []
        self._bytes = 0

    def add(self, record: entry.Record) -> bool:
        """Add a record unless logged; return whether to write those waiting. Raises `CorruptLogError`."""
        if not self.asked.already < record.position <= self.asked.last:
            return False
        expected = self._head.position + 1
        if record.position != expected or entry.digest_of(self._head.digest, record) != record.digest:
            raise errors.CorruptLogError(
                f"{self.asked.name!r} at position {expected}: the entry is not what its digest says"
            )
        self._head = Head(record.position, record.digest)
        self._waiting.append(record)
        self._bytes += len(record.payload)
        return len(self._waiting) >= MOST_ROWS or self._bytes >= MOST_BYTES

    def clear(self) -> list[entry.Record]:
        found, self._waiting, self._bytes = self._waiting, [], 0
        return found

    def check(self, head: Head) -> None:
        """Check the final head. Raises `CorruptLogError`."""
        promised = self._head._replace(digest=self.asked.digest or self._head.digest)
        if head != promised or head.position != self.asked.last:
            raise errors.CorruptLogError(
                f"{self.asked.name!r}: expected the end at {self.asked.last} with the digest "
                f"{promised.digest.hex()[:12]}, found {head.position} with {head.digest.hex()[:12]}"
            )
