"""Telegram: chats whose messages a team of agents answers.

team = Team([Agent("coder", llm=OpenAIChat("gpt-5.2"))])
async with Telegram(team, log, token=os.environ["BOT_TOKEN"], chats=[123]) as telegram:
    await telegram.serve()
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from stenolog import AsyncLog, Log
from stenolog.chats import COMMANDS, NO_NAMES, Backoff, Command, backoff, retry_forever
from stenolog.engine import OnInput, Team
from stenolog.errors import CallerError, MissingExtraError, OperationalError

if TYPE_CHECKING:
    from .bot import Bot
    from .chat import BotSet, Chat
    from .update_handler import UpdateHandler

LOGGER = logging.getLogger("stenolog.chats")
SERVER = "https://api.telegram.org"
POLL = 30
"""Seconds that Telegram holds a question for news."""


def conversation_of(chat: int) -> str:
    """Return the name of a chat's conversation, unless it was set."""
    return f"telegram-{chat}"


class Telegram:
    """Telegram bots for a team that answers in allowed chats.

    One bot for all by `token`, or one per agent by `tokens`. `chats` are allowed ids; others get no answer
    and leave no trace. Each has a conversation, named by `conversation`. `names` are display names by agent.
    `longest` limits a message's characters, `largest` the bytes of a picture or document. `cuts`: answers end
    with the positions that their agent was not shown. `base_url` is a server of your own.

    Raises `CallerError` for an invalid token or agent, and `MissingExtraError`.
    """

    def __init__(
        self,
        team: Team,
        log: Log | AsyncLog,
        *,
        token: str = "",
        tokens: Mapping[str, str] | None = None,
        chats: Iterable[int] = (),
        base_url: str | None = None,
        conversation: Callable[[int], str] = conversation_of,
        names: Mapping[str, str] = NO_NAMES,
        on_input: OnInput = "next",
        longest: int = 4096,
        largest: int = 5_000_000,
        poll: int = POLL,
        backoff: Backoff = backoff,
        commands: Mapping[str, Command] = COMMANDS,
        cuts: bool = False,
    ) -> None:
        try:
            from .chat import ChatOptions
            from .update_handler import Bounds
        except ImportError:
            raise MissingExtraError("telegram", "python-telegram-bot") from None
        if bool(token) == bool(tokens):
            raise CallerError("expected token=, or tokens= of several agents, and not both")
        if strangers := (tokens or {}).keys() - team.agents.keys():
            raise CallerError(f"tokens: expected agents of the team, found {', '.join(sorted(strangers))}")
        self.chats = frozenset(chats)
        if wrong := [chat for chat in self.chats if not isinstance(chat, int)]:
            raise CallerError(f"chats: expected ids such as 123 or -1001234, found {wrong[0]!r}")
        self.team = team
        self.log = log.sync if isinstance(log, AsyncLog) else log
        self._conversation = conversation
        self._manner = ChatOptions(names, on_input, backoff, commands, cuts)
        self._bounds = Bounds(longest, largest)
        self._poll = poll
        self._bots = _bots(token, tokens or {}, (base_url or SERVER).rstrip("/"))
        self._ready = asyncio.Event()
        self._stopped = asyncio.Event()
        self._opened = AsyncExitStack()
        self._rooms = AsyncExitStack()
        self._is_open = False
        self._open: dict[int, Chat] = {}
        self._exits: dict[int, AsyncExitStack] = {}
        self._entering = asyncio.Lock()

    def __repr__(self) -> str:
        ids = ", ".join(str(bot.id) for bot in self._bots.all)
        return f"<Telegram bot {ids} in {len(self.chats)} chats>"

    async def __aenter__(self) -> Telegram:
        """Look up the bots. Raises `CallerError` for a refused token."""
        try:
            for bot in self._bots.all:
                self._opened.push_async_callback(bot.close)
                await _persistently(bot, self._manner.backoff)
        except BaseException:
            await self._opened.aclose()
            raise
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        await self._opened.aclose()

    def stop(self) -> None:
        """Have `serve` end in good order."""
        self._stopped.set()

    async def drain(self) -> None:
        """Wait until only persons have something to do, and all messages are sent.

        Requires the service to be running.
        """
        await self._ready.wait()
        await asyncio.gather(*(chat.drain() for chat in self._open.values()))

    async def serve(self) -> None:
        """Receive, work and answer until stopped, cancelled, or SIGTERM.

        Then work in progress is shut down in order, and the next start continues it. Raises `CallerError` for
        a token refused meanwhile.
        """
        if not self._is_open:
            async with self:
                return await self._serve()
        return await self._serve()

    async def _serve(self) -> None:
        from .update_handler import UpdateHandler

        bots, manner = self._bots, self._manner
        agents = tuple(self.team.agents)
        doors = self._enter, self._leave
        reception = UpdateHandler(bots, agents, manner.names, *doors, self._bounds, manner.backoff)
        async with self._rooms:
            try:
                for chat in sorted(self.chats):
                    await self._enter_again(chat)
                self._ready.set()
                with _terminated(self.stop):
                    await self._listen(reception)
            finally:
                self._open.clear()
                self._exits.clear()
                self._ready.clear()
                self._stopped.clear()

    async def _listen(self, reception: UpdateHandler) -> None:
        """Poll all bots' updates until stopped, or until one cannot be polled."""
        from .bot import poll

        backoff = self._manner.backoff
        asking = [
            asyncio.create_task(poll(bot, partial(reception.take, bot), self._poll, backoff))
            for bot in self._bots.all
        ]
        asking.append(asyncio.create_task(self._until_stopped()))
        try:
            done, _ = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    async def _until_stopped(self) -> None:
        await self._stopped.wait()

    async def _enter(self, id: int) -> Chat | None:
        from .chat import Chat

        if id not in self.chats:
            return None
        async with self._entering:
            if id not in self._open:
                conversation = await asyncio.to_thread(self.log.__getitem__, self._conversation(id))
                chat, leaving = Chat(id, conversation, self.team, self._bots, self._manner), AsyncExitStack()
                await leaving.enter_async_context(chat.open())
                self._rooms.push_async_callback(leaving.aclose)
                self._exits[id], self._open[id] = leaving, chat
            return self._open[id]

    async def _leave(self, id: int) -> None:
        async with self._entering:
            if self._open.pop(id, None):
                await self._exits.pop(id).aclose()

    async def _enter_again(self, id: int) -> None:
        """Reopen an earlier chat. One that fails does not affect others."""

        async def enter() -> None:
            if await asyncio.to_thread(self.log.__contains__, self._conversation(id)):
                await self._enter(id)

        def busy(error: Exception) -> None:
            LOGGER.warning("chat %s: %s; it is tried again", id, error)

        try:
            await retry_forever(enter, self._manner.backoff, busy, after=OperationalError)
        except Exception:
            LOGGER.exception("chat %s: it cannot be opened", id)


