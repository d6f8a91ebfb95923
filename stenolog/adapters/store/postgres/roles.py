"""Roles of a store in PostgreSQL: each method is one or two statements in a transaction."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from stenolog.adapters.store.contract import values
from stenolog.adapters.store.contract.blobs import shas_in
from stenolog.adapters.store.contract.roles import (
    NO_BLOBS,
    BlobStore,
    ClaimStore,
    ConversationStore,
    DraftStore,
    ErasureStore,
)
from stenolog.adapters.store.postgres.statements.dialect import shared
from stenolog.domain.errors import (
    InvalidEventError,
    StenologError,
)
from stenolog.domain.history import Change, Hold

from . import batches
from .appends import PostgresWriter
from .connection.bell import Bell
from .connection.datastore import HISTORY, LogConnection, PostgresLogDatastore
from .connection.schema import KEY_BYTES
from .presence import LEASE, ProcessLease, RunnerPresence
from .statements import (
    blob_rows,
    claim_rows,
    conversation_rows,
    erasure_rows,
    event_rows,
)


class PostgresConversations(ConversationStore):
    """Conversations, in `conversations` and `history`."""

    def __init__(self, datastore: PostgresLogDatastore, bell: Bell) -> None:
        self._datastore = datastore
        self._ring = bell.ring

    def find(self, name: str) -> int | None:
        return self._datastore.read(lambda c: shared.find(c, name))

    def find_all(self, names: Collection[str]) -> dict[str, int]:
        return self._datastore.read(lambda c: conversation_rows.find_all(c, names))

    def name_of(self, key: int) -> str | None:
        return self._datastore.read(lambda c: shared.name_of(c, key))

    def names(
        self, which: values.Which, *, limit: int | None = None, order: values.Order = "oldest"
    ) -> list[str]:
        return self._datastore.read(lambda c: conversation_rows.names(c, which, limit=limit, order=order))

    def count(self, which: values.Which) -> int:
        return self._datastore.read(lambda c: conversation_rows.count(c, which))

    def fork(
        self, parent: values.Stream, at: values.Head, name: str | None, items: Sequence[values.PendingEntry]
    ) -> values.Stream:
        made = self._datastore.repeat(
            lambda c, again: batches.fork(c, parent, at, name, items, again=again), [HISTORY]
        )
        self._ring()
        return made

    def rename(self, key: int, name: str) -> None:
        def rename(connection: LogConnection, again: bool) -> None:
            if again and shared.name_of(connection, key) == name:
                return
            PostgresWriter(connection).rename(key, name)

        self._datastore.repeat(rename, [HISTORY])
        self._ring()

    def archive(self, key: int, at: int | None) -> None:
        def archive(connection: LogConnection, again: bool) -> None:
            if not (again and conversation_rows.is_archived(connection, key, at)):
                shared.archive(connection, key, at)

        self._datastore.repeat(archive, [HISTORY])
        self._ring()

    def delete(self, key: int, name: str, now: int = 0) -> None:
        def delete(connection: LogConnection, again: bool) -> None:
            if again and shared.name_of(connection, key) is None:
                return
            PostgresWriter(connection).check_deletable(key, name, now)
            conversation_rows.delete(connection, key)

        self._datastore.repeat(delete, [HISTORY, key])
        self._ring()


class PostgresErasure(ErasureStore):
    """Erasure, in `stored_events` and `history`."""

    def __init__(self, datastore: PostgresLogDatastore, bell: Bell) -> None:
        self._datastore = datastore
        self._ring = bell.ring

    def conversations_with(self, stream: values.Stream, position: int) -> dict[int, str]:
        key, name = _key(stream), stream.name
        return self._datastore.read(lambda c: dict(shared.conversations_with(c, key, name, position)))

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

        def erase(connection: LogConnection, again: bool) -> None:
            if again and _all_stand(connection, written):
                return
            PostgresWriter(connection).erase(stream, positions, having, written, blobs, now)
            # With another seal key, checkpoints that other processes made of the words are not used any more.
            connection.run(erasure_rows.NEW_KEY, (seal_key,))

        self._datastore.repeat(erase, [HISTORY, *having])
        # Only once it is committed: a rollback keeps the old key.
        self._datastore.seal_key = seal_key
        self._ring()
        return {each: position + len(items) for each, (position, items) in written.items()}

    def note_hold(self, change: Change) -> int:
        return self._datastore.repeat(lambda c, again: shared.note_hold(c, change, again=again), [HISTORY])

    def covered(self, stream: values.Stream, positions: Collection[int], now: int) -> dict[int, Hold]:
        key, name = _key(stream), stream.name
        return self._datastore.read(lambda c: dict(PostgresWriter(c).covered(key, name, positions, now)))

    def holds(self) -> list[Change]:
        return self._datastore.read(shared.holds)

    def unfinished(self) -> tuple[set[int], set[str], int]:
        return self._datastore.read(shared.unfinished_erasures)

    def end(self, upto: int) -> None:
        self._datastore.write(lambda c: shared.end_erasures(c, upto))

    def left_hash(self, key: int, position: int) -> str:
        return self._datastore.read(lambda c: shared.left_hash(c, key, position))

    def withheld(self, key: int) -> frozenset[int]:
        return self._datastore.read(lambda c: shared.withheld(c, key))


class PostgresBlobs(BlobStore):
    """Blobs in the table `blobs`, pinned by the process's lease."""

    can_collect = True

    def __init__(self, datastore: PostgresLogDatastore, lease: ProcessLease) -> None:
        self._datastore = datastore
        self._lease = lease
        self.pinned: Counter[str] = Counter()

    def put(self, named: Sequence[tuple[str, bytes]]) -> None:
        for sha, content in named:
            if len(content) > blob_rows.MOST_BYTES:
                raise InvalidEventError(
                    f"{self._datastore.path}: expected a blob of at most {blob_rows.MOST_BYTES:,} bytes, "
                    f"found {len(content):,} in {sha}"
                )
        process = self._lease.id
        self._datastore.write(lambda c: blob_rows.put(c, named, process))
        self.pinned.update(sha for sha, _ in named)

    def get(self, sha: str) -> bytes | None:
        return self._datastore.read(lambda c: blob_rows.blob(c, sha))

    def has(self, sha: str) -> bool:
        return self._datastore.read(lambda c: blob_rows.has(c, sha))

    def shas(self) -> list[str]:
        found = self._datastore.read(lambda c: c.run(blob_rows.ALL).fetchall())
        return [digest.hex() for (digest,) in found]

    def release(self, payload: bytes) -> None:
        if named := self.pinned.keys() & shas_in(payload):
            # A blob that was put twice is still to be named once.
            self.pinned.subtract(named)
            keys = [bytes.fromhex(sha) for sha in named if not self.pinned[sha]]
            self.pinned += Counter()
            # The entry is durable: a pin that stays is no reason to tell an error.
            with suppress(StenologError):
                self._datastore.write(lambda c: c.run(blob_rows.UNPIN, (keys, self._lease.id)))

    def named_by(self, key: int) -> set[str]:
        return self._datastore.read(lambda c: blob_rows.named_by(c, key))

    def collect(self, candidates: Collection[str] | None = None) -> values.Collected:
        return blob_rows.collect(self._datastore, LEASE, candidates)


