"""Asking a bot what it was told, again and again; what was told is confirmed once it is taken."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import telegram

from stenolog.chats import Backoff, retry_forever

from .bot import Bot

LOGGER = logging.getLogger("stenolog.chats")
SOON = 0.5
"""Seconds after which it is asked again while something is not taken yet: nobody waits for a slow chat."""


async def poll(
    bot: Bot, take: Callable[[telegram.Update], asyncio.Task[None]], timeout: int, backoff: Backoff
) -> None:
    """Until cancelled: what was told is taken, and confirmed by the next question, or at the end.

    `take` begins to take an update. Confirmed are those before the first that is not taken yet, since
    Telegram knows no other way; it tells of a hundred behind that one. Raises `CallerError` where the token
    is refused.
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
    """Drop those at the beginning that are taken; the id behind them."""
    for id in sorted(taking):
        if not taking[id].done() or taking[id].cancelled():
            break
        offset = max(offset, id + 1)
        del taking[id]
    return offset
