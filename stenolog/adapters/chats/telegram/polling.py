"""Asking a bot what it was told, again and again; what was told is confirmed once it is taken."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import telegram

from stenolog.adapters.chats.port import Backoff

from .bot import Bot

LOGGER = logging.getLogger("stenolog.chats")


async def poll(
    bot: Bot, take: Callable[[Sequence[telegram.Update]], Awaitable[None]], timeout: int, backoff: Backoff
) -> None:
    """Until cancelled: what was told is taken, and confirmed by the next question, or at the end.

    Raises `CallerError` where the token is refused, and what `take` raises.
    """
    offset, failures = 0, 0
    try:
        while True:
            try:
                updates = await bot.updates(offset or None, timeout)
                failures = 0
            except OSError as error:
                failures += 1
                LOGGER.warning("%r: %s; it is asked again", bot, error)
                await asyncio.sleep(backoff(failures))
                continue
            await take(updates)
            offset = max([offset, *(update.update_id + 1 for update in updates)])
    finally:
        if offset:
            await bot.confirm(offset)
