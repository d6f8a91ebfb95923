"""The eventsourcing library: a conversation as an aggregate that is loaded, told of an event, and saved.

`EventSourcingHeld` keeps aggregates in a cache without copying them: fast, and not safe, since one that lost
a race for its version keeps the event that was refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar
from uuid import NAMESPACE_URL, UUID, uuid5

from eventsourcing.application import AggregateNotFoundError, Application
from eventsourcing.domain import Aggregate, event

from benchmarks.peers.libraries import chat
from benchmarks.peers.peer import Peer
from benchmarks.peers.workload import STEPS, Alphabet, Event, Said, events

TOGETHER = 500


class Talk(Aggregate):
    """A list of messages, each added by an event."""

    @event("Begun")
    def __init__(self, name: str) -> None:
        self.name = name
        self.messages: list[dict[str, Any]] = []

    @staticmethod
    def create_id(name: str) -> UUID:
        """Return the id of a conversation, from its name."""
        return uuid5(NAMESPACE_URL, name)

    @event("Happened")
    def happens(self, message: dict[str, Any]) -> None:
        """Append one more message."""
        self.messages.append(message)


class EventSourcing(Peer):
    packages: ClassVar[tuple[str, ...]] = ("eventsourcing",)
    settings: ClassVar[dict[str, str]] = {}

    def open(self, path: Path) -> None:
        env = {"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(path), **self.settings}
        self.application: Application[UUID] = Application(env=env)

    def close(self) -> None:
        self.application.close()

    def append(self, event: Event) -> None:
        talk = self.talk(event.conversation)
        talk.happens(message=chat.message(event))
        self.application.save(talk)

    def fill(self, conversation: str, turns: int, alphabet: Alphabet = "latin") -> None:
        talk = Talk(conversation)
        for number, happened in enumerate(events(conversation, turns, alphabet), 1):
            talk.happens(message=chat.message(happened))
            if number % TOGETHER == 0:
                self.application.save(talk)
        self.application.save(talk)

    def messages(self, conversation: str) -> Any:
        return self.talk(conversation).messages

    def said(self, messages: Any) -> list[Said]:
        return chat.said(messages)

    def at(self, conversation: str, turn: int) -> Any:
        """Return the messages as they were after a turn; version 1 is the opening."""
        talk: Talk = self.application.repository.get(Talk.create_id(conversation), version=1 + turn * STEPS)
        return talk.messages

    def talk(self, conversation: str) -> Talk:
        try:
            return self.application.repository.get(Talk.create_id(conversation))
        except AggregateNotFoundError:
            return Talk(conversation)


class EventSourcingHeld(EventSourcing):
    settings: ClassVar[dict[str, str]] = {
        "AGGREGATE_CACHE_MAXSIZE": "1000",
        "DEEPCOPY_FROM_AGGREGATE_CACHE": "n",
    }
