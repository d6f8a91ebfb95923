"""Long-lived agents: programs that run on between requests, one for each lane."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from stenolog.adapters.models.base import StreamItem
from stenolog.domain.errors import ModelError
from stenolog.projections.requests.transport import Outgoing, Transport

from .output_parser import OutputParser, Silence, read_answer
from .process import LINGER, Process


class SessionPlace(NamedTuple):
    """Conversation, and the address of a lane in it."""

    conversation: str
    lane: str


class AgentSession(ABC):
    """Agent that keeps running between requests.

    `session` names what it remembers; `told`: it has been sent something since its start.
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
        """Yield the answer, as `Model.stream` does."""

    @abstractmethod
    async def stop(self) -> None:
        """End it; once more does nothing."""


R = TypeVar("R", bound=AgentSession)
Framed: TypeAlias = tuple[bytes, Transport | None]
"""A request as it is written to a program, and what makes it of the prompt; None if unknown."""


class _Home(Generic[R]):
    def __init__(self) -> None:
        self.who: R | None = None
        self.busy = 0
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        self.busy += 1
        try:
            async with self._lock:
                yield
        finally:
            self.busy -= 1


class SessionPool(Generic[R]):
    """Pool of residents, at most one per place.

    Beyond `most`, the resident silent longest is stopped; its lane is sent everything again. `begin` starts a
    resident at a place, for a session (empty: a new one). `resumes`: a new resident may resume a session that
    no process here remembers.
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
        """Return why no process remembers the session; empty if one does."""
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
        """Yield the answer of the process that remembers the session; without one, of a new process.

        Raises `ModelError`, with `process_exited` if the session is lost: the prompt is only its end then.
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

    async def renew(self, health: Callable[[R], Awaitable[str]]) -> dict[SessionPlace, str]:
        """Check every idle resident, replace each dead or unwell one, and return why.

        The new one resumes the session if it can; else the lane's next request has everything.
        """
        reasons = dict[SessionPlace, str]()
        for place, home in [*self._homes.items()]:
            if home.who is None or home.busy:
                continue
            async with home.turn():
                who = home.who
                if why := who.why if not who.alive else await health(who) if who.told else "":
                    reasons[place], home.who = why, None
                    await who.stop()
                    home.who = await self._begin(place, who.session if self._resumes else "")
        return reasons

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


class Program(AgentSession):
    """Process that answers one request after the other.

    `parser` makes the parser of an answer, for a session; `frame` turns a prompt into bytes. If the caller
    stops iterating, the process is sent the signal `interrupt`; after `patience` seconds it is ended.
    `silence` is what its silence means.
    """

    def __init__(
        self,
        process: Process,
        session: str,
        parser: Callable[[str], OutputParser],
        frame: Callable[[str], Framed],
        interrupt: int,
        patience: float,
        silence: Silence | None = None,
    ) -> None:
        self.session = session
        self._silence = silence
        self._process = process
        self._parser = parser
        self._frame = frame
        self._interrupt = interrupt
        self._patience = patience
        self._spent = 0.0
        self._spoken = self._now()

    @property
    def alive(self) -> bool:
        return self._process.alive

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def why(self) -> str:
        return self._process.end

    @property
    def silent(self) -> float:
        """The seconds since the process was used."""
        return self._now() - self._spoken

    async def ask(self, prompt: str) -> AsyncGenerator[StreamItem, None]:
        self.told = True
        parser = self._parser(self.session)
        parser.turn.spent = self._spent
        self._process.resume_output()
        content, transport = self._frame(prompt)
        if transport is not None:
            yield Outgoing(content, transport)
        self._process.write(content)
        try:
            async with aclosing(read_answer(self._process, parser, self._silence)) as pieces:
                async for piece in pieces:
                    yield piece
            if not parser.turn.ended:
                await self._process.ends(LINGER)
                raise ModelError("process_exited", self.why)
        finally:
            if not parser.turn.ended:
                await self._hush(parser)
            self._process.discard_output()
            self._spoken = self._now()
            self.session, self._spent = parser.turn.session, parser.turn.spent
        yield parser.turn.answer

    async def stop(self) -> None:
        await self._process.stop(self._patience)

    async def _hush(self, parser: OutputParser) -> None:
        """Have it end its turn, or end it."""
        try:
            if self.alive:
                self._process.signal(self._interrupt)
                async with asyncio.timeout(self._patience):
                    async for _ in read_answer(self._process, parser):
                        pass
        except (TimeoutError, ModelError):
            pass
        except BaseException:
            self._process.kill()
            raise
        if not parser.turn.ended:
            await self._process.stop(self._patience, politely=False)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
