"""A program that runs on between two requests, and remembers what it was told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from stenolog.adapters.llms.base import StreamItem
from stenolog.domain.errors import ModelError

from .answers import read_answer
from .output_parser import OutputParser
from .process import LINGER, Process
from .session_pool import AgentSession


class Program(AgentSession):
    """A process that answers one request after the other.

    `ear` makes what hears an answer, for a session; `frame` puts a request into bytes. Whoever stops
    listening sends it the signal `interrupt`; it has `patience` seconds to end its turn, or is ended.
    """

    def __init__(
        self,
        process: Process,
        session: str,
        ear: Callable[[str], OutputParser],
        frame: Callable[[str], bytes],
        interrupt: int,
        patience: float,
    ) -> None:
        self.session = session
        self._process = process
        self._ear = ear
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
        """For how many seconds nobody has spoken with it."""
        return self._now() - self._spoken

    async def ask(self, prompt: str) -> AsyncGenerator[StreamItem, None]:
        self.told = True
        ear = self._ear(self.session)
        ear.turn.spent = self._spent
        self._process.resume_output()
        self._process.write(self._frame(prompt))
        try:
            async with aclosing(read_answer(self._process, ear)) as pieces:
                async for piece in pieces:
                    yield piece
            if not ear.turn.ended:
                await self._process.ends(LINGER)
                raise ModelError("process_exited", self.why)
        finally:
            if not ear.turn.ended:
                await self._hush(ear)
            self._process.discard_output()
            self._spoken = self._now()
            self.session, self._spent = ear.turn.session, ear.turn.spent
        yield ear.turn.answer

    async def stop(self) -> None:
        await self._process.stop(self._patience)

    async def _hush(self, ear: OutputParser) -> None:
        """Have it end its turn, or end it."""
        try:
            if self.alive:
                self._process.signal(self._interrupt)
                async with asyncio.timeout(self._patience):
                    async for _ in read_answer(self._process, ear):
                        pass
        except (TimeoutError, ModelError):
            pass
        except BaseException:
            self._process.kill()
            raise
        if not ear.turn.ended:
            await self._process.stop(self._patience, politely=False)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
