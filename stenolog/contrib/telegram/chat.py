"""One chat of Telegram: the room of its conversation, and the bots that speak there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import NamedTuple

from stenolog import Conversation, chats
from stenolog.analysis import decision
from stenolog.engine import OnInput, Team
from stenolog.errors import StenologError

from .bot import Bot
from .incoming import IncomingMessage, topic_of, weigh

LOGGER = logging.getLogger("stenolog.chats")
HEADING = "**{name}**\n"
LIMIT = 4096
"""The limit of a message in UTF-16 code units."""
RESERVED = 300
"""Room for a heading, where another bot has to speak for an agent's own."""
TORN = "(A part of this call cannot be shown here, so it cannot be approved here.)"
SHOWN = 4.5
"""Seconds after which to show again that an agent is at work: Telegram shows it for five."""
WORK = ("call_model", "run_tools")
TRIES = 5
"""So often a reply to a command is tried; it is not in the log."""
SELDOM = 60.0
"""Seconds between two replies to what is of no kind that is taken."""


class BotSet(NamedTuple):
    """The bots: the first one, and that of each agent that has one of its own."""

    first: Bot
    own: Mapping[str, Bot]

    @property
    def all(self) -> tuple[Bot, ...]:
        """Each of them once, the first one first."""
        return (self.first, *(bot for bot in self.own.values() if bot is not self.first))

    def of(self, lane: str) -> Bot | None:
        """Return the one that is the agent's own."""
        return self.own.get(lane.partition("/")[0])


class ChatOptions(NamedTuple):
    """The options of the chats: see `Telegram`."""

    names: Mapping[str, str]
    on_input: OnInput
    backoff: chats.Backoff
    commands: Mapping[str, chats.Command]
    cuts: bool = False


