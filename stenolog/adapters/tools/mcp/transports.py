"""Ways to a server: a subprocess and its pipes, or HTTP."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp import StdioServerParameters

LAST_WORDS = 2_000
"""Bytes of what a subprocess wrote to stderr that are remembered, for when it does not start."""


class LastWords:
    """The end of what a subprocess writes to stderr, which would otherwise be in the midst of ours."""

    def __init__(self) -> None:
        self._tail = bytearray()
        self._reader = threading.Thread()

    def open(self) -> int:
        """The end of a pipe to write to, as a file descriptor to close; what was before is forgotten."""
        self._tail = bytearray()
        read, write = os.pipe()
        self._reader = threading.Thread(target=_remember, args=(read, self._tail), daemon=True)
        self._reader.start()
        return write

    def __call__(self) -> str:
        """The last words, if there are any."""
        if self._reader.is_alive():
            self._reader.join(0.2)  # what has ended is read to its end
        text = self._tail.decode(errors="replace").strip()
        return f"its last words: {text}" if text else ""


def _remember(read: int, tail: bytearray) -> None:
    with open(read, "rb", buffering=0) as pipe:
        while piece := pipe.read(LAST_WORDS):
            tail += piece
            del tail[:-LAST_WORDS]


@asynccontextmanager
async def stdio(
    parameters: StdioServerParameters, words: LastWords, gone: Callable[[], None]
) -> AsyncIterator[Any]:
    """A subprocess, and the streams to and from it. `gone` is called when it has closed its stdout."""
    import anyio
    from mcp import stdio_client

    with open(words.open(), "w") as errlog:
        async with stdio_client(parameters, errlog=errlog) as (read, write):
            errlog.close()  # the subprocess has its own; once that is closed too, the pipe ends
            to, watched = anyio.create_memory_object_stream[Any](0)

            async def watch() -> None:
                async with to:
                    async for message in read:
                        await to.send(message)
                gone()

            async with watched, anyio.create_task_group() as group:
                group.start_soon(watch)
                yield watched, write
                group.cancel_scope.cancel()


@asynccontextmanager
async def http(
    url: str, headers: Mapping[str, str], connect: float, said: list[str], _gone: Callable[[], None]
) -> AsyncIterator[Any]:
    """Streamable HTTP. There is no timeout but to connect, and no limit: how long a call may take, and how
    much is kept of its answer, is the tool's affair. Into `said` goes the status of a response that is an
    error, which the SDK does not tell."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    said.clear()

    async def remember(response: httpx2.Response) -> None:
        if response.is_error:
            said[:] = [f"HTTP {response.status_code} {response.reason_phrase}"]

    async with (
        httpx2.AsyncClient(
            headers=dict(headers),
            timeout=httpx2.Timeout(None, connect=connect),
            event_hooks={"response": [remember]},
        ) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=None) as streams,
    ):
        yield streams
