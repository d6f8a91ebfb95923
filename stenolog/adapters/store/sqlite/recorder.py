"""The store of a log in one SQLite file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from eventsourcing.persistence import ListenNotifySubscription, Notification, StoredEvent, Tracking
from eventsourcing.sqlite import SQLiteApplicationRecorder

from stenolog.adapters.store.contract import values
from stenolog.adapters.store.contract.appends import Append, Sources, exact_append
from stenolog.adapters.store.contract.inspection import Inspection
from stenolog.adapters.store.contract.notifier import LogSubscription
from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.sqlite.statements.dialect import clean_text, shared
from stenolog.domain.entry import GENESIS, Record
from stenolog.domain.errors import CallerError, StoreError

from . import appends, file_safety
from .blob_store import SqliteBlobs
from .roles import SqliteClaims, SqliteConversations, SqliteDrafts, SqliteErasure
from .statements import conversation_rows, event_rows
from .turn.datastore import SqliteLogDatastore
from .turn.group_commit import PendingJob

# The payload at the position itself is known to the caller, and may be long.
SINCE = f"""SELECT originator_version, entry_id, at, digest, topic,
        CASE WHEN originator_version > ? THEN {event_rows.PAYLOAD} END, salt, size, erased
    FROM stored_events WHERE originator_id = ? AND originator_version >= ?
    ORDER BY originator_version LIMIT ?"""
"""The columns of `event_rows.CHECKED`, without the payload of the first row."""
LAST_POSITION = "SELECT max(originator_version) FROM stored_events WHERE originator_id = ?"
HEADER = """SELECT entry_id, at, digest FROM stored_events
    WHERE originator_id = ? AND originator_version = ?"""
BOUNDS = """SELECT
    (SELECT rowid FROM stored_events WHERE originator_id = ?
        AND originator_version > ? ORDER BY originator_version LIMIT 1),
    (SELECT rowid FROM stored_events WHERE originator_id = ?
        AND originator_version <= ? ORDER BY originator_version DESC LIMIT 1)"""
EVER_COMMITTED = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'stored_events'"
DIGEST_OF = "SELECT digest FROM stored_events WHERE rowid = ?"


class SqliteLogRecorder(LogRecorder, SQLiteApplicationRecorder):
    """The library's recorder on our tables; see `LogRecorder`."""

    datastore: SqliteLogDatastore

    def __init__(self, datastore: SqliteLogDatastore, events_table_name: str = "stored_events") -> None:
        super().__init__(datastore, events_table_name)
        self.edge = Sources()
        self.checked = {}
        self.path = datastore.path
        self.address = datastore.file
        self.sidecar_path = datastore.file
        self.is_private = datastore.in_memory
        self.conversations = SqliteConversations(datastore)
        self.erasure = SqliteErasure(datastore)
        self.blobs: SqliteBlobs = SqliteBlobs(datastore)
        self.claims = SqliteClaims(datastore)
        self.drafts = SqliteDrafts(datastore)

    def construct_create_table_statements(self) -> list[str]:
        return []  # `schema` makes the tables when the file is opened

    # Appending

    def insert_events(
        self, stored_events: Sequence[StoredEvent], *, tracking: Tracking | None = None, **_: Any
    ) -> Sequence[int]:
        exact = exact_append(self.edge, stored_events, tracking)
        return self.datastore.group.write(partial(appends.append_exactly, exact))

    def append(
        self,
        items: Sequence[values.PendingEntry],
        stream: values.Stream,
        expected: int | None,
        fence: int | None = None,
        also: values.InTransaction | None = None,
    ) -> list[Record]:
        if also is not None:
            raise StoreError(f"{self.path}: an append to a file takes nothing else into its transaction")
        if not items and fence is None:
            return []  # otherwise a conversation without entries would begin
        asked = Append(stream, items, expected, self.edge, fence)
        return self.datastore.group.write(partial(appends.append, asked))

    def insert_later(
        self,
        items: Sequence[values.PendingEntry],
        wake: Callable[[], object],
        *,
        stream: values.Stream,
        expected: int | None = None,
    ) -> PendingJob[list[Record]]:
        job = partial(appends.append, Append(stream, items, expected, self.edge))
        waiting = PendingJob[list[Record]](job, wake)
        self.datastore.group.submit(waiting)
        return waiting

    def insert_batch(
        self, shares: Sequence[values.Share], blobs: Iterable[tuple[str, bytes]]
    ) -> list[values.Written | CallerError]:
        return self.datastore.group.write(appends.Batch(shares, blobs, self.edge).write)

    def insert_export(self, parts: Iterator[values.ExportPart]) -> None:
        with self.datastore.writing() as connection:
            appends.SqliteWriter(connection).insert_export(parts)

    # Reading a conversation

    def select_events(
        self,
        originator_id: UUID | str | values.Stream,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
        page: bool = False,
        topics: Sequence[str] = (),
    ) -> values.StoredEntries:
        stream = (
            originator_id if isinstance(originator_id, values.Stream) else values.Stream(str(originator_id))
        )
        after, upto = gt or 0, values.LAST if lte is None else lte
        rows: list[values.Row] = []
        with self.datastore.reading() as connection:
            segments = shared.segments(connection, stream, after, upto)
            if page:
                # A page lies in one segment; the caller asks again for the next.
                for key, first, last in segments[:1]:
                    rows = event_rows.page(connection, event_rows.CHECKED, key, first, last, topics)
                return values.StoredEntries(stream.name, rows)
            for key, first, last in reversed(segments) if desc else segments:
                left = None if limit is None else limit - len(rows)
                rows += event_rows.select(connection, key, first, last, desc=desc, limit=left, topics=topics)
        return values.StoredEntries(stream.name, rows)

    def select_records(self, stream: values.Stream, gt: int, lte: int) -> list[Record]:
        with self.datastore.reading() as connection:
            for key, first, last in shared.segments(connection, stream, gt, lte)[:1]:
                rows = event_rows.page(connection, event_rows.WHOLE, key, first, last)
                return [*map(Record._make, rows)]
        return []

    def stretch(self, stream: values.Stream, gt: int, lte: int) -> tuple[int, values.Head] | None:
        with self.datastore.reading() as connection:
            for key, first, last in shared.segments(connection, stream, gt, lte)[:1]:
                return event_rows.stretch(connection, key, first, last)
        return None

    def recent(self, stream: values.Stream, position: int, limit: int) -> list[values.Row]:
        key = self.resolve(stream)
        with self.datastore.reading() as connection:
            return connection.execute(SINCE, (position, key, position, limit)).fetchall()

    def record_by_id(self, stream: values.Stream, id: str) -> Record | None:
        id = clean_text(id)
        with self.datastore.reading() as connection:
            # Its own entries before inherited ones, since a fork may use an id of its parent again.
            for key, _, upto in reversed(shared.segments(connection, stream, 0, values.LAST)):
                record = event_rows.by_id(connection, key, id)
                if record is not None and record.position <= upto:
                    return record
        return None

    def header(self, stream: values.Stream, position: int) -> tuple[str, int, bytes] | None:
        with self.datastore.reading() as connection:
            found: tuple[str, int, bytes] | None = connection.execute(
                HEADER, (stream.key, position)
            ).fetchone()
        return found

    def last_position(self, stream: values.Stream) -> int:
        with self.datastore.reading() as connection:
            (last,) = connection.execute(LAST_POSITION, (stream.key,)).fetchone()
        return last if isinstance(last, int) else 0

    def is_inherited(self, stream: values.Stream, position: int) -> bool:
        with self.datastore.reading() as connection:
            return shared.is_inherited(connection, stream.key, position)

    def head(self, stream: values.Stream) -> values.Head:
        key = self.resolve(stream)
        if key is None:
            return values.START
        with self.datastore.reading() as connection:
            return event_rows.head(connection, key) or values.START

    def lineage(self, stream: values.Stream, last: int = values.LAST) -> tuple[values.Segment, ...]:
        if stream.alone and stream.key is not None:
            return (values.Segment(stream.key, 0, last),)
        with self.datastore.reading() as connection:
            return shared.lineage_of(connection, stream, last)

    def digest_at(self, stream: values.Stream, position: int) -> bytes | None:
        if position == 0:
            return GENESIS
        with self.datastore.reading() as connection:
            segments = shared.segments(connection, stream, 0, position)
            return event_rows.digest_on(connection, segments, position)

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
        with self.datastore.reading() as connection:
            rows = event_rows.select_notifications(connection, first, stop, topics, limit)
        return [Notification(*row) for row in rows]

    def subscribe(
        self, gt: int | None = None, topics: Sequence[str] = ()
    ) -> ListenNotifySubscription[LogRecorder]:
        """Subscribe to all conversations' entries with a notification id above `gt`."""
        return LogSubscription(recorder=self, gt=gt, topics=topics)

    def committed(
        self,
        after: int,
        *,
        upto: int = values.LAST,
        key: int | None = None,
        limit: int = event_rows.CHUNK_ROWS,
    ) -> list[values.CommittedRow]:
        with self.datastore.reading() as connection:
            return event_rows.committed(connection, after, upto=upto, key=key, limit=limit)

    def appended(self, behind: Mapping[int, int], limit: int = 16) -> list[values.CommittedRow]:
        with self.datastore.reading() as connection:
            return event_rows.appended(connection, behind, limit)

    def committed_at(self, notifications: Sequence[int]) -> list[values.CommittedRow]:
        with self.datastore.reading() as connection:
            return event_rows.committed_at(connection, notifications)

    def last_committed(self, upto: int = values.LAST) -> tuple[int, bytes]:
        with self.datastore.reading() as connection:
            return event_rows.newest(connection, upto)

    def moment(self, after: int, limit: int) -> values.LogMoment:
        with self.datastore.reading() as connection:
            # One transaction for all four: an entry and its conversation must be seen together, or neither.
            connection.execute("BEGIN")
            try:
                conversations = conversation_rows.every(connection)
                (newest,) = connection.execute(EVER_COMMITTED).fetchone()
                (digest,) = connection.execute(DIGEST_OF, (after,)).fetchone() or (None,)
                entries = event_rows.committed(connection, after, limit=limit)
                return values.LogMoment(conversations, int(newest), digest, entries)
            finally:
                connection.execute("ROLLBACK")

    def notification_bounds(self, segment: values.Segment) -> tuple[int, int]:
        key, after, upto = segment
        with self.datastore.reading() as connection:
            first, last = connection.execute(BOUNDS, (key, after, key, upto)).fetchone()
        return first or 0, last or 0

    def listening(self, wake: Callable[[], object], *, drafts: bool = False) -> AbstractContextManager[None]:
        # A commit of another process does not say what it has written.
        return self.datastore.commit_notifier.subscribe(wake)

    def imported(self, key: int) -> tuple[int, int]:
        with self.datastore.reading() as connection:
            return shared.imported(connection, key)

    # Cursors of followers

    def insert_tracking(self, tracking: Tracking) -> None:
        self.datastore.group.savepoint(lambda connection: shared.track(connection, tracking))

    def max_tracking_id(self, application_name: str) -> int | None:
        with self.datastore.reading() as connection:
            return shared.tracked(connection, application_name)

    def load_cursor(self, name: str, key: int = values.EVERYWHERE) -> values.Cursor:
        with self.datastore.reading() as connection:
            return shared.load_cursor(connection, name, key)

    def save_cursor(self, name: str, to: values.Cursor, key: int = values.EVERYWHERE) -> None:
        with self.datastore.writing() as connection:
            shared.save_cursor(connection, name, to, key)

    # The store as a whole

    @property
    def closed(self) -> bool:
        return self.datastore.closed

    @property
    def seal_key(self) -> bytes:
        return self.datastore.seal_key

    @contextmanager
    def inspect(self) -> Iterator[Inspection]:
        # Imported late, as few programs inspect.
        from . import inspection

        with inspection.inspecting(self.datastore) as connection:
            yield inspection.SqliteInspection(self.datastore, connection)

    def compact(self) -> bool:
        return self.datastore.checkpoint_wal()

    def backup(self, path: Path) -> None:
        # Late: few programs make a backup.
        from . import copies

        copies.refuse_existing(path)
        file_safety.check_path(path)
        with self.datastore.reading() as source:
            copies.copy(source, path)

    def close(self) -> None:
        self.blobs.close()