class Chat:
    """A chat and its room; one bot speaks for all, or each agent has its own."""

    def __init__(
        self, id: int, conversation: Conversation, team: Team, bots: BotSet, manner: ChatOptions
    ) -> None:
        self.id = id
        self.bots = bots
        self.manner = manner
        self._mute: set[int] = set()
        self._replies: set[asyncio.Task[None]] = set()
        self._replying = asyncio.Lock()
        self._refused: float | None = None
        self._asked: dict[str, tuple[int, int]] = {}
        """The questions sent since the chat was opened: bot and message, by the code of the call."""
        self._torn: set[str] = set()
        """The codes of the calls of which a part could not be shown."""
        heading = HEADING if not bots.own and len(team.agents) > 1 else ""
        limit = LIMIT - RESERVED if bots.own else LIMIT
        outlet = chats.Delivery(
            conversation,
            f"telegram:{id}",
            self._send,
            render=chats.render_entry(
                manner.names, heading=heading, limit=limit, weigh=weigh, cuts=manner.cuts
            ),
            first="telegram:",
            backoff=manner.backoff,
        )
        self._act, self._shown = "", ("", 0)
        self.room = chats.ChatSession(
            team, outlet, on_input=manner.on_input, commands=manner.commands, on_act=self._acts
        )

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Chat, None]:
        """Work, deliver, and show that an agent is at work, until the block ends."""
        async with self.room.open():
            showing = asyncio.create_task(self._show_work())
            try:
                yield self
            finally:
                for task in (showing, *self._replies):
                    task.cancel()
                await asyncio.gather(showing, *self._replies, return_exceptions=True)

    async def tell(self, bot: Bot, command: chats.TypedCommand, said: IncomingMessage, id: str) -> str:
        """Run a command, and return the answer. It is about no question that came after it."""
        if said.press:
            await bot.pressed(said.press)
        return await self.room.run_command(
            command, id=id, author=said.author, about=said.about, unseen=self.unseen(bot, said)
        )

    def unseen(self, bot: Bot, said: IncomingMessage) -> set[str]:
        """Return the codes of questions that came after a message, or that were not shown whole."""
        later = (code for code, place in self._asked.items() if not _is_before(place, bot, said))
        return {*later, *self._torn}

    def reply(self, bot: Bot, text: str, topic: int = 0) -> None:
        """Send a text that is not in the log, without waiting; it is dropped after a few failures."""
        task = asyncio.create_task(self._reply(bot, text, topic))
        self._replies.add(task)
        task.add_done_callback(self._replies.discard)

    def refuse(self, bot: Bot, text: str, topic: int = 0) -> None:
        """Reply to frequent mistakes, but only now and then."""
        now = asyncio.get_running_loop().time()
        if self._refused is None or now - self._refused >= SELDOM:
            self._refused = now
            self.reply(bot, text, topic)

    def unmute(self) -> None:
        """Let muted bots try again, since a user writes here."""
        self._mute.clear()

    async def drain(self) -> None:
        """Wait until only persons have anything to do here, and all messages are sent."""
        await asyncio.gather(self.room.drain(), *self._replies)

    async def _reply(self, bot: Bot, text: str, topic: int) -> None:
        async with self._replying:  # one behind the other
            try:
                for part in chats.split(text, LIMIT, weigh):
                    saying = partial(bot.say, self.id, part, topic)
                    await chats.retry_forever(saying, self.manner.backoff, self._unsaid, tries=TRIES)
            except OSError as error:
                LOGGER.warning("chat %s: a reply was not sent: %s", self.id, error)

    def _unsaid(self, error: Exception) -> None:
        LOGGER.info("chat %s: %s; it is tried again", self.id, error)

    async def _send(self, piece: chats.OutgoingMessage) -> None:
        own, topic = self.bots.of(piece.speaker), 0
        if self.id < 0:  # a group, which may be a forum
            topic = await asyncio.to_thread(topic_of, self.room.conversation, piece.position)
        if own is not None and await self._said_by(own, piece, topic):
            return
        heading = ""
        if self.bots.own and piece.nth == 1:
            heading = HEADING.replace("{name}", chats.display_name(piece.speaker, self.manner.names))
        await self._say(self.bots.first, piece._replace(text=heading + piece.text), topic)

    async def _say(self, bot: Bot, piece: chats.OutgoingMessage, topic: int) -> None:
        """Say a piece. A call of which a part cannot be shown is not asked about here."""
        question = piece.question
        if question is None:
            await bot.say(self.id, piece.text, topic)
            return
        if question.is_last and question.code in self._torn:
            await bot.say(self.id, TORN, topic)
            return
        message = await bot.say(self.id, piece.text, topic, question if question.is_last else None)
        if not message:
            self._torn.add(question.code)
        elif question.is_last:
            self._asked[question.code] = bot.id, message

    async def _said_by(self, own: Bot, piece: chats.OutgoingMessage, topic: int) -> bool:
        """Send with the agent's own bot, else the first one; return whether that worked."""
        if own.id in self._mute:
            return False
        try:
            await self._say(own, piece, topic)
        except PermissionError as error:
            if own is self.bots.first:
                raise
            self._mute.add(own.id)
            LOGGER.warning("chat %s: %r may not speak there: %s", self.id, own, error)
            return False
        return True

    async def _show_work(self) -> None:
        while True:
            if not self.room.working.is_set():
                self._act, self._shown = "", ("", 0)  # the next run begins another message
            await self.room.working.wait()
            with suppress(StenologError):
                if busy := await asyncio.to_thread(self._busy):
                    await (self.bots.of(busy) or self.bots.first).work(self.id)
            await self._show_act()
            await asyncio.sleep(SHOWN)

    def _acts(self, lane: str, line: str) -> None:
        self._act = f"⚙ {chats.display_name(lane, self.manner.names)}: {line}"

    async def _show_act(self) -> None:
        text, message = self._shown
        if self._act == text:
            return
        topic = await asyncio.to_thread(
            lambda: topic_of(self.room.conversation, self.room.conversation.position)
        )
        act = self._act
        self._shown = act, await self.bots.first.show(self.id, act, message, topic if self.id < 0 else 0)

    def _busy(self) -> str:
        state = self.room.conversation.state()
        lanes = (lane for lane in state.lanes.values() if decision(state, lane).do in WORK)
        return next((lane.agent for lane in lanes), "")


def _is_before(place: tuple[int, int], bot: Bot, said: IncomingMessage) -> bool:
    """Return whether our message came before the incoming one.

    Ids rise in a large group, else for each bot.
    """
    sender, message = place
    return message < said.message and (sender == bot.id or not (said.is_private or said.is_basic))
