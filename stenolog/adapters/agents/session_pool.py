"""The agents that remember: one for each lane of each conversation, and at most so many at a time."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Generic, NamedTuple, TypeVar

from stenolog.adapters.llms.base import StreamItem
from stenolog.domain.errors import ModelError


class SessionPlace(NamedTuple):
    """A conversation, and the address of a lane in it."""

    conversation: str
    lane: str


class AgentSession(ABC):
    """An agent that goes on running between two requests.

    `session` names what it remembers; `told`: it has been told something since it was started.
    """

    session: str
    told: bool = False

    @property
    @abstractmethod
    def alive(self) -> bool:
        """True if the resident can take requests."""

    @property
    @abstractmethod
    def why(self) -> str:
        """A message on the resident's end."""

    @abstractmethod
    def ask(self, prompt: str) -> AsyncGenerator[StreamItem, None]:
        """Its answer, as `Model.stream` gives it."""

    @abstractmethod
    async def stop(self) -> None:
        """End it; once more does nothing."""


R = TypeVar("R", bound=AgentSession)


class _Home(Generic[R]):
    """The home of one agent: one turn at a time."""

    def __init__(self) -> None:
        self.who: R | None = None
        self.busy = 0
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """A turn there, once those before it have ended."""
        self.busy += 1
        try:
            async with self._lock:
                yield
        finally:
            self.busy -= 1


class SessionPool(Generic[R]):
    """A pool of residents, at most one per place.

    Beyond `most` residents, the one silent longest is stopped; its lane is sent everything again. `begin`
    starts a resident at a place, for a session (empty: a new one). `resumes`: a new resident may be able to
    resume a session that no process here remembers.
    """

    def __init__(
        self, begin: Callable[[SessionPlace, str], Awaitable[R]], most: int, resumes: bool = False
    ) -> None:
        self._begin = begin
        self._most = most
        self._resumes = resumes
        self._homes: dict[SessionPlace, _Home[R]] = {}  # in the order of their last turns

    def at(self, place: SessionPlace) -> R | None:
        """Return the resident at a place, dead or alive."""
        home = self._homes.get(place)
        return home.who if home else None

    def lost(self, place: SessionPlace, session: str) -> str:
        """Return the reason that no process there remembers the session; empty if one does."""
        who = self.at(place)
        if who is None or who.session != session:
            return "no process that remembers its session runs here"
        return "" if who.alive else who.why

    async def recover(self, place: SessionPlace, session: str) -> str:
        """Resume a session at a place; return the error message, empty if it works."""
        try:
            async with self._turn(place) as home:
                await self._welcomed(home, place, session)
        except ModelError as error:
            return error.message
        return ""

    async def ask(self, place: SessionPlace, session: str, prompt: str) -> AsyncGenerator[StreamItem, None]:
        """The answer of who lives there and remembers the session; of a new one where there is no session.

        Raises `ModelError`: `process_exited` where the session is lost: the prompt then tells too little.
        """
        async with self._turn(place) as home:
            who = await self._welcomed(home, place, session)
            async with aclosing(who.ask(prompt)) as pieces:
                async for piece in pieces:
                    yield piece

    async def check(self, place: SessionPlace, health: Callable[[R], Awaitable[str]]) -> str:
        """Return the error of the resident's health check; empty if it is well, busy or missing."""
        home = self._homes.get(place)
        if home is None or home.who is None or home.busy:
            return ""
        async with home.turn():
            return await health(home.who)

    async def close(self) -> None:
        """Stop them all."""
        homes, self._homes = self._homes, {}
        await asyncio.gather(*(home.who.stop() for home in homes.values() if home.who))

    @asynccontextmanager
    async def _turn(self, place: SessionPlace) -> AsyncIterator[_Home[R]]:
        home = self._homes.pop(place, None) or _Home()
        self._homes[place] = home
        async with home.turn():
            yield home

    async def _welcomed(self, home: _Home[R], place: SessionPlace, session: str) -> R:
        who = home.who
        if who is not None and who.alive and (who.session == session if session else not who.told):
            return who
        why = self.lost(place, session) if session else ""
        if not why or self._resumes:
            if who is not None:
                home.who = None
                await who.stop()
            await self._make_room()
            home.who = who = await self._begin(place, session)
        if who is None or (why and who.session != session):
            raise ModelError("process_exited", why)
        return who

    async def _make_room(self) -> None:
        idle = [place for place, home in self._homes.items() if not home.busy]
        for place in idle[: max(0, len(self._homes) - self._most)]:
            if who := self._homes.pop(place).who:
                await who.stop()
