"""A room: one conversation with a team at work in it, and its way to the people outside."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import asynccontextmanager

from stenolog.adapters.conversation import Conversation
from stenolog.adapters.engine.beginning import OnInput
from stenolog.adapters.engine.delegate import TASK_ID as TASK
from stenolog.adapters.engine.happenings import Delta
from stenolog.adapters.engine.team import Message, Team
from stenolog.adapters.engine.waiting import workers
from stenolog.domain.entry import Entry
from stenolog.domain.errors import MachineError
from stenolog.domain.settings import Settings
from stenolog.projections.acts import act_in_words

from .approving import last_word
from .commands import COMMANDS, Command, Told, Typed, call
from .outlet import Outlet
from .port import Piece, Question, persistently

JUDGING = ("approve", "refuse")
LOGGER = logging.getLogger("stenolog.chats")


class Room:
    """What is said here is in the log at once; the team works on it, and what it answers goes out.

        async with Room(team, Outlet(log["ann"], "mail:ann", send)).open() as room:
            await room.hear("Which test fails?", id="mail-17")
            await room.rest()

    One run is under way at a time. While it is open, the team goes on with whatever the log says is to be
    done. `on_input` is `Team.say`'s. `commands` are those that it knows, by name. `on_act` is called with a
    lane and a line of words while a program does something by itself.
    """

    def __init__(
        self,
        team: Team,
        outlet: Outlet,
        *,
        on_input: OnInput = "next",
        commands: Mapping[str, Command] = COMMANDS,
        on_act: Callable[[str, str], object] | None = None,
    ) -> None:
        self.team = team
        self.talk: Conversation = outlet.talk
        self.outlet = outlet
        self.on_input = on_input
        self.commands = commands
        self.on_act = on_act
        self.working = asyncio.Event()
        """Set while a run is under way here."""
        self._workers: dict[str, Outlet] = {}
        """The ways out of the workers' conversations, by name: their questions alone go there."""
        self._asked_by_workers: list[tuple[str, int]] = []
        """The calls that workers were asked about here, each with the position of the conversation then."""
        self._woken = asyncio.Event()
        self._resting = asyncio.Event()

    async def hear(self, message: Message, *, to: str | tuple[str, ...] = (), id: str = "") -> list[Entry]:
        """Say something; it is durable when this returns, and said once where it has an `id`.

        Raises what `Team.say` does.
        """
        self._reopen()
        entries = await self.team.say(self.talk, message, to=to, id=id, on_input=self.on_input)
        self.wake()
        return entries

    async def tell(
        self,
        command: Typed,
        *,
        id: str = "",
        author: str = "",
        about: str = "",
        unseen: Collection[str] = (),
    ) -> str:
        """Do what a command such as `/reset` tells; what to say to that, in Markdown. With an `id`, what
        changes something is done once. `about` is the code of the call that it answers; `unseen` are those of
        calls that were shown after it was said."""
        self._reopen()
        shown = {*await asyncio.to_thread(self._shown, author)} if command.name in JUDGING else set[str]()
        told = Told(self.talk, self.team, command.rest, id, author, self.commands, about, shown - {*unseen})
        reply = await call(command.name, told)
        if await asyncio.to_thread(lambda: self.talk.position):  # it does not begin with a command
            self.wake()
        return reply

    def wake(self) -> None:
        """Look again whether something is to be done."""
        self._resting.clear()
        self._woken.set()

    async def rest(self) -> None:
        """Wait until nothing is to be done here but by a person, and all that was said has gone out."""
        await self._resting.wait()
        await self.outlet.deliver()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Room, None]:
        """Work and deliver, until the block ends; what is under way then is put down in good order."""
        if await asyncio.to_thread(lambda: self.talk.position):
            self.wake()
        works = self._work(), self.outlet.follow(), self._ask_for_workers()
        tasks = [asyncio.create_task(work) for work in works]
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _reopen(self) -> None:
        for outlet in (self.outlet, *self._workers.values()):
            outlet.reopen()

    def _shown(self, author: str) -> list[str]:
        """Return the codes of the calls that were shown here since an author last said something."""
        since = last_word(self.talk, author)
        workers = [code for code, position in self._asked_by_workers if position >= since]
        return [*self.outlet.asked(since), *workers]

    async def _ask_for_workers(self) -> None:
        """Deliver the questions of workers as they come up, until cancelled."""
        loop, woken = asyncio.get_running_loop(), asyncio.Event()
        with self.talk.log.datastore.bell.listening(lambda: loop.call_soon_threadsafe(woken.set)):
            while True:
                woken.clear()
                deliver = self._deliver_for_workers
                await persistently(deliver, self.outlet.backoff, self._busy, after=Exception, final=())
                await woken.wait()

    async def _deliver_for_workers(self) -> None:
        for name, position in (await asyncio.to_thread(workers, self.talk)).items():
            if name not in self._workers:
                self._workers[name] = await asyncio.to_thread(self._outlet_of, name, position)
            await self._workers[name].deliver()

    def _outlet_of(self, worker: str, position: int) -> Outlet:
        """Return the way out of a worker's conversation, which was called for at a position of this one."""
        main, talk = self.outlet, self.talk.log[worker]

        def render(entry: Entry, settings: Settings) -> list[str | Question]:
            return [piece for piece in main.render(entry, settings) if isinstance(piece, Question)]

        async def send(piece: Piece) -> None:
            await main.send(piece._replace(position=position))
            if piece.question and piece.question.is_last:
                self._asked_by_workers.append((piece.question.code, self.talk.position))

        outlet = Outlet(talk, main.name, send, render=render, first=TASK, backoff=main.backoff)
        self._asked_by_workers += [(code, self.talk.position) for code in outlet.asked(0)]
        return outlet

    async def _work(self) -> None:
        """Let the team work whenever there is something to do; until cancelled."""
        while True:
            if not self._woken.is_set():
                self._resting.set()
            await self._woken.wait()
            self._woken.clear()
            self.working.set()
            try:
                await self._run()
            finally:
                self.working.clear()

    async def _run(self) -> None:
        """One run. A store that is busy is asked again; what no run can get past is told to the operator."""
        try:
            await persistently(self._run_once, self.outlet.backoff, self._busy, after=MachineError, final=())
        except Exception:
            LOGGER.exception("%s: the team cannot work", self.talk.name)

    async def _run_once(self) -> None:
        async for happened in self.team.run(self.talk):
            match happened:
                case Delta(kind="act", text=raw, lane=lane) if self.on_act and (line := act_in_words(raw)):
                    self.on_act(lane, line)
                case _:
                    pass

    def _busy(self, error: Exception) -> None:
        LOGGER.warning("%s: %s; it is tried again", self.talk.name, error)
