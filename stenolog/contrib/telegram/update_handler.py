"""Telegram updates: authors and sizes checked, commands run, messages appended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import telegram

from stenolog import Conversation, chats
from stenolog.errors import (
    CallerError,
    ConversationNotFoundError,
    DuplicateIdError,
    InvalidEventError,
    OperationalError,
)
from stenolog.events import Entry, UserMessage

from .bot import Bot
from .chat import BotSet, Chat
from .incoming import SYSTEM, IncomingMessage, answered, parse_update, unmarked

LOGGER = logging.getLogger("stenolog.chats")
REMEMBERED = 1000
"""So many messages are known again when another bot gets them too."""
FETCHES = 4
"""So often a file is asked for."""


STRANGE = "I can take text, pictures and documents only."


class Bounds(NamedTuple):
    """Limits of a message: characters, and bytes of its attachment."""

    characters: int
    bytes: int

    def fault(self, said: IncomingMessage) -> str:
        """Return the reason, for its author, to refuse a message; empty if accepted."""
        if len(said.text) > self.characters:
            return f"That is too long: {len(said.text)} characters, and I can take {self.characters}."
        if said.media and said.media.size > self.bytes:
            return f"That is too large: {said.media.size:,} bytes, and I can take {self.bytes:,}."
        return ""


class UpdateHandler:
    """Handler of the bots' updates.

    `enter` returns an open chat by id, None if not allowed. `leave` closes it, so that it is opened again.
    """

    def __init__(
        self,
        bots: BotSet,
        agents: Sequence[str],
        names: Mapping[str, str],
        enter: Callable[[int], Awaitable[Chat | None]],
        leave: Callable[[int], Awaitable[None]],
        bounds: Bounds,
        backoff: chats.Backoff,
    ) -> None:
        self.bots = bots
        self.enter = enter
        self.leave = leave
        self.bounds = bounds
        self.backoff = backoff
        self._called = chats.agents_by_name(agents)
        self._called |= {bot.username.casefold(): agent for agent, bot in bots.own.items()}
        self._headed = {unmarked(chats.display_name(agent, names)): agent for agent in agents}
        self._speaks = {bots.first.id: ""} | {bot.id: agent for agent, bot in bots.own.items()}
        self._ours = ("", *(bot.username.casefold() for bot in bots.all))
        self._known: dict[str, None] = {}
        self._last: dict[int, asyncio.Task[None]] = {}
        """The last task of each chat; the next one waits for it."""

    def take(self, bot: Bot, update: telegram.Update) -> asyncio.Task[None]:
        """Start to handle a bot's update, after the chat's earlier ones.

        Once the task is done, the message is in the log, if it belongs there.
        """
        said = parse_update(update)
        if said is None or not self._is_news(bot, said):
            return asyncio.create_task(asyncio.sleep(0))
        task = asyncio.create_task(self._in_turn(self._last.get(said.chat), bot, said))
        self._last[said.chat] = task
        task.add_done_callback(partial(self._forget, said.chat))
        return task

    def _forget(self, chat: int, task: asyncio.Task[None]) -> None:
        if self._last.get(chat) is task:
            del self._last[chat]

    async def _in_turn(self, before: asyncio.Task[None] | None, bot: Bot, said: IncomingMessage) -> None:
        if before:
            await asyncio.wait([before])
        await self._persistently(bot, said)

    def _is_news(self, bot: Bot, said: IncomingMessage) -> bool:
        """Return whether this bot is the first to get the message.

        In a basic group each bot has its own message ids, so only the first bot listens.
        """
        if said.is_basic and bot is not self.bots.first and not said.press:
            return False
        id = self._id(bot, said)
        is_news = id not in self._known
        self._known[id] = None
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]
        return is_news

    def _id(self, bot: Bot, said: IncomingMessage) -> str:
        return said.id(bot.id if said.is_private else self.bots.first.id)

    async def _persistently(self, bot: Bot, said: IncomingMessage) -> None:
        """Take a message, as long as the store may need for that."""
        taking = partial(self._take_anew, bot, said)

        def busy(error: Exception) -> None:
            LOGGER.warning("chat %s: %s; it is tried again", said.chat, error)

        try:
            await chats.retry_forever(taking, self.backoff, busy, after=OperationalError)
        except Exception:  # one message that cannot be taken must not come again and again
            LOGGER.exception("chat %s: a message was not taken", said.chat)

    async def _take_anew(self, bot: Bot, said: IncomingMessage) -> None:
        try:
            await self._take(bot, said)
        except ConversationNotFoundError:  # somebody has deleted it: it begins anew
            await self.leave(said.chat)
            await self._take(bot, said)

    async def _take(self, bot: Bot, said: IncomingMessage) -> None:
        chat = await self.enter(said.chat)
        if chat is None:
            LOGGER.info("chat %s is not allowed: it gets no answer", said.chat)
            return
        chat.unmute()
        if said.moved:
            LOGGER.warning("chat %s has become chat %s: allow that", said.chat, said.moved)
        elif said.strange:
            if not said.edited:
                chat.refuse(bot, STRANGE, said.topic)
        elif fault := self.bounds.fault(said):
            chat.reply(bot, fault, said.topic)
        elif (command := chats.typed_command(said.text)) and not said.media:
            if not said.edited and command.to.casefold() in self._ours:
                reply = await chat.tell(bot, command, self._answering(said), self._id(bot, said))
                chat.reply(bot, reply, said.topic)
        else:
            await self._record(chat, bot, said)

    def _answering(self, said: IncomingMessage) -> IncomingMessage:
        """Return a command without the call it replies to, if another bot asks about that."""
        author = said.answers.from_user if said.answers else None
        is_ours = bool(said.press) or (author is not None and author.id in self._speaks)
        return said if is_ours else said._replace(about="")

    async def _record(self, chat: Chat, bot: Bot, said: IncomingMessage) -> None:
        """Append it to the chat's conversation, unless delivered before."""
        try:
            blob = await self._fetched(chat.room, bot, said)
            event: UserMessage | None = said.event(blob, self._addressees(bot, said))
            if event and said.edited:
                first = self._id(bot, said._replace(edited=0))
                event = await asyncio.to_thread(_edited, chat.room.conversation, said, event, first)
            if event:
                unseen = chat.unseen(bot, said)
                await chat.room.receive(event, id=self._id(bot, said), unseen=unseen)
        except ConversationNotFoundError:
            raise
        except DuplicateIdError as error:  # told before, when its author had another name
            LOGGER.info("chat %s: %s", said.chat, error)
        except (CallerError, OSError) as error:
            if isinstance(error, OperationalError):
                raise
            LOGGER.warning("chat %s: a message was not taken: %s", said.chat, error)
            chat.reply(bot, f"I could not take that: {error}", said.topic)

    def _addressees(self, bot: Bot, said: IncomingMessage) -> tuple[str, ...]:
        """Return the addressed agents.

        Those named, else the author of the message it answers, else in a private chat the bot's agent.
        """
        if named := chats.mentioned(said.text, self._called):
            return named
        agent = answered(said.answers, self._speaks, self._headed) if said.answers else ""
        agent = agent or (self._speaks.get(bot.id, "") if said.is_private else "")
        return (agent,) if agent else ()

    async def _fetched(self, room: chats.ChatSession, bot: Bot, said: IncomingMessage) -> str:
        """Return its logged attachment's sha256; empty if none."""
        if said.media is None:
            return ""
        content = await self._content(bot, said.media.file)
        if len(content) > self.bounds.bytes:
            raise InvalidEventError(f"it has {len(content):,} bytes, and I can take {self.bounds.bytes:,}")
        return await asyncio.to_thread(room.conversation.log.blobs.put, content)

    async def _content(self, bot: Bot, file: str) -> bytes:
        """Return a file's content. Raises `OSError` if all tries fail."""

        def failed(error: Exception) -> None:
            LOGGER.info("%r: %s; it is tried again", bot, error)

        return await chats.retry_forever(partial(bot.fetch, file), self.backoff, failed, tries=FETCHES)


def _edited(
    conversation: Conversation, said: IncomingMessage, event: UserMessage, first: str
) -> UserMessage | None:
    """Return an edit of the previous wording; None if unchanged.

    `first` is the first wording's id; an edit of an unlogged message is a new one.
    """
    original = conversation.entry_by_id(first)
    if original is None:
        return event
    wordings = (entry for entry in conversation.entries(original.position) if _is_wording(entry, said))
    last = max(wordings, key=lambda entry: entry.position, default=original)
    same = isinstance(last.event, UserMessage) and last.event.parts == event.parts
    return None if same else replace(event, replaces=last.position)


def _is_wording(entry: Entry, said: IncomingMessage) -> bool:
    source = entry.event.source if isinstance(entry.event, UserMessage) else None
    return source is not None and (source.system, source.id) == (SYSTEM, said.position)
