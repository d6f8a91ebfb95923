"""The work of a store in the comparison; one subclass for each way of using a library.

These files import nothing of stenolog: each runs in an environment that has its own library alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from benchmarks.peers.workload import Alphabet, Event, Said, Turn, events

T = TypeVar("T")
Acknowledge = Callable[[Event], object]


class UnsupportedError(Exception):
    """The library has no way to do this."""


def nobody(event: Event) -> None:
    """Ignore a durable event, by default."""


class Peer:
    """A conversation store in one SQLite file. `messages` is what it hands over for the next model call."""

    packages: ClassVar[tuple[str, ...]] = ()
    """The distributions whose versions are told."""
    prepared: ClassVar[bool] = False
    """The file is put in WAL mode beforehand, where the library itself would leave it in DELETE."""

    def open(self, path: Path) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def append(self, event: Event) -> None:
        """Make one event durable."""
        raise NotImplementedError

    def messages(self, conversation: str) -> Any:
        """Return the list for the next model call, built from the store."""
        raise NotImplementedError

    def said(self, messages: Any) -> list[Said]:
        """Return a list of the library's own as it is compared; never timed."""
        raise NotImplementedError

    def kept(self, conversation: str) -> list[Said]:
        """Return the messages in the store, before they are repaired for a request."""
        return self.said(self.messages(conversation))

    def begin(self, conversation: str) -> None:
        """Do the library's work at the beginning of a turn."""

    def turn(self, turn: Turn, told: Acknowledge = nobody) -> None:
        """Run a turn as a program does: five durable events, and the list before each of two model calls."""
        self.begin(turn[0].conversation)
        for event in turn:
            if event.step in (1, 4):
                self.messages(event.conversation)
            self.append(event)
            told(event)

    def fill(self, conversation: str, turns: int, alphabet: Alphabet = "latin") -> None:
        """Write the same history in the library's fastest way."""
        self.begin(conversation)
        for event in events(conversation, turns, alphabet):
            self.append(event)

    def at(self, conversation: str, turn: int) -> Any:
        """Return the list as it was when that turn had ended."""
        raise UnsupportedError

    def fork(self, conversation: str, turn: int, name: str) -> None:
        """Fork the conversation there."""
        raise UnsupportedError


class AsyncPeer(Peer):
    """A store with an asynchronous API; a turn enters the event loop once."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    async def put(self, event: Event) -> None:
        raise NotImplementedError

    async def built(self, conversation: str) -> Any:
        raise NotImplementedError

    async def started(self, conversation: str) -> None:
        """Do the library's work at the beginning of a turn."""

    def begin(self, conversation: str) -> None:
        self.wait(self.started(conversation))

    def append(self, event: Event) -> None:
        self.wait(self.put(event))

    def messages(self, conversation: str) -> Any:
        return self.wait(self.built(conversation))

    def turn(self, turn: Turn, told: Acknowledge = nobody) -> None:
        async def run() -> None:
            await self.started(turn[0].conversation)
            for event in turn:
                if event.step in (1, 4):
                    await self.built(event.conversation)
                await self.put(event)
                told(event)

        self.wait(run())

    def fill(self, conversation: str, turns: int, alphabet: Alphabet = "latin") -> None:
        async def run() -> None:
            await self.started(conversation)
            for event in events(conversation, turns, alphabet):
                await self.put(event)

        self.wait(run())
