"""A Telegram bot: messages, failures, polling, and requests that hide the token.

A request's address holds the token, and libraries log addresses. They see a placeholder.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx
import telegram
from telegram.constants import ChatAction, ParseMode
from telegram.error import BadRequest, ChatMigrated, Forbidden, InvalidToken, TelegramError
from telegram.request import HTTPXRequest

from stenolog.chats import Backoff, Question, retry_forever
from stenolog.errors import CallerError

from .incoming import rendered

LOGGER = logging.getLogger("stenolog.chats")
TOKEN = re.compile(r"(\d{1,20}):[\w-]{3,200}", re.ASCII)
KINDS = ("message", "edited_message", "callback_query")
GONE = re.compile("thread|topic", re.IGNORECASE)
"""A part of Telegram's message if there is no such topic, or it is closed."""
MOST_BUTTONS, LONGEST_LABEL = 20, 60
HURRY = 5.0
"""Seconds for what is not worth waiting for."""


class Bot:
    """A bot of the Bot API; `open` it first.

    Raises `OSError` if it may work later, `PermissionError` if a chat refuses, `CallerError` for an invalid
    or refused token.
    """

    def __init__(self, token: str, server: str) -> None:
        self.id = _id_of(token)
        self.username = ""
        standin = f"{self.id}-token"
        request = Request(server, standin, token)
        self._api = telegram.Bot(
            standin, f"{server}/bot", f"{server}/file/bot", request=request, get_updates_request=request
        )

    def __repr__(self) -> str:
        return f"<Bot {self.id}>"

    async def open(self) -> None:
        """See who it is."""
        with _translated(), _token_check(self):
            await self._api.initialize()
            self.username = self._api.username

    async def close(self) -> None:
        """Give the connections back."""
        await self._api.shutdown()

    async def updates(self, offset: int | None, timeout: int) -> tuple[telegram.Update, ...]:
        """Return the updates from `offset` on, waiting up to `timeout` seconds.

        The call confirms all earlier updates.
        """
        with _translated(), _token_check(self):
            return await self._api.get_updates(offset, timeout=timeout, allowed_updates=KINDS)

    async def confirm(self, offset: int) -> None:
        """Confirm the updates before `offset`, if that can be done quickly."""
        with suppress(TelegramError, TimeoutError):
            async with asyncio.timeout(HURRY):
                await self._api.get_updates(offset, limit=1, timeout=0, allowed_updates=KINDS)

    async def say(self, chat: int, text: str, topic: int = 0, about: Question | None = None) -> int:
        """Send a text as Markdown, or as plain text if Telegram cannot read that.

        `topic` is a forum's; if it is gone, the general one is used. `about` is the question that buttons
        decide. Returns the message id; 0 if only a note could be shown.
        """
        thread, buttons = topic or None, _buttons(about) if about else None
        with _translated():
            try:
                sent = await self._api.send_message(
                    chat,
                    rendered(text),
                    ParseMode.MARKDOWN_V2,
                    message_thread_id=thread,
                    reply_markup=buttons,
                )
            except BadRequest as error:
                if topic and GONE.search(error.message):
                    return await self.say(chat, text, about=about)
                return await self._say_plainly(chat, text, thread, buttons)
        return sent.message_id

    async def _say_plainly(
        self, chat: int, text: str, thread: int | None, buttons: telegram.InlineKeyboardMarkup | None
    ) -> int:
        """Send the text without formatting.

        If refused, the chat refuses everything, or this text cannot be shown: then a note without buttons is
        sent.
        """
        try:
            sent = await self._api.send_message(chat, text, message_thread_id=thread, reply_markup=buttons)
        except BadRequest as error:
            LOGGER.warning("chat %s: Telegram does not take a text: %s", chat, error.message)
            note = f"(This cannot be shown here: {error.message})"
            await self._api.send_message(chat, note, message_thread_id=thread)
            return 0
        return sent.message_id

    async def pressed(self, press: str) -> None:
        """Confirm a button press to Telegram. Nothing depends on it."""
        with suppress(TelegramError, TimeoutError):
            async with asyncio.timeout(HURRY):
                await self._api.answer_callback_query(press)

    async def work(self, chat: int) -> None:
        """Show for some seconds that it is at work. Nothing depends on it."""
        with suppress(TelegramError, TimeoutError):
            async with asyncio.timeout(HURRY):
                await self._api.send_chat_action(chat, ChatAction.TYPING)

    async def show(self, chat: int, text: str, shown: int = 0, topic: int = 0) -> int:
        """Show progress in the message `shown`, or in a new silent one. Nothing depends on it.

        Returns the message id; 0 if nothing could be shown.
        """
        with suppress(TelegramError, TimeoutError):
            async with asyncio.timeout(HURRY):
                if shown:
                    await self._api.edit_message_text(text, chat, shown)
                    return shown
                message = await self._api.send_message(
                    chat, text, message_thread_id=topic or None, disable_notification=True
                )
                return message.message_id
        return 0

    async def fetch(self, file: str) -> bytes:
        """Return the content of a file that it was sent."""
        with _translated():
            found = await self._api.get_file(file)
            return bytes(await found.download_as_bytearray())


