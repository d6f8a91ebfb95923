"""The end of a conversation as server-sent events, while it grows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from stenolog.adapters.answers.positions import is_number
from stenolog.adapters.log import Conversation

from .query import Query

WAIT = 15.0
"""The seconds after which a quiet stream sends a comment."""


def stream(query: Query) -> Response:
    """Answer with the position of the last entry, each time that the conversation has grown.

    A browser that comes back says by `Last-Event-ID` what it has seen; at first `after` does.
    """
    last = query.header("last-event-id")
    after = int(last) if is_number(last) else query.number("after", query.head)
    return StreamingResponse(_heads(query.conversation, after), media_type="text/event-stream")


async def _heads(talk: Conversation, after: int) -> AsyncIterator[bytes]:
    """Yield the head as an event each time that the conversation has grown, until the log is closed.

    A quiet stream occupies no thread: however many are open, pages are answered.
    """
    loop, grown = asyncio.get_running_loop(), asyncio.Event()
    recorder = talk.log.recorder
    with recorder.listening(lambda: loop.call_soon_threadsafe(grown.set)):
        while not recorder.closed:
            # Before reading: an entry that comes after the read sets it again.
            grown.clear()
            head = await run_in_threadpool(lambda: talk.position)
            if head > after:
                after = head
                yield b"id: %d\nevent: head\ndata: %d\n\n" % (after, after)
            else:
                yield b": quiet\n\n"
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT):
                    await grown.wait()
