"""One connection to an MCP server, over a subprocess's pipes or HTTP, held open by its own task.

The SDK's contexts are left by the task that entered them, and calls come from many tasks.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias

from stenolog._version import __version__
from stenolog.adapters.tools.results import error_text
from stenolog.domain.errors import ToolError

if TYPE_CHECKING:
    import anyio
    from mcp import Client, StdioServerParameters
    from mcp.client import Transport
    from mcp_types import Tool


PAGES = 1_000
"""Pages of a server's list of tools that are read at most."""
LEAVING = 15.0
"""Seconds that a server has to go: the SDK asks it politely, then less so, then kills it."""
Connect: TypeAlias = "Callable[[Callable[[], None]], Transport]"
"""Makes a transport, which calls what it is given when the server has gone."""


class Link:
    """Connection, being made or made. `timeout`: seconds until the server's tools are listed."""

    def __init__(self, connect: Connect, timeout: float, last_words: Callable[[], str]) -> None:
        import anyio

        self._scope: anyio.CancelScope = anyio.CancelScope(deadline=anyio.current_time() + timeout)
        self._timeout = timeout
        self._last_words = last_words
        self._leave = asyncio.Event()
        self._gone = False
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[Client] = self._loop.create_future()
        self._ready.add_done_callback(lambda ready: ready.cancelled() or ready.exception())  # nobody may wait
        self._task = asyncio.create_task(self._hold(connect), name="stenolog MCP")
        self.tools: list[Tool] = []

    @property
    def usable(self) -> bool:
        """True if a call may be made, as far as is known."""
        return not self._gone and not self._task.done() and self._loop is asyncio.get_running_loop()

    async def client(self) -> Client:
        """Return the client, once it is connected. Raises `ToolError`."""
        return await asyncio.shield(self._ready)

    async def list(self) -> list[Tool]:
        """Return the server's tools now. Raises `ToolError`."""
        client = await self.client()
        try:
            async with asyncio.timeout(self._timeout):
                self.tools = await _listed(client)
        except Exception as error:
            raise ToolError(f"its tools cannot be listed: {error_text(error)}") from None
        return self.tools

    def end(self) -> None:
        """Ask the server to end; `ended` waits for it."""
        self._gone = True
        if self._loop is not asyncio.get_running_loop():
            return  # that loop has ended, and has cancelled all of this
        if self._ready.done():
            self._leave.set()
        else:
            self._scope.cancel()

    async def ended(self) -> None:
        """Wait until it is closed."""
        if self._loop is asyncio.get_running_loop():
            await asyncio.wait({self._task}, timeout=LEAVING)

    async def _hold(self, connect: Connect) -> None:
        from mcp import Client
        from mcp_types import Implementation

        us = Implementation(name="stenolog", version=__version__)
        failure = f"it did not answer within {self._timeout:g} s"
        try:
            with self._scope:
                async with Client(connect(self._lose), client_info=us, cache=None) as client:
                    self.tools = await _listed(client)
                    self._scope.deadline = inf
                    self._ready.set_result(client)
                    await self._leave.wait()
        except Exception as error:
            failure = error_text(error)
        finally:
            self._gone = True
            if not self._ready.done():
                words = self._last_words()
                self._ready.set_exception(ToolError(f"{failure}; {words}" if words else failure))

    def _lose(self) -> None:
        self._gone = True


async def _listed(client: Client) -> list[Tool]:
    tools: list[Tool] = []
    cursor: str | None = None
    for _ in range(PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if not cursor:
            return tools
    raise ToolError(f"expected at most {PAGES:,} pages of tools, found more")


LAST_WORDS = 2_000
"""Bytes of what a subprocess wrote to stderr that are remembered, for when it does not start."""


class LastWords:
    """Last lines of a subprocess's stderr, kept out of ours."""

    def __init__(self) -> None:
        self._tail = bytearray()
        self._reader = threading.Thread()

    def open(self) -> int:
        """Return a file descriptor to write to and to close; earlier lines are forgotten."""
        self._tail = bytearray()
        read, write = os.pipe()
        self._reader = threading.Thread(target=_remember, args=(read, self._tail), daemon=True)
        self._reader.start()
        return write

    def __call__(self) -> str:
        """Return the last words, if there are any."""
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
    """Start a subprocess, with the streams to and from it. `gone` is called when its stdout closes."""
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
    """Connect over streamable HTTP.

    Only connecting has a timeout, and nothing a limit: both are the tool's. `said` gets the status of an
    error response, which the SDK does not report.
    """
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
