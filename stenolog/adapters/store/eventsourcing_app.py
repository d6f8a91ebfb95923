"""The log as an application of the `eventsourcing` library, and the library's recorder on our tables.

    with LogApplication(env={"SQLITE_DBNAME": "talks.db"}) as application: ...

Its settings come from what it is given, never from the process's environment: there, a compressor or a
cipher meant for another program would change what is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple, cast
from uuid import UUID

from eventsourcing.application import Application
from eventsourcing.domain import DomainEventProtocol
from eventsourcing.persistence import (
    InfrastructureFactory,
    IntegrityError,
    ListenNotifySubscription,
    Mapper,
    Notification,
    StoredEvent,
    Transcoder,
)
from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteCursor, SQLiteFactory
from eventsourcing.utils import Environment, EnvType

from stenolog.domain.codec import REGISTRY, Registry
from stenolog.domain.entry import microseconds
from stenolog.domain.errors import CorruptLogError, InvalidEventError
from stenolog.domain.events import Event

from . import conversation_rows, event_rows
from .appends import PendingEntry, Sources, sealed
from .database import DEADLINE, LogDatastore
from .event_rows import START, Head

SYNCHRONOUS = "SQLITE_SYNCHRONOUS"
SELECT = f"""SELECT c.name, e.originator_version, {event_rows.TOPIC}, {event_rows.STATE}
    FROM stored_events e JOIN conversations c ON c.stream = e.originator_id WHERE c.name = ?"""
SELECT_NOTIFICATIONS = f"""
    SELECT c.name, e.originator_version, {event_rows.TOPIC}, {event_rows.STATE}, e.rowid
    FROM stored_events e JOIN conversations c ON c.stream = e.originator_id WHERE"""


class LogRecorder(SQLiteApplicationRecorder):
    """Stored events are entries; their originator id is the name of the conversation.

    The log itself appends and reads by shorter ways (`appending`, `reading`) on the same `datastore`.
    """

    datastore: LogDatastore

    def __init__(self, datastore: LogDatastore, events_table_name: str = "stored_events") -> None:
        super().__init__(datastore, events_table_name)
        self.edge = Sources()

    def construct_create_table_statements(self) -> list[str]:
        return []  # `schema` makes the tables when the file is opened

    def _insert_events(
        self, c: SQLiteCursor, stored_events: Sequence[StoredEvent], **_: Any
    ) -> Sequence[int] | None:
        """Each event at exactly the version it names: a taken one, or a gap, is the library's conflict."""
        ids: list[int] = []
        for name, group in groupby(stored_events, key=lambda event: str(event.originator_id)):
            ids += self._insert_into(c, name, list(group))
        return ids

    def _insert_into(self, c: SQLiteCursor, name: str, group: list[StoredEvent]) -> list[int]:
        connection = c.sqlite_cursor.connection
        key = conversation_rows.find(connection, name) or conversation_rows.create(connection, name)
        head = event_rows.head(connection, key) or START
        ids: list[int] = []
        for event in group:
            if event.originator_version != head.position + 1:
                raise IntegrityError(
                    f"{name!r}: expected version {head.position + 1}, found {event.originator_version}"
                )
            at = microseconds(self.edge.clock())
            item = PendingEntry(self.edge.id(), at, event.topic, self.edge.salt(), event.state)
            (record,) = sealed(head, [item])
            event_rows.insert(connection, key, [record])
            head = Head(record.position, record.digest)
            ids.append(_last_rowid(connection))
        return ids

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """The conversation's own entries, without what a fork inherits."""
        order = "DESC" if desc else "ASC"
        statement = (
            f"{SELECT} AND e.originator_version > ? AND e.originator_version <= ? "
            f"ORDER BY e.originator_version {order} LIMIT ?"
        )
        limits = (gt or 0, event_rows.LAST if lte is None else lte, -1 if limit is None else limit)
        with self.datastore.reading() as connection:
            rows = connection.execute(statement, (str(originator_id), *limits)).fetchall()
        return [StoredEvent(*row) for row in rows]

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
        statement = f"{SELECT_NOTIFICATIONS} e.rowid BETWEEN ? AND ?"
        if topics:
            statement += f" AND e.topic IN ({','.join('?' * len(topics))})"
        values = (first, event_rows.LAST if stop is None else stop, *topics, limit)
        with self.datastore.reading() as connection:
            rows = connection.execute(f"{statement} ORDER BY e.rowid LIMIT ?", values).fetchall()
        return [Notification(*row) for row in rows]

    def subscribe(
        self, gt: int | None = None, topics: Sequence[str] = ()
    ) -> ListenNotifySubscription[LogRecorder]:
        """Every entry of every conversation with a notification id above `gt`, and those still to come."""
        return LogSubscription(recorder=self, gt=gt, topics=topics)


