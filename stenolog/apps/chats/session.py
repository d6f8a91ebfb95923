"""A chat's session: one conversation, the team that works in it, and its delivery."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import asynccontextmanager

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine.approvals import waiting, workers
from stenolog.adapters.engine.delegate import TASK_ID as TASK
from stenolog.adapters.engine.inputs import Message
from stenolog.adapters.engine.options import EntryAppended, StreamDelta
from stenolog.adapters.engine.team.start import OnInput
from stenolog.adapters.engine.team.team import Team
from stenolog.domain.entry import Entry
from stenolog.domain.errors import OperationalError
from stenolog.domain.events import LlmError, UserMessage
from stenolog.domain.lanes.state import address
from stenolog.domain.parts import TextPart
from stenolog.domain.settings import Settings
from stenolog.projections.views.acts import act_in_words

from .base import OutgoingMessage, Question, at_each_commit, retry_forever
from .commands import COMMANDS, Command, CommandContext, TypedCommand, call
from .delivery import Delivery
from .rendering import last_word

JUDGING = ("approve", "refuse", "answer")
LOGGER = logging.getLogger("stenolog.chats")


class ChatSession:
    """A chat session: messages are logged at once, the team works on them, and its answers are delivered.

        async with ChatSession(team, Delivery(log["ann"], "mail:ann", send)).open() as room:
            await room.hear("Which test fails?", id="mail-17")
            await room.rest()

    One run is under way at a time. While it is open, the team goes on with whatever the log says is to be
    done. `on_input` is `Team.send`'s. `commands` are those that it knows, by name. `on_act` is called with a
    lane and a line of words while a program does something by itself.
    """

    def __init__(
        self,
        team: Team,
        outlet: Delivery,
        *,
        on_input: OnInput = "next",
        commands: Mapping[str, Command] = COMMANDS,
        on_act: Callable[[str, str], object] | None = None,
    ) -> None:
        self.team = team
        self.conversation: Conversation = outlet.conversation
        self.outlet = outlet
        self.on_input = on_input
        self.commands = commands
        self.on_act = on_act
        self.working = asyncio.Event()
        """Set while a run is under way here."""
        self._workers: dict[str, Delivery] = {}
        """The ways out of the workers' conversations, by name: only their questions go there."""
        self._asked_by_workers: list[tuple[str, int]] = []
        """The calls that workers were asked about here, each with the position of the conversation then."""
        self._woken = asyncio.Event()
        self._resting = asyncio.Event()

    async def receive(
        self,
        message: Message,
        *,
        to: str | tuple[str, ...] = (),
        id: str = "",
        unseen: Collection[str] = (),
    ) -> list[Entry]:
        """Append a message, once if it has an `id`; durable on return.

        If a tool asks something here, a text is the answer; `unseen` are codes shown after it was written.
        Raises `InvalidEventError` if it does not fit, and as `Team.send`.
        """
        self._reopen()
        answered = await asyncio.to_thread(self._answer, message, to, id, unseen)
        if answered is not None:
            self.wake()
            return answered
        entries = await self.team.send(self.conversation, message, to=to, id=id, on_input=self.on_input)
        self.wake()
        return entries

    def _answer(
        self, message: Message, to: str | tuple[str, ...], id: str, unseen: Collection[str]
    ) -> list[Entry] | None:
        """Answer the question that a message is for; None if it is for none."""
        said = UserMessage(text=message) if isinstance(message, str) else message
        if not isinstance(said, UserMessage) or said.replaces:
            return None
        if not all(isinstance(part, TextPart) for part in said.parts):
            return None
        given = CommandContext(self.conversation, self.team, id=id, author=said.author)
        if given.is_done:
            first = self.conversation.entry_by_id(id)
            is_answer = first and isinstance(first.event, UserMessage) and first.event.control
            return [] if is_answer else None
        named = (to,) if isinstance(to, str) and to else (*to, *said.to)
        state = self.conversation.state()
        if not any(call.question for _, call in state.open_calls()):
            return None
        calls = [
            call
            for call in waiting(self.conversation)
            if call.question and call.conversation == self.conversation.name
            if not named or call.lane.partition("/")[0] in named or call.lane in named
        ]
        shown = {*self._codes_since(said.author)} - {*unseen}
        if len(calls) != 1 or calls[0].code not in shown:
            return None
        return given.answer(calls[0], said.text)

    async def run_command(
        self,
        command: TypedCommand,
        *,
        id: str = "",
        author: str = "",
        about: str = "",
        unseen: Collection[str] = (),
    ) -> str:
        """Run a command such as `/reset`; return the answer in Markdown.

        With an `id`, a change is made once. `about` is the code of the call that it answers; `unseen` are
        codes shown after the command was written.
        """
        self._reopen()
        shown = (
            {*await asyncio.to_thread(self._codes_since, author)} if command.name in JUDGING else set[str]()
        )
        given = CommandContext(
            self.conversation, self.team, command.rest, id, author, self.commands, about, shown - {*unseen}
        )
        reply = await call(command.name, given)
        if await asyncio.to_thread(lambda: self.conversation.position):  # it does not begin with a command
            self.wake()
        return reply

    def wake(self) -> None:
        """Look again whether something is to be done."""
        self._resting.clear()
        self._woken.set()

    async def drain(self) -> None:
        """Wait until only persons have something to do, and all messages are sent."""
        await self._resting.wait()
        await self.outlet.deliver()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[ChatSession, None]:
        """Work and deliver until the block ends; then shut down in order."""
        if await asyncio.to_thread(lambda: self.conversation.position):
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

    def _codes_since(self, author: str) -> list[str]:
        since = last_word(self.conversation, author)
        workers = [code for code, position in self._asked_by_workers if position >= since]
        return [*self.outlet.delivered_codes(since), *workers]

    async def _ask_for_workers(self) -> None:
        recorder, backoff = self.conversation.log.recorder, self.outlet.backoff
        await at_each_commit(recorder, self._deliver_for_workers, backoff, self._busy, asyncio.Event())

    async def _deliver_for_workers(self) -> None:
        for name, position in (await asyncio.to_thread(workers, self.conversation)).items():
            if name not in self._workers:
                self._workers[name] = await asyncio.to_thread(self._outlet_of, name, position)
            await self._workers[name].deliver()

    def _outlet_of(self, worker: str, position: int) -> Delivery:
        main, conversation = self.outlet, self.conversation.log[worker]

        def render(entry: Entry, settings: Settings) -> list[str | Question]:
            return [piece for piece in main.render(entry, settings) if isinstance(piece, Question)]

        async def send(piece: OutgoingMessage) -> None:
            await main.send(piece._replace(position=position))
            if piece.question and piece.question.is_last:
                self._asked_by_workers.append((piece.question.code, self.conversation.position))

        outlet = Delivery(conversation, main.name, send, render=render, first=TASK, backoff=main.backoff)
        self._asked_by_workers += [(code, self.conversation.position) for code in outlet.delivered_codes(0)]
        return outlet

    async def _work(self) -> None:
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
        """Run once. Retry a busy store; report an error that stops every run."""
        try:
            await retry_forever(
                self._run_once, self.outlet.backoff, self._busy, after=OperationalError, final=()
            )
        except Exception:
            LOGGER.exception("%s: the team cannot work", self.conversation.name)

    async def _run_once(self) -> None:
        async for happened in self.team.run(self.conversation):
            match happened:
                case StreamDelta(kind="act", text=raw, lane=lane) if self.on_act and (
                    line := act_in_words(raw)
                ):
                    self.on_act(lane, line)
                # People are told no details; the operator would look at a room that is silent.
                case EntryAppended(Entry(event=LlmError() as error, position=at)) if (
                    error.category != "cancelled" and error.retry_at is None
                ):
                    who, why = address(error.agent, error.task), f"{error.category}: {error.message}"
                    LOGGER.warning("%s at %d: %s has failed: %s", self.conversation.name, at, who, why)
                case _:
                    pass

    def _busy(self, error: Exception) -> None:
        LOGGER.warning("%s: %s; it is tried again", self.conversation.name, error)