class PostgresClaims(ClaimStore):
    """Claims in the table `claims`, and the leases of their owners."""

    def __init__(self, datastore: PostgresLogDatastore, lease: ProcessLease) -> None:
        self._datastore = datastore
        self._lease = lease

    def take(
        self, stream: values.Stream, wanted: Sequence[values.Claim], expected: int
    ) -> list[values.Claim | None]:
        key, name = _key(stream), stream.name
        return self._datastore.statement(
            lambda c, again: claim_rows.take(c, key, name, wanted, expected, again=again)
        )

    def of(self, stream: values.Stream) -> list[values.Claim]:
        key = _key(stream)
        return self._datastore.read(lambda c: claim_rows.of_stream(c, key))

    def everywhere(self) -> list[tuple[str, values.Claim]]:
        return self._datastore.read(claim_rows.everywhere)

    def take_over(self, stream: values.Stream, claim: values.Claim, owner: str) -> values.Claim | None:
        key = _key(stream)

        return self._datastore.repeat(
            lambda c, again: claim_rows.take_over(c, key, claim, owner, again=again), [key]
        )

    def release(self, claim: values.Claim) -> None:
        self._datastore.statement(lambda c, _: claim_rows.delete(c, claim.fence))

    def presence(self, id: str) -> RunnerPresence:
        return RunnerPresence(self._lease, id)

    def owner_lives(self, owner: str) -> bool:
        return self._lease.lives(owner)


