"""The store of a log in PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from uuid import UUID

from eventsourcing.persistence import (
    ListenNotifySubscription,
    Notification,
    StoredEvent,
    Tracking,
)
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresRecorder
from psycopg import errors as pg

from stenolog.adapters.store.contract.appends import Append, Sources, exact_append
from stenolog.adapters.store.contract.inspection import Inspection
from stenolog.adapters.store.contract.notifier import LogSubscription
from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import (
    EVERYWHERE,
    LAST,
    START,
    CommittedRow,
    Cursor,
    ExportPart,
    Head,
    InTransaction,
    LogMoment,
    PendingEntry,
    Row,
    Segment,
    Share,
    StoredEntries,
    Stream,
    Written,
)
from stenolog.adapters.store.postgres.statements.dialect import can_be_stored, shared
from stenolog.domain.entry import GENESIS, Record
from stenolog.domain.errors import CallerError, StoreError

from . import appends, batches
from .append_queue import AppendQueue, PendingAppend
from .appends import Crowds
from .connection import schema
from .connection.bell import Bell
from .connection.datastore import HISTORY, LogConnection, PostgresLogDatastore
from .inspection import inspecting
from .presence import ProcessLease
from .roles import PostgresBlobs, PostgresClaims, PostgresConversations, PostgresDrafts, PostgresErasure
from .statements import conversation_rows, event_rows, followed

CHUNK_ROWS = 64


class PostgresLogRecorder(LogRecorder, PostgresApplicationRecorder):
    """The library's recorder on our tables; see `LogRecorder`."""

    datastore: PostgresLogDatastore

    def __init__(self, datastore: PostgresLogDatastore) -> None:
        # Past the library's own recorders, which would make other tables.
        PostgresRecorder.__init__(self, datastore)
        self.edge = Sources()
        self.checked = {}
        self.path = datastore.path
        self.address = datastore.address.text
        self.sidecar_path = sidecar_path(datastore.id)
        self.is_private = False
        self.lease = ProcessLease(datastore)
        self.bell = Bell(datastore)
        self.conversations = PostgresConversations(datastore, self.bell)
        self.erasure = PostgresErasure(datastore, self.bell)
        self.blobs = PostgresBlobs(datastore, self.lease)
        self.claims = PostgresClaims(datastore, self.lease)
        self.drafts = PostgresDrafts(datastore, self.bell)
        self._crowds = Crowds()
        self._queue = AppendQueue(datastore, self._crowds, self.bell.ring)
        if datastore.version < schema.VERSION:
            _upgrade(datastore)

    # Appending

    def insert_events(
        self, stored_events: Sequence[StoredEvent], *, tracking: Tracking | None = None, **_: Any
    ) -> Sequence[int]:
        exact = exact_append(self.edge, stored_events, tracking)
        found = self.datastore.repeat(lambda c, again: appends.append_exactly(c, exact, again=again))
        self.bell.ring()
        return found

    def append(
        self,
        items: Sequence[PendingEntry],
        stream: Stream,
        expected: int | None,
        fence: int | None = None,
        also: InTransaction | None = None,
    ) -> list[Record]:
        if not items and fence is None:
            return []  # otherwise a conversation without entries would begin
        asked = Append(stream, items, expected, self.edge, fence, also)
        records = appends.append(self.datastore, self._crowds, asked)
        self.bell.ring()
        return records

    def insert_later(
        self,
        items: Sequence[PendingEntry],
        wake: Callable[[], object],
        *,
        stream: Stream,
        expected: int | None = None,
    ) -> PendingAppend:
        waiting = PendingAppend(Append(stream, items, expected, self.edge), wake)
        self._queue.submit(waiting)
        return waiting

    def insert_batch(
        self, shares: Sequence[Share], blobs: Iterable[tuple[str, bytes]]
    ) -> list[Written | CallerError]:
        named = list(blobs)  # read once, as the transaction may have to be made again
        found = self.datastore.repeat(
            lambda c, again: batches.insert_batch(c, shares, named, self.edge, again=again)
        )
        self.bell.ring()
        return found

    def insert_export(self, parts: Iterator[ExportPart]) -> None:
        with batches.spooled(parts) as export:
            self.datastore.repeat(lambda c, again: batches.insert_export(c, export, again=again))
        self.bell.ring()

    # Reading a conversation

    def select_events(
        self,
        originator_id: UUID | str | Stream,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
        page: bool = False,
        topics: Sequence[str] = (),
    ) -> StoredEntries:
        stream = originator_id if isinstance(originator_id, Stream) else Stream(str(originator_id))
        after, upto = gt or 0, LAST if lte is None else lte

        def read(connection: LogConnection) -> list[Row]:
            segments = shared.segments(connection, stream, after, upto)
            if page:
                # A page lies in one segment; the caller asks again for the next.
                for key, first, last in segments[:1]:
                    return event_rows.page(connection, event_rows.CHECKED, key, first, last, topics)
            rows: list[Row] = []
            for key, first, last in reversed(segments) if desc else segments:
                left = None if limit is None else limit - len(rows)
                rows += event_rows.select(connection, key, first, last, desc=desc, limit=left, topics=topics)
            return rows

        return StoredEntries(stream.name, self.datastore.read(read))

    def select_records(self, stream: Stream, gt: int, lte: int) -> list[Record]:
        def read(connection: LogConnection) -> list[Record]:
            for key, first, last in shared.segments(connection, stream, gt, lte)[:1]:
                return [*map(Record._make, event_rows.page(connection, event_rows.WHOLE, key, first, last))]
            return []

        return self.datastore.read(read)

    def stretch(self, stream: Stream, gt: int, lte: int) -> tuple[int, Head] | None:
        def read(connection: LogConnection) -> tuple[int, Head] | None:
            for key, first, last in shared.segments(connection, stream, gt, lte)[:1]:
                return event_rows.stretch(connection, key, first, last)
            return None

        return self.datastore.read(read)

    def recent(self, stream: Stream, position: int, limit: int) -> list[Row]:
        key = self.resolve(stream)
        values = (position, key, position, limit)
        return self.datastore.read(lambda c: c.run(event_rows.SINCE, values).fetchall())

    def record_by_id(self, stream: Stream, id: str) -> Record | None:
        def read(connection: LogConnection) -> Record | None:
            if not can_be_stored(id):
                return None
            # Its own entries before inherited ones, since a fork may use an id of its parent again.
            for key, _, upto in reversed(shared.segments(connection, stream, 0, LAST)):
                record = event_rows.by_id(connection, key, id)
                if record is not None and record.position <= upto:
                    return record
            return None

        return self.datastore.read(read)

    def header(self, stream: Stream, position: int) -> tuple[str, int, bytes] | None:
        def read(connection: LogConnection) -> Any:
            return connection.run(event_rows.HEADER, (stream.key, position)).fetchone()

        found: tuple[str, int, bytes] | None = self.datastore.read(read)
        return found

    def last_position(self, stream: Stream) -> int:
        found: Any = self.datastore.read(lambda c: c.run(event_rows.LAST_POSITION, (stream.key,)).fetchone())
        return (found[0] or 0) if found else 0

    def is_inherited(self, stream: Stream, position: int) -> bool:
        key = stream.key or 0
        return self.datastore.read(lambda c: shared.is_inherited(c, key, position))

    def head(self, stream: Stream) -> Head:
        key = self.resolve(stream)
        if key is None:
            return START
        return self.datastore.read(lambda c: event_rows.head(c, key)) or START

    def lineage(self, stream: Stream, last: int = LAST) -> tuple[Segment, ...]:
        if stream.alone and stream.key is not None:
            return (Segment(stream.key, 0, last),)
        return self.datastore.read(lambda c: shared.lineage_of(c, stream, last))

    def digest_at(self, stream: Stream, position: int) -> bytes | None:
        if position == 0:
            return GENESIS
        return self.datastore.read(
            lambda c: event_rows.digest_on(c, shared.segments(c, stream, 0, position), position)
        )

    # Following the log

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        first = (start or 0) + (0 if inclusive_of_start else 1)
        return self.datastore.read(lambda c: followed.select_notifications(c, first, stop, topics, limit))

    def max_notification_id(self) -> int | None:
        return self.last_committed()[0] or None

    def subscribe(
        self, gt: int | None = None, topics: Sequence[str] = ()
    ) -> ListenNotifySubscription[LogRecorder]:
        """Subscribe to all conversations' entries with a notification id above `gt`."""
        return LogSubscription(recorder=self, gt=gt, topics=topics)

    def committed(
        self, after: int, *, upto: int = LAST, key: int | None = None, limit: int = CHUNK_ROWS
    ) -> list[CommittedRow]:
        return self.datastore.read(lambda c: followed.committed(c, after, upto=upto, key=key, limit=limit))

    def appended(self, behind: Mapping[int, int], limit: int = 16) -> list[CommittedRow]:
        return self.datastore.read(lambda c: followed.appended(c, behind, limit))

    def committed_at(self, notifications: Sequence[int]) -> list[CommittedRow]:
        return self.datastore.read(lambda c: followed.committed_at(c, notifications))

    def last_committed(self, upto: int = LAST) -> tuple[int, bytes]:
        return self.datastore.read(lambda c: followed.newest(c, upto))

    def moment(self, after: int, limit: int) -> LogMoment:
        # One transaction for all: an entry and its conversation must be seen together, or neither.
        return self.datastore.snapshot(lambda c: followed.moment(c, after, limit))

    def notification_bounds(self, segment: Segment) -> tuple[int, int]:
        return self.datastore.read(lambda c: followed.notification_bounds(c, segment))

    def listening(self, wake: Callable[[], object], *, drafts: bool = False) -> AbstractContextManager[None]:
        return self.bell.subscribe(wake, drafts=drafts)

    def imported(self, key: int) -> tuple[int, int]:
        return self.datastore.read(lambda c: shared.imported(c, key))

    # Cursors of followers

    def insert_tracking(self, tracking: Tracking) -> None:
        self.datastore.repeat(lambda c, again: shared.track(c, tracking, again=again))

    def max_tracking_id(self, application_name: str) -> int | None:
        return self.datastore.read(lambda c: shared.tracked(c, application_name))

    def load_cursor(self, name: str, key: int = EVERYWHERE) -> Cursor:
        return self.datastore.read(lambda c: shared.load_cursor(c, name, key))

    def save_cursor(self, name: str, to: Cursor, key: int = EVERYWHERE) -> None:
        self.datastore.write(lambda c: shared.save_cursor(c, name, to, key))

    # The store as a whole

    @property
    def closed(self) -> bool:
        return self.datastore.closed

    @property
    def seal_key(self) -> bytes:
        return self.datastore.seal_key

    def inspect(self) -> AbstractContextManager[Inspection]:
        return inspecting(self.datastore)

    def compact(self) -> bool:
        return True  # VACUUM is the server's, and its write-ahead log expires by itself

    def backup(self, path: Path) -> None:
        # Imported late, as few programs make one; it needs SQLite.
        from .backup import backup

        backup(self.datastore, path)

    def close(self) -> None:
        self._queue.close()
        self.bell.close()
        self.lease.close()


def _upgrade(datastore: PostgresLogDatastore) -> None:
    """Upgrade the tables, unless role or server only read."""
    try:
        datastore.repeat(lambda connection, _: conversation_rows.upgrade(connection), [HISTORY])
    except StoreError as error:
        if not isinstance(error.__cause__, pg.InsufficientPrivilege | pg.ReadOnlySqlTransaction):
            raise


def sidecar_path(log: str) -> str:
    """Return the prefix of a log's files: below `XDG_CACHE_HOME`, by the log's id."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(cache) / "stenolog" / log
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return str(folder / "log")
