"""The log as an application of the `eventsourcing` library.

    with LogApplication(env={"SQLITE_DBNAME": "talks.db"}) as application: ...

Its settings come from `env` alone, never from the process's environment.
"""

from __future__ import annotations

from typing import NamedTuple, cast

from eventsourcing.application import Application
from eventsourcing.domain import DomainEventProtocol
from eventsourcing.persistence import Mapper, StoredEvent, Transcoder
from eventsourcing.utils import Environment, EnvType

from stenolog.domain.codec import REGISTRY, TopicRegistry
from stenolog.domain.errors import CorruptLogError, InvalidEventError
from stenolog.domain.events import Event

from .appends import Sources
from .recorder import LogRecorder

SYNCHRONOUS = "SQLITE_SYNCHRONOUS"


class Recorded(NamedTuple):
    """An event for the library, with its conversation's name and position."""

    originator_id: str
    originator_version: int
    event: Event


class LogMapper(Mapper[str]):
    """Mapper of events to stored events and back, with the codec's bytes."""

    # A closed registry: the library's own mapper would import classes by names that stand in the file.
    registry: TopicRegistry = REGISTRY

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
    """The application: `recorder` holds the entries, `save(Recorded(...))` appends.

    `env` knows `SQLITE_DBNAME` (a path or ":memory:"), `SQLITE_SYNCHRONOUS` (full, normal) and
    `SQLITE_LOCK_TIMEOUT` (seconds).
    """

    name = "stenolog"
    recorder: LogRecorder

    def __init__(self, env: EnvType | None = None, edge: Sources | None = None) -> None:
        super().__init__(env)
        self.recorder.edge = edge or Sources()

    def construct_env(self, name: str, env: EnvType | None = None) -> Environment:
        # Without the process's environment: a compressor or a cipher meant for another program would change
        # what is stored.
        return Environment(name, dict(env or {}))

    def construct_transcoder(self) -> Transcoder:
        # Never used: the mapper works on the codec's bytes.
        return cast(Transcoder, None)

    def construct_mapper(self) -> Mapper[str]:
        return LogMapper(transcoder=self.construct_transcoder())