class PostgresDrafts(DraftStore):
    """Drafts in the table `drafts`."""

    # A write costs no wait for the disk, and those of a process are made together.
    interval = 0.03

    def __init__(self, datastore: PostgresLogDatastore, bell: Bell) -> None:
        self._datastore = datastore
        self._ring = bell.ring
        self._writer = DraftWriter(datastore)

    def add(self, said: Iterable[tuple[int, bytes]]) -> None:
        if rows := list(said):
            self._writer.add(rows)
            self._ring(drafts=True)

    def of(self, fence: int) -> list[bytes]:
        return self._datastore.read(lambda c: claim_rows.drafts(c, fence))

    def since(self, keys: Collection[int], seen: Mapping[int, int]) -> list[values.DraftRow]:
        return self._datastore.read(lambda c: claim_rows.drafted(c, keys, seen))


def _all_stand(
    connection: LogConnection, written: Mapping[int, tuple[int, Sequence[values.PendingEntry]]]
) -> bool:
    return all(
        len(event_rows.by_ids(connection, each, [item.id for item in items])) == len(items)
        for each, (_, items) in written.items()
    )


def _key(stream: values.Stream) -> int:
    assert stream.key is not None, "effects are of conversations with entries"
    return stream.key


class _Pieces:
    """A caller's pieces, and whether stored; `woken` is set then, or when it must store them."""

    def __init__(self, said: Sequence[tuple[int, bytes]]) -> None:
        self.said = said
        self.woken = threading.Event()
        self.is_done = False
        self.error: BaseException | None = None


class DraftWriter:
    """Writer of a process's drafts, one transaction at a time.

    One caller writes for all who wait, then hands over to the first newcomer, so that none waits for others'
    writes.
    """

    def __init__(self, datastore: PostgresLogDatastore) -> None:
        self._datastore = datastore
        self._guard = threading.Lock()
        self._waiting: list[_Pieces] = []
        self._is_writing = False

    def add(self, said: Sequence[tuple[int, bytes]]) -> None:
        """Store pieces with those of others that wait; see `DraftStore.add`."""
        mine = _Pieces(said)
        with self._guard:
            self._waiting.append(mine)
            if not self._is_writing:
                self._is_writing = True
                mine.woken.set()
        mine.woken.wait()
        if not mine.is_done:
            self._write()
        if mine.error is not None:
            raise mine.error

    def _write(self) -> None:
        with self._guard:
            together, self._waiting = self._waiting, []
        rows = [row for pieces in together for row in pieces.said]
        stored: list[tuple[int, int]] = []
        error: BaseException | None = None
        try:
            self._datastore.repeat(lambda c, again: claim_rows.add_drafts(c, rows, stored, again=again))
        except BaseException as failed:
            error = failed
        for pieces in together:
            pieces.is_done, pieces.error = True, error
            pieces.woken.set()
        with self._guard:
            self._is_writing = bool(self._waiting)
            if self._waiting:
                self._waiting[0].woken.set()