class LogSubscription(ListenNotifySubscription[LogRecorder]):
    """Woken by the log's bell, which is listened to from before the first look.

    (The library's own begin to listen after it: what is recorded in between waits for the next append.)
    """

    def _loop_on_pull(self) -> None:
        with self._recorder.datastore.bell.subscribe(self._has_been_notified.set):
            super()._loop_on_pull()


class LogFactory(SQLiteFactory):
    """Makes the datastore and the recorder from settings given in words."""

    datastore: LogDatastore

    def __init__(self, env: Environment | EnvType | None) -> None:
        super(SQLiteFactory, self).__init__(env)  # the library's own would make a datastore of its own
        self.datastore = LogDatastore(
            self.env.get(self.SQLITE_DBNAME) or "",
            synchronous=self.env.get(SYNCHRONOUS) or "full",
            deadline=float(self.env.get(self.SQLITE_LOCK_TIMEOUT) or DEADLINE),
        )

    def application_recorder(self) -> LogRecorder:
        return LogRecorder(self.datastore)


def _last_rowid(connection: Any) -> int:
    return int(connection.execute("SELECT last_insert_rowid()").fetchone()[0])


class Recorded(NamedTuple):
    """An event as the library wants it: with the name of its conversation and its position there."""

    originator_id: str
    originator_version: int
    event: Event


class LogMapper(Mapper[str]):
    """Hands the codec's bytes through: a closed registry decides what they become, no import by name."""

    registry: Registry = REGISTRY

    def to_stored_event(self, domain_event: DomainEventProtocol[str]) -> StoredEvent:
        if not isinstance(domain_event, Recorded):
            raise InvalidEventError(f"expected a Recorded event, found {type(domain_event).__name__}")
        topic, payload = self.registry.dump(domain_event.event)
        return StoredEvent(domain_event.originator_id, domain_event.originator_version, topic, payload)

    def to_domain_event(self, stored_event: StoredEvent) -> Recorded:
        name, position = str(stored_event.originator_id), stored_event.originator_version
        try:
            return Recorded(name, position, self.registry.load(stored_event.topic, stored_event.state))
        except CorruptLogError as error:
            raise CorruptLogError(f"{name!r} at position {position}: {error}") from None


class LogApplication(Application[str]):
    """The application: `recorder` holds the entries, `save(Recorded(...))` appends, subscriptions follow.

    `env` knows `SQLITE_DBNAME` (a path or ":memory:"), `SQLITE_SYNCHRONOUS` (full, normal) and
    `SQLITE_LOCK_TIMEOUT` (seconds).
    """

    name = "stenolog"
    recorder: LogRecorder

    def __init__(self, env: EnvType | None = None, edge: Sources | None = None) -> None:
        super().__init__(env)
        self.recorder.edge = edge or Sources()

    def construct_env(self, name: str, env: EnvType | None = None) -> Environment:
        return Environment(name, dict(env or {}))

    def construct_factory(self, env: Environment) -> InfrastructureFactory[Any]:
        return LogFactory(env)

    def construct_transcoder(self) -> Transcoder:
        return cast(Transcoder, None)  # never used: the mapper works on the codec's bytes

    def construct_mapper(self) -> Mapper[str]:
        return LogMapper(transcoder=self.construct_transcoder())
