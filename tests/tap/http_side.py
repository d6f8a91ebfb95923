"""The server's side of HTTP/1.1, as small as the local provider needs it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    413: "Payload Too Large",
    429: "Too Many Requests",
}


class Hangup(Exception):  # noqa: N818 -- no failure: a client that closes its connection
    """The end of a connection between two requests."""


@dataclass
class Incoming:
    """A request as it came: its lines, and its content without framing."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    head: bytes = b""
    content: bytes = b""
    trailers: list[tuple[str, str]] = field(default_factory=list)
    too_large: bool = False

    def header(self, name: str) -> str:
        """Return a header's value; an empty one: it did not come."""
        return next((value for key, value in self.headers if key.lower() == name), "")

    @property
    def closes(self) -> bool:
        """Whether the client asks for the connection's end."""
        return self.header("connection").lower() == "close"


async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, largest: int) -> Incoming:
    """Read a request. One that announces more than `largest` bytes is not read further."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        raise Hangup from error
    method, target, _ = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
    incoming = Incoming(method, target, _headers(head.partition(b"\r\n")[2]), head)
    length = int(incoming.header("content-length") or 0)
    if length > largest:
        incoming.too_large = True
        return incoming
    if incoming.header("expect").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    if "chunked" in incoming.header("transfer-encoding").lower():
        pieces = []
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            pieces.append(await reader.readexactly(size))
            await reader.readexactly(2)
        incoming.content = b"".join(pieces)
        trailers = b""
        while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
            trailers += line
        incoming.trailers = _headers(trailers)
    else:
        incoming.content = await reader.readexactly(length)
    return incoming


def _headers(block: bytes) -> list[tuple[str, str]]:
    lines = [line for line in block.decode("latin-1").split("\r\n") if line]
    return [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]


class Outgoing:
    """An answer on its way. `content` and `lengths` are what left so far: the bytes, each chunk's size."""

    def __init__(self, writer: asyncio.StreamWriter, incoming: Incoming) -> None:
        self._writer, self._incoming = writer, incoming
        self._chunked = False
        self._pieces: list[bytes] = []
        self.lengths: list[int] = []
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.closed = incoming.too_large

    @property
    def content(self) -> bytes:
        return b"".join(self._pieces)

    async def head(self, status: int, headers: list[tuple[str, str]], length: int | None) -> None:
        """Send the head; without a length the content is chunked."""
        self.status, self.headers, self._chunked = status, headers, length is None
        framing = ("Transfer-Encoding", "chunked") if length is None else ("Content-Length", str(length))
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Other')}"]
        lines += [f"{name}: {value}" for name, value in [*headers, framing]]
        lines += ["Connection: close"] if self.closed else []
        self._writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        await self._writer.drain()

    async def part(self, content: bytes) -> None:
        """Send a piece of the content, as a chunk of its own where the content is chunked."""
        if content:
            framed = b"%x\r\n%s\r\n" % (len(content), content) if self._chunked else content
            self._writer.write(framed)
            self._pieces.append(content)
            self.lengths.append(len(content))
            await self._writer.drain()

    async def finish(self) -> None:
        """Send the end of the content."""
        if self._chunked:
            self._writer.write(b"0\r\n\r\n")
            await self._writer.drain()

    async def wait_for_hangup(self, seconds: float) -> None:
        """Wait until the client closes the connection, or the time is over."""
        transport: Any = self._writer.transport
        for _ in range(int(seconds * 100)):
            if transport.is_closing():
                return
            await asyncio.sleep(0.01)

    def cut(self) -> None:
        """Close the connection in the middle of the content."""
        self.closed = True
        self._writer.close()
