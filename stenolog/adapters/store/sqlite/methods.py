"""Rows beside the entries in an SQLite file: conversations, cursors, blobs and claims."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from eventsourcing.persistence import Tracking

from stenolog.adapters.store.contract.appends import make_records
from stenolog.adapters.store.contract.blobs import key_of
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
from stenolog.domain.errors import ConversationExistsError, StoreError, VersionConflictError

from . import appends, blob_store
from .file_safety import KEY_BYTES
from .statements import claim_rows, conversation_rows, erasure_rows, event_rows, tracking_rows
from .turn.database import LogDatastore

if TYPE_CHECKING:
    from .liveness import LivenessLock


class SqliteRows(LogRecorder):
    """The methods of a `LogRecorder` that are a statement or two on one database; see there."""

    datastore: LogDatastore
    pins: blob_store.Pins

    # Conversations

    def find(self, name: str) -> int | None:
        with self.datastore.reading() as connection:
            return conversation_rows.find(connection, name)

    def find_all(self, names: Collection[str]) -> dict[str, int]:
        with self.datastore.reading() as connection:
            return conversation_rows.find_all(connection, names)

    def name_of(self, key: int) -> str | None:
        with self.datastore.reading() as connection:
            return conversation_rows.name_of(connection, key)

    def names(self, which: Which, *, limit: int | None = None, order: Order = "oldest") -> list[str]:
        with self.datastore.reading() as connection:
            return conversation_rows.names(connection, which, limit=limit, order=order)

    def count(self, which: Which) -> int:
        with self.datastore.reading() as connection:
            return conversation_rows.count(connection, which)

    def fork(self, parent: Stream, at: Head, name: str | None, items: Sequence[PendingEntry]) -> Stream:
        with self.datastore.writing() as connection:
            return appends.fork(connection, parent, at, name, items)

    def rename(self, key: int, name: str) -> None:
        with self.datastore.writing() as connection:
            # A conversation may get its own name again.
            if conversation_rows.find(connection, name) not in (None, key):
                raise ConversationExistsError(f"{name!r}: a conversation of this name exists already")
            conversation_rows.rename(connection, key, name)

    def archive(self, key: int, at: int | None) -> None:
        with self.datastore.writing() as connection:
            conversation_rows.archive(connection, key, at)

    def delete(self, key: int, name: str) -> None:
        with self.datastore.writing() as connection:
            if living := conversation_rows.forks(connection, key):
                raise ConversationExistsError(f"{name!r}: forks of it exist: {', '.join(living[:5])}")
            conversation_rows.delete(connection, key)

    # Erasing

    def conversations_with(self, stream: Stream, position: int) -> dict[int, str]:
        with self.datastore.reading() as connection:
            return dict(erasure_rows.conversations_with(connection, self._key(stream), stream.name, position))

    def erase(
        self,
        stream: Stream,
        positions: Sequence[int],
        having: Mapping[int, str],
        written: Mapping[int, tuple[int, Sequence[PendingEntry]]],
    ) -> dict[int, int]:
        key, seal_key = self._key(stream), os.urandom(KEY_BYTES)
        come_to: dict[int, int] = {}
        with self.datastore.writing() as connection:
            first = erasure_rows.conversations_with(connection, key, having[key], positions[0])
            # A fork that was made since the caller looked also has the words, and needs an entry of its own.
            if dict(first) != having:
                raise VersionConflictError(stream.name, expected=0, found=0)
            erasure_rows.overwrite(connection, key, positions, having, seal_key)
            for each, (position, items) in written.items():
                head = event_rows.head(connection, each) or START
                if head.position != position:
                    raise VersionConflictError(having[each], expected=position, found=head.position)
                event_rows.insert(connection, each, make_records(head, items))
                come_to[each] = position + len(items)
        # Only once it is committed: a rollback keeps the old key.
        self.datastore.seal_key = seal_key
        return come_to

    def unfinished_erasures(self) -> tuple[set[int], set[str], int]:
        with self.datastore.reading() as connection:
            return erasure_rows.unfinished(connection)

    def end_erasures(self, upto: int) -> None:
        with self.datastore.writing() as connection:
            erasure_rows.end(connection, upto)

    def left_hash(self, key: int, position: int) -> str:
        with self.datastore.reading() as connection:
            return conversation_rows.left_hash(connection, key, position)

    # Imports

    def imported(self, key: int) -> tuple[int, int]:
        with self.datastore.reading() as connection:
            return conversation_rows.imported(connection, key)

    # Cursors

    def insert_tracking(self, tracking: Tracking) -> None:
        self.datastore.group.savepoint(partial(_insert_tracking, tracking=tracking))

    def max_tracking_id(self, application_name: str) -> int | None:
        with self.datastore.reading() as connection:
            return tracking_rows.newest(connection, application_name)

    def load_cursor(self, name: str, key: int = EVERYWHERE) -> Cursor:
        with self.datastore.reading() as connection:
            return tracking_rows.load_cursor(connection, name, key)

    def save_cursor(self, name: str, to: Cursor, key: int = EVERYWHERE) -> None:
        with self.datastore.writing() as connection:
            tracking_rows.advance(connection, name, to, key)

    # Blobs

    def put_blobs(self, named: Sequence[tuple[str, bytes]]) -> None:
        # Pinned before it is written, so that no other process removes it in between.
        self.pins.add(sha for sha, _ in named)
        with self.datastore.writing() as connection:
            blob_store.insert(connection, named)

    def blob(self, sha: str) -> bytes | None:
        with self.datastore.reading() as connection:
            row = connection.execute(blob_store.SELECT, (key_of(sha),)).fetchone()
        return bytes(row[0]) if row else None

    def delete_blobs(self, shas: Collection[str]) -> None:
        with self.datastore.writing() as connection:
            connection.executemany(blob_store.REMOVE, [(bytes.fromhex(sha),) for sha in shas])

    def has_blob(self, sha: str) -> bool:
        with self.datastore.reading() as connection:
            return connection.execute(blob_store.HAS, (key_of(sha),)).fetchone() is not None

    def blob_shas(self) -> list[str]:
        with self.datastore.reading() as connection:
            return [digest.hex() for (digest,) in connection.execute(blob_store.ALL).fetchall()]

    def release_blobs(self, payload: bytes) -> None:
        if self.pins:
            self.pins.remove(payload)

    def blobs_named_by(self, key: int) -> set[str]:
        return blob_store.named_by(self.datastore, key)

    def collect_blobs(self, candidates: Collection[str] | None = None) -> Collected:
        # Elsewhere a blob that another process has just put could be removed.
        if not blob_store.PINS_SUPPORTED:
            raise StoreError(f"{self.path}: whether a blob is in use is known on Linux alone")
        return blob_store.collect(self.datastore, self.pins, candidates)

    # Claims

    def take_claims(self, stream: Stream, wanted: Sequence[Claim], expected: int) -> list[Claim | None]:
        key, name = self._key(stream), stream.name
        return self.datastore.group.savepoint(lambda c: claim_rows.take(c, key, name, wanted, expected))

    def claims(self, stream: Stream) -> list[Claim]:
        with self.datastore.reading() as connection:
            return claim_rows.of_stream(connection, self._key(stream))

    def all_claims(self) -> list[tuple[str, Claim]]:
        with self.datastore.reading() as connection:
            return claim_rows.everywhere(connection)

    def take_over_claim(self, stream: Stream, claim: Claim, owner: str) -> Claim | None:
        key = self._key(stream)
        return self.datastore.group.savepoint(
            lambda connection: claim_rows.take_over(connection, key, claim, owner)
        )

    def release_claim(self, claim: Claim) -> None:
        self.datastore.group.savepoint(lambda connection: claim_rows.delete(connection, claim.fence))

    def add_drafts(self, said: Iterable[tuple[int, bytes]]) -> None:
        self.datastore.group.savepoint(lambda connection: claim_rows.add_drafts(connection, said))

    def drafts(self, fence: int) -> list[bytes]:
        with self.datastore.reading() as connection:
            return claim_rows.drafts(connection, fence)

    # Following many

    def appended(self, behind: Mapping[int, int], limit: int = 16) -> list[CommittedRow]:
        with self.datastore.reading() as connection:
            return event_rows.appended(connection, behind, limit)

    def drafted(self, keys: Collection[int], seen: Mapping[int, int]) -> list[DraftRow]:
        with self.datastore.reading() as connection:
            return event_rows.drafted(connection, keys, seen)

    # Whether runners live

    def presence(self, id: str) -> LivenessLock:
        # Late: a program that only reads or appends has no runner.
        from .liveness import LivenessLock

        return LivenessLock(self.sidecar_path, id, in_memory=self.is_private, claimed=self._owners)

    def _owners(self) -> set[str]:
        """Return the owners of all claims in the log."""
        return {claim.owner for _, claim in self.all_claims()}

    def owner_lives(self, owner: str) -> bool:
        from .liveness import owner_lives

        return owner_lives(self.sidecar_path, owner)

    def _key(self, stream: Stream) -> int:
        assert stream.key is not None, "effects are of conversations with entries"
        return stream.key


def _insert_tracking(connection: sqlite3.Connection, tracking: Tracking) -> None:
    tracking_rows.insert(connection, tracking)
