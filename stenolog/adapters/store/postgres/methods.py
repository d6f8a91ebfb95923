"""Rows beside the entries in PostgreSQL: conversations, cursors, blobs and claims."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from eventsourcing.persistence import Tracking

from stenolog.adapters.store.contract.appends import make_records
from stenolog.adapters.store.contract.blobs import shas_in
from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import (
    EVERYWHERE,
    START,
    Claim,
    Collected,
    CommittedRow,
    Cursor,
    DraftRow,
    Head,
    Order,
    PendingEntry,
    Stream,
    Which,
)
from stenolog.domain.errors import (
    ConversationExistsError,
    InvalidEventError,
    StenologError,
    VersionConflictError,
)

from . import batches
from .appends import write_rows
from .connection.bell import Bell
from .connection.datastore import HISTORY, LogConnection, PostgresLogDatastore
from .connection.schema import KEY_BYTES
from .draft_writer import DraftWriter
from .presence import LEASE, ProcessLease, RunnerPresence
from .statements import (
    blob_rows,
    claim_rows,
    conversation_rows,
    erasure_rows,
    event_rows,
    followed,
    tracking_rows,
)


class PostgresRows(LogRecorder):
    """The methods of a `LogRecorder` that are a statement or two on one database; see there."""

    datastore: PostgresLogDatastore
    bell: Bell
    _draft_writer: DraftWriter
    lease: ProcessLease
    _pinned: Counter[str]
    """The number of times that this log has put each blob that no entry of it names yet."""

    # Conversations

    def find(self, name: str) -> int | None:
        return self.datastore.read(lambda c: conversation_rows.find(c, name))

    def find_all(self, names: Collection[str]) -> dict[str, int]:
        return self.datastore.read(lambda c: conversation_rows.find_all(c, names))

    def name_of(self, key: int) -> str | None:
        return self.datastore.read(lambda c: conversation_rows.name_of(c, key))

    def names(self, which: Which, *, limit: int | None = None, order: Order = "oldest") -> list[str]:
        return self.datastore.read(lambda c: conversation_rows.names(c, which, limit=limit, order=order))

    def count(self, which: Which) -> int:
        return self.datastore.read(lambda c: conversation_rows.count(c, which))

    def fork(self, parent: Stream, at: Head, name: str | None, items: Sequence[PendingEntry]) -> Stream:
        made = self.datastore.repeat(
            lambda c, again: batches.fork(c, parent, at, name, items, again=again), [HISTORY]
        )
        self.bell.ring()
        return made

    def rename(self, key: int, name: str) -> None:
        def rename(connection: LogConnection, again: bool) -> None:
            if again and conversation_rows.name_of(connection, key) == name:
                return
            # A conversation may get its own name again.
            if conversation_rows.find(connection, name) not in (None, key):
                raise ConversationExistsError(f"{name!r}: a conversation of this name exists already")
            conversation_rows.rename(connection, key, name)

        self.datastore.repeat(rename, [HISTORY])
        self.bell.ring()

    def archive(self, key: int, at: int | None) -> None:
        def archive(connection: LogConnection, again: bool) -> None:
            if not (again and conversation_rows.is_archived(connection, key, at)):
                conversation_rows.archive(connection, key, at)

        self.datastore.repeat(archive, [HISTORY])
        self.bell.ring()

    def delete(self, key: int, name: str) -> None:
        def delete(connection: LogConnection, again: bool) -> None:
            if again and conversation_rows.name_of(connection, key) is None:
                return
            if living := conversation_rows.forks(connection, key):
                raise ConversationExistsError(f"{name!r}: forks of it exist: {', '.join(living[:5])}")
            conversation_rows.delete(connection, key)

        self.datastore.repeat(delete, [HISTORY, key])
        self.bell.ring()

    # Erasing

    def conversations_with(self, stream: Stream, position: int) -> dict[int, str]:
        key, name = _key(stream), stream.name
        return self.datastore.read(lambda c: dict(erasure_rows.conversations_with(c, key, name, position)))

    def erase(
        self,
        stream: Stream,
        positions: Sequence[int],
        having: Mapping[int, str],
        written: Mapping[int, tuple[int, Sequence[PendingEntry]]],
    ) -> dict[int, int]:
        key, seal_key = _key(stream), os.urandom(KEY_BYTES)
        come_to = {each: position + len(items) for each, (position, items) in written.items()}

        def erase(connection: LogConnection, again: bool) -> None:
            if again and _all_stand(connection, written):
                return
            first = erasure_rows.conversations_with(connection, key, having[key], positions[0])
            # A fork that was made since the caller looked also has the words, and needs an entry of its own.
            if dict(first) != having:
                raise VersionConflictError(stream.name, expected=0, found=0)
            erasure_rows.overwrite(connection, key, positions, having, seal_key)
            for each, (position, items) in written.items():
                head = event_rows.head(connection, each) or START
                if head.position != position:
                    raise VersionConflictError(having[each], expected=position, found=head.position)
                write_rows(connection, each, head, make_records(head, items))

        self.datastore.repeat(erase, [HISTORY, *having])
        # Only once it is committed: a rollback keeps the old key.
        self.datastore.seal_key = seal_key
        self.bell.ring()
        return come_to

    def unfinished_erasures(self) -> tuple[set[int], set[str], int]:
        return self.datastore.read(erasure_rows.unfinished)

    def end_erasures(self, upto: int) -> None:
        self.datastore.write(lambda c: erasure_rows.end(c, upto))

    def left_hash(self, key: int, position: int) -> str:
        return self.datastore.read(lambda c: conversation_rows.left_hash(c, key, position))

    # Imports

    def imported(self, key: int) -> tuple[int, int]:
        return self.datastore.read(lambda c: conversation_rows.imported(c, key))

    # Cursors

    def insert_tracking(self, tracking: Tracking) -> None:
        self.datastore.repeat(lambda c, again: tracking_rows.insert(c, tracking, again=again))

    def max_tracking_id(self, application_name: str) -> int | None:
        return self.datastore.read(lambda c: tracking_rows.newest(c, application_name))

    def has_tracking_id(self, application_name: str, notification_id: int | None) -> bool:
        return notification_id is None or (self.max_tracking_id(application_name) or 0) >= notification_id

    def load_cursor(self, name: str, key: int = EVERYWHERE) -> Cursor:
        return self.datastore.read(lambda c: tracking_rows.load_cursor(c, name, key))

    def save_cursor(self, name: str, to: Cursor, key: int = EVERYWHERE) -> None:
        self.datastore.write(lambda c: tracking_rows.advance(c, name, to, key))

    # Blobs

    def put_blobs(self, named: Sequence[tuple[str, bytes]]) -> None:
        for sha, content in named:
            if len(content) > blob_rows.MOST_BYTES:
                raise InvalidEventError(
                    f"{self.path}: expected a blob of at most {blob_rows.MOST_BYTES:,} bytes, "
                    f"found {len(content):,} in {sha}"
                )
        process = self.lease.id
        self.datastore.write(lambda c: blob_rows.put(c, named, process))
        self._pinned.update(sha for sha, _ in named)

    def delete_blobs(self, shas: Collection[str]) -> None:
        keys = [bytes.fromhex(sha) for sha in shas]
        self.datastore.write(lambda c: [c.run(blob_rows.REMOVE, (key,)) for key in keys])

    def blob(self, sha: str) -> bytes | None:
        return self.datastore.read(lambda c: blob_rows.blob(c, sha))

    def has_blob(self, sha: str) -> bool:
        return self.datastore.read(lambda c: blob_rows.has(c, sha))

    def blob_shas(self) -> list[str]:
        found = self.datastore.read(lambda c: c.run(blob_rows.ALL).fetchall())
        return [digest.hex() for (digest,) in found]

    def release_blobs(self, payload: bytes) -> None:
        if self._pinned and (named := self._pinned.keys() & shas_in(payload)):
            # A blob that was put twice is still to be named once.
            self._pinned.subtract(named)
            keys = [bytes.fromhex(sha) for sha in named if not self._pinned[sha]]
            self._pinned += Counter()
            # The entry is durable: a pin that stays is no reason to tell an error.
            with suppress(StenologError):
                self.datastore.write(lambda c: c.run(blob_rows.UNPIN, (keys, self.lease.id)))

    def blobs_named_by(self, key: int) -> set[str]:
        return self.datastore.read(lambda c: blob_rows.named_by(c, key))

    def collect_blobs(self, candidates: Collection[str] | None = None) -> Collected:
        return blob_rows.collect(self.datastore, LEASE, candidates)

    # Claims

    def take_claims(self, stream: Stream, wanted: Sequence[Claim], expected: int) -> list[Claim | None]:
        key, name = _key(stream), stream.name
        return self.datastore.repeat(
            lambda c, again: claim_rows.take(c, key, name, wanted, expected, again=again)
        )

    def claims(self, stream: Stream) -> list[Claim]:
        key = _key(stream)
        return self.datastore.read(lambda c: claim_rows.of_stream(c, key))

    def all_claims(self) -> list[tuple[str, Claim]]:
        return self.datastore.read(claim_rows.everywhere)

    def take_over_claim(self, stream: Stream, claim: Claim, owner: str) -> Claim | None:
        key = _key(stream)

        return self.datastore.repeat(
            lambda c, again: claim_rows.take_over(c, key, claim, owner, again=again), [key]
        )

    def release_claim(self, claim: Claim) -> None:
        self.datastore.write(lambda c: claim_rows.delete(c, claim.fence))

    def add_drafts(self, said: Iterable[tuple[int, bytes]]) -> None:
        if rows := list(said):
            self._draft_writer.add(rows)
            self.bell.ring(drafts=True)

    def drafts(self, fence: int) -> list[bytes]:
        return self.datastore.read(lambda c: claim_rows.drafts(c, fence))

    # Following many

    def appended(self, behind: Mapping[int, int], limit: int = 16) -> list[CommittedRow]:
        return self.datastore.read(lambda c: followed.appended(c, behind, limit))

    def drafted(self, keys: Collection[int], seen: Mapping[int, int]) -> list[DraftRow]:
        return self.datastore.read(lambda c: followed.drafted(c, keys, seen))

    # Whether runners live

    def presence(self, id: str) -> RunnerPresence:
        return RunnerPresence(self.lease, id)

    def owner_lives(self, owner: str) -> bool:
        return self.lease.lives(owner)


def _all_stand(connection: LogConnection, written: Mapping[int, tuple[int, Sequence[PendingEntry]]]) -> bool:
    """Return whether conversations, given by their keys, have all the entries written to them."""
    return all(
        len(event_rows.by_ids(connection, each, [item.id for item in items])) == len(items)
        for each, (_, items) in written.items()
    )


def _key(stream: Stream) -> int:
    assert stream.key is not None, "effects are of conversations with entries"
    return stream.key