def _bots(token: str, tokens: Mapping[str, str], server: str) -> BotSet:
    """Return the bots, unopened. Raises `CallerError` for an invalid token."""
    from .bot import Bot
    from .chat import BotSet

    if token:
        return BotSet(Bot(token, server), {})
    own = {agent: Bot(one, server) for agent, one in tokens.items()}
    if len({bot.id for bot in own.values()}) < len(own):
        raise CallerError(f"tokens: expected a bot for each of {', '.join(own)}, found one twice")
    return BotSet(next(iter(own.values())), own)


async def _persistently(bot: Bot, backoff: Backoff) -> None:
    """Open a bot, however long the net may need for that."""
    await retry_forever(
        bot.open, backoff, lambda error: LOGGER.warning("%r: %s; it is tried again", bot, error), final=()
    )


@contextmanager
def _terminated(stop: Callable[[], None]) -> Iterator[None]:
    """Stop the service on SIGTERM; has no effect outside the main thread or Unix."""
    loop, is_set = asyncio.get_running_loop(), False
    with suppress(NotImplementedError, RuntimeError, ValueError):
        loop.add_signal_handler(signal.SIGTERM, stop)
        is_set = True
    try:
        yield
    finally:
        if is_set:
            loop.remove_signal_handler(signal.SIGTERM)


def channel(
    team: Team,
    log: Log,
    *,
    chats: Iterable[int],
    token_env: str = "TELEGRAM_BOT_TOKEN",
    tokens: Mapping[str, str] | None = None,
    conversation: str | Mapping[str, str] = "telegram-{}",
    base_url: str | None = None,
    names: Mapping[str, str] = NO_NAMES,
    cuts: bool = False,
) -> Telegram:
    """Return the chat channel `telegram`.

    `token_env` names the variable with the bot's token, or `tokens` one per agent. `conversation` is the name
    of a chat's conversation, with `{}` for its id, or names by id. Raises `CallerError` for an unset
    variable, and as `Telegram`.
    """
    known = {agent: _token_in(variable) for agent, variable in (tokens or {}).items()}
    return Telegram(
        team,
        log,
        token="" if known else _token_in(token_env),
        tokens=known,
        chats=chats,
        base_url=base_url,
        conversation=_naming(conversation),
        names=names,
        cuts=cuts,
    )


def _token_in(variable: str) -> str:
    """Return a bot's token. Raises `CallerError` without quoting what may be a token."""
    if not (token := os.environ.get(variable)):
        shown = variable if variable.isidentifier() else "that is named (not a token itself)"
        raise CallerError(f"expected the bot's token in the environment variable {shown}, found none")
    return token


def _naming(conversation: str | Mapping[str, str]) -> Callable[[int], str]:
    if isinstance(conversation, str):
        if "{}" not in conversation:
            raise CallerError(f"conversation: expected {{}} for its id, found {conversation!r}")
        return lambda chat: conversation.replace("{}", str(chat))
    return lambda chat: conversation.get(str(chat), conversation_of(chat))
