"""Roles of a store in an SQLite file: each method is one or two statements in a transaction."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from stenolog.adapters.store.contract import values
from stenolog.adapters.store.contract.roles import (
    NO_BLOBS,
    ClaimStore,
    ConversationStore,
    DraftStore,
    ErasureStore,
)
from stenolog.adapters.store.sqlite.statements.dialect import shared
from stenolog.domain.history import Change, Hold

from . import appends
from .file_safety import KEY_BYTES
from .statements import claim_rows, conversation_rows, erasure_rows
from .turn.datastore import SqliteLogDatastore

if TYPE_CHECKING:
    from .liveness import LivenessLock


class SqliteConversations(ConversationStore):
    """Conversations, in `conversations` and `history`."""

    def __init__(self, datastore: SqliteLogDatastore) -> None:
        self._datastore = datastore

    def find(self, name: str) -> int | None:
        with self._datastore.reading() as connection:
            return shared.find(connection, name)

    def find_all(self, names: Collection[str]) -> dict[str, int]:
        with self._datastore.reading() as connection:
            return conversation_rows.find_all(connection, names)

    def name_of(self, key: int) -> str | None:
        with self._datastore.reading() as connection:
            return shared.name_of(connection, key)

    def names(
        self, which: values.Which, *, limit: int | None = None, order: values.Order = "oldest"
    ) -> list[str]:
        with self._datastore.reading() as connection:
            return conversation_rows.names(connection, which, limit=limit, order=order)

    def count(self, which: values.Which) -> int:
        with self._datastore.reading() as connection:
            return conversation_rows.count(connection, which)

    def fork(
        self, parent: values.Stream, at: values.Head, name: str | None, items: Sequence[values.PendingEntry]
    ) -> values.Stream:
        with self._datastore.writing() as connection:
            return appends.SqliteWriter(connection).fork(parent, at, name, items)

    def rename(self, key: int, name: str) -> None:
        with self._datastore.writing() as connection:
            appends.SqliteWriter(connection).rename(key, name)

    def archive(self, key: int, at: int | None) -> None:
        with self._datastore.writing() as connection:
            shared.archive(connection, key, at)

    def delete(self, key: int, name: str, now: int = 0) -> None:
        with self._datastore.writing() as connection:
            appends.SqliteWriter(connection).check_deletable(key, name, now)
            conversation_rows.delete(connection, key)


class SqliteErasure(ErasureStore):
    """Erasure, in `stored_events` and `history`."""

    def __init__(self, datastore: SqliteLogDatastore) -> None:
        self._datastore = datastore

    def conversations_with(self, stream: values.Stream, position: int) -> dict[int, str]:
        with self._datastore.reading() as connection:
            return dict(shared.conversations_with(connection, _key(stream), stream.name, position))

    def erase(
        self,
        stream: values.Stream,
        positions: Sequence[int],
        having: Mapping[int, str],
        written: Mapping[int, tuple[int, Sequence[values.PendingEntry]]],
        blobs: Mapping[str, Collection[tuple[int, int]]] = NO_BLOBS,
        now: int = 0,
    ) -> dict[int, int]:
        seal_key = os.urandom(KEY_BYTES)
        with self._datastore.writing() as connection:
            appends.SqliteWriter(connection).erase(stream, positions, having, written, blobs, now)
            erasure_rows.set_seal_key(connection, seal_key)
        # Only once it is committed: a rollback keeps the old key.
        self._datastore.seal_key = seal_key
        return {each: position + len(items) for each, (position, items) in written.items()}

    def note_hold(self, change: Change) -> int:
        with self._datastore.writing() as connection:
            return shared.note_hold(connection, change)

    def covered(self, stream: values.Stream, positions: Collection[int], now: int) -> dict[int, Hold]:
        with self._datastore.reading() as connection:
            return dict(appends.SqliteWriter(connection).covered(_key(stream), stream.name, positions, now))

    def holds(self) -> list[Change]:
        with self._datastore.reading() as connection:
            return shared.holds(connection)

    def unfinished(self) -> tuple[set[int], set[str], int]:
        with self._datastore.reading() as connection:
            return shared.unfinished_erasures(connection)

    def end(self, upto: int) -> None:
        with self._datastore.writing() as connection:
            shared.end_erasures(connection, upto)

    def left_hash(self, key: int, position: int) -> str:
        with self._datastore.reading() as connection:
            return shared.left_hash(connection, key, position)

    def withheld(self, key: int) -> frozenset[int]:
        with self._datastore.reading() as connection:
            return shared.withheld(connection, key)


class SqliteClaims(ClaimStore):
    """Claims in the table `claims`, and locks that show which runners live."""

    def __init__(self, datastore: SqliteLogDatastore) -> None:
        self._datastore = datastore

    def take(
        self, stream: values.Stream, wanted: Sequence[values.Claim], expected: int
    ) -> list[values.Claim | None]:
        key, name = _key(stream), stream.name
        return self._datastore.group.savepoint(lambda c: claim_rows.take(c, key, name, wanted, expected))

    def of(self, stream: values.Stream) -> list[values.Claim]:
        with self._datastore.reading() as connection:
            return claim_rows.of_stream(connection, _key(stream))

    def everywhere(self) -> list[tuple[str, values.Claim]]:
        with self._datastore.reading() as connection:
            return claim_rows.everywhere(connection)

    def take_over(self, stream: values.Stream, claim: values.Claim, owner: str) -> values.Claim | None:
        key = _key(stream)
        return self._datastore.group.savepoint(
            lambda connection: claim_rows.take_over(connection, key, claim, owner)
        )

    def release(self, claim: values.Claim) -> None:
        self._datastore.group.savepoint(lambda connection: claim_rows.delete(connection, claim.fence))

    def presence(self, id: str) -> LivenessLock:
        # Late: a program that only reads or appends has no runner.
        from .liveness import LivenessLock

        return LivenessLock(
            self._datastore.file, id, in_memory=self._datastore.in_memory, claimed=self._owners
        )

    def owner_lives(self, owner: str) -> bool:
        from .liveness import owner_lives

        return owner_lives(self._datastore.file, owner)

    def _owners(self) -> set[str]:
        return {claim.owner for _, claim in self.everywhere()}


class SqliteDrafts(DraftStore):
    """Drafts in the table `drafts`."""

    # The promise to who recovers is a quarter of a second, and the write, a commit, takes time as well.
    interval = 0.1

    def __init__(self, datastore: SqliteLogDatastore) -> None:
        self._datastore = datastore

    def add(self, said: Iterable[tuple[int, bytes]]) -> None:
        self._datastore.group.savepoint(lambda connection: claim_rows.add_drafts(connection, said))

    def of(self, fence: int) -> list[bytes]:
        with self._datastore.reading() as connection:
            return claim_rows.drafts(connection, fence)

    def since(self, keys: Collection[int], seen: Mapping[int, int]) -> list[values.DraftRow]:
        with self._datastore.reading() as connection:
            return claim_rows.drafted(connection, keys, seen)


def _key(stream: values.Stream) -> int:
    assert stream.key is not None, "effects are of conversations with entries"
    return stream.key