def _buttons(about: Question) -> telegram.InlineKeyboardMarkup:
    """Return the buttons below a question; `incoming.PRESSED` matches their data."""

    def button(label: str, data: str) -> telegram.InlineKeyboardButton:
        return telegram.InlineKeyboardButton(label, callback_data=data)

    refuse = button("Refuse", f"refuse {about.code}")
    if about.choices is None:
        return telegram.InlineKeyboardMarkup([[button("Approve", f"approve {about.code}"), refuse]])
    numbered = enumerate(about.choices[:MOST_BUTTONS], 1)
    choices = [[button(choice[:LONGEST_LABEL], f"answer {about.code} {nth}")] for nth, choice in numbered]
    return telegram.InlineKeyboardMarkup([*choices, [refuse]])


def _id_of(token: str) -> int:
    """Return the bot's id, with which its token begins. Raises `CallerError`, without the token."""
    found = TOKEN.fullmatch(token)
    if found is None:
        raise CallerError(f"token: expected one such as 123456:ABC-def, found {len(token)} other characters")
    return int(found[1])


@contextmanager
def _token_check(bot: Bot) -> Iterator[None]:
    """Translate a refused token into a `CallerError`; any other 404 or 401 is a network failure."""
    try:
        yield
    except InvalidToken:
        raise CallerError(f"Telegram refuses the token of bot {bot.id}") from None


@contextmanager
def _translated() -> Iterator[None]:
    """Raise the library's errors as those of the port."""
    try:
        yield
    except (Forbidden, BadRequest) as error:
        raise PermissionError(error.message) from None
    except ChatMigrated as error:
        raise PermissionError(f"the group has become chat {error.new_chat_id}: allow that") from None
    except TelegramError as error:
        raise ConnectionError(f"Telegram: {error.message}") from None


TOO_MANY = 429
FLOODED = 5.0
"""Seconds to wait if the server does not say how many."""
CONNECT, READ, WAIT = 10.0, 30.0, 60.0


class Request(HTTPXRequest):
    """Requests with a placeholder for the token. After too many, it waits as told."""

    def __init__(self, server: str, standin: str, token: str) -> None:
        super().__init__(
            read_timeout=READ,
            connect_timeout=CONNECT,
            pool_timeout=WAIT,
            httpx_kwargs={"transport": TokenTransport(server, standin, token)},
        )

    async def do_request(self, *args: Any, **kwargs: Any) -> tuple[int, bytes]:
        """Do as the library does, and retry while the server limits the rate."""
        while True:
            status, content = await super().do_request(*args, **kwargs)
            if status != TOO_MANY:
                return status, content
            await asyncio.sleep(_pause(content))


class TokenTransport(httpx.AsyncBaseTransport):
    """Transport that puts the token in place of its placeholder, in a private copy of the request."""

    def __init__(self, server: str, standin: str, token: str) -> None:
        self._inner = httpx.AsyncHTTPTransport(proxy=_proxy(server))
        self._standin, self._token = standin.encode(), token.encode()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.replace(self._standin, self._token, 1)
        sent = httpx.Request(
            request.method,
            request.url.copy_with(raw_path=path),
            headers=request.headers,
            stream=request.stream,
            extensions=request.extensions,
        )
        return await self._inner.handle_async_request(sent)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _proxy(server: str) -> str | None:
    scheme, host = urlsplit(server).scheme, urlsplit(server).hostname or ""
    found = getproxies()
    return None if proxy_bypass(host) else found.get(scheme) or found.get("all")


def _pause(content: bytes) -> float:
    try:
        return float(json.loads(content)["parameters"]["retry_after"])
    except (ValueError, KeyError, TypeError):
        return FLOODED


SOON = 0.5
"""Seconds after which it is asked again while something is not taken yet: no caller waits for a slow chat."""


async def poll(
    bot: Bot, take: Callable[[telegram.Update], asyncio.Task[None]], timeout: int, backoff: Backoff
) -> None:
    """Poll until cancelled; an update is confirmed by the next poll, or at the end.

    `take` starts to handle an update. Confirmed are those before the first unfinished one, as Telegram
    requires; it sends up to a hundred after that. Raises `CallerError` for a refused token.
    """
    offset, taking = 0, dict[int, asyncio.Task[None]]()

    async def ask() -> tuple[telegram.Update, ...]:
        return await bot.updates(offset or None, timeout)

    def failed(error: Exception) -> None:
        LOGGER.warning("%r: %s; it is asked again", bot, error)

    try:
        while True:
            for update in await retry_forever(ask, backoff, failed, final=()):
                if update.update_id not in taking:  # it is told of again until it is confirmed
                    taking[update.update_id] = take(update)
            if taking:
                await asyncio.wait(taking.values(), timeout=SOON)
            offset = _drop_acknowledged(taking, offset)
    finally:
        for task in taking.values():
            task.cancel()
        await asyncio.gather(*taking.values(), return_exceptions=True)
        if offset := _drop_acknowledged(taking, offset):
            await bot.confirm(offset)


def _drop_acknowledged(taking: dict[int, asyncio.Task[None]], offset: int) -> int:
    """Drop the first, finished ones; return the next id."""
    for id in sorted(taking):
        if not taking[id].done() or taking[id].cancelled():
            break
        offset = max(offset, id + 1)
        del taking[id]
    return offset
