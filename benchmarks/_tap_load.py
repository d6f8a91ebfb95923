"""Streams of answers as an agent's provider sends them: a server, and clients that note when each chunk came.

python -m benchmarks._tap_load    the server; its port is the first line of stdout
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass, field

REQUEST_BYTES = 80_000
CHUNKS = 20
CHUNK_SECONDS = 0.04
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
STAMP_BYTES = 19
EVENT = b'data: {"type":"content_block_delta","delta":{"text":"eight by"},"sent":"%019d"}\n\n'
FRAMED = b"%x\r\n" % len(EVENT % 0) + EVENT + b"\r\n"
FRAMED_BYTES = len(FRAMED % 0)
STAMP_AT = FRAMED_BYTES - len(b'"}\n\n\r\n') - STAMP_BYTES
LAST = b"0\r\n\r\n"


class Answering(asyncio.Protocol):
    """Answers each request with chunks at equal distances, stamped with the time at which they were sent."""

    def __init__(self) -> None:
        self._missing = 0
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._missing:
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            self._missing = end + 4 + REQUEST_BYTES
            data, self._head = self._head, b""
        self._missing -= len(data)
        if not self._missing:
            self._transport.write(HEAD + FRAMED % time.monotonic_ns())
            asyncio.get_running_loop().call_later(CHUNK_SECONDS, self._next, CHUNKS - 1)

    def _next(self, remaining: int) -> None:
        self._transport.write(FRAMED % time.monotonic_ns() if remaining else LAST)
        if remaining:
            asyncio.get_running_loop().call_later(CHUNK_SECONDS, self._next, remaining - 1)


@dataclass
class Delays:
    """Seconds: of each request until its first byte, and of each later chunk on its way."""

    first: list[float] = field(default_factory=list)
    chunks: list[float] = field(default_factory=list)


class _Asking(asyncio.Protocol):
    def __init__(self, request: bytes, delays: Delays, rounds: int) -> None:
        self._request, self._delays, self._rounds = request, delays, rounds
        self._answer = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._ask()

    def _ask(self) -> None:
        self._answer = b""
        self._asked = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        if not self._answer:
            self._delays.first.append(time.perf_counter() - self._asked)
        elif len(data) == FRAMED_BYTES:
            sent = int(data[STAMP_AT : STAMP_AT + STAMP_BYTES])
            self._delays.chunks.append((now - sent) / 1e9)
        self._answer += data
        if self._answer.endswith(LAST):
            assert len(self._answer) == len(HEAD) + CHUNKS * FRAMED_BYTES + len(LAST), self._answer
            self._rounds -= 1
            if self._rounds:
                asyncio.get_running_loop().call_later(CHUNK_SECONDS, self._ask)
            else:
                self._transport.close()
                self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("closed before the end of the answer"))


async def measure(port: int, path: str, streams: int, rounds: int) -> Delays:
    """Run so many streams at once, begun one after the other, each with so many requests."""
    delays = Delays()
    loop = asyncio.get_running_loop()
    head = (
        f"POST {path}/v1/messages HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: agent/1\r\n"
        "Accept: application/json\r\nAuthorization: Bearer secret\r\nanthropic-version: 2023-06-01\r\n"
        f"Content-Type: application/json\r\nContent-Length: {REQUEST_BYTES}\r\n\r\n"
    )
    request = head.encode() + b"x" * REQUEST_BYTES
    waiting = []
    for _ in range(streams):
        _, asking = await loop.create_connection(lambda: _Asking(request, delays, rounds), "127.0.0.1", port)
        waiting.append(asking.done)
        await asyncio.sleep((CHUNKS + 1) * CHUNK_SECONDS / streams)
    await asyncio.gather(*waiting)
    return delays


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(_serve())
    except KeyboardInterrupt:
        sys.exit(0)
