"""A client of HTTP/1.1 that sees every byte: what it sends, and what comes back, chunk by chunk."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import urlsplit

import zstandard

from stenolog.apps.tap.exchanges.exchange import RecordedExchange, decoded

PATIENCE_SECONDS = 60.0
CHUNK_BYTES = 8192


class Label(NamedTuple):
    """The truth about a request: its session, the lane in it, its kind ("" for a turn), and what it tests."""

    session: str
    lane: str = "main"
    kind: str = ""
    feature: str = ""
    has_ids: bool = False


@dataclass
class Sent:
    """A request as its client saw it. `answer` is the content as it came, `chunks` are its lengths."""

    label: Label
    client: str
    method: str
    path: str
    headers: list[tuple[str, str]]
    content_sha256: str
    body_sha256: str
    body_bytes: int
    status: int = 0
    answer_headers: dict[str, str] = field(default_factory=dict)
    answer: bytes = b""
    chunks: list[int] = field(default_factory=list)
    complete: bool = False
    sees_chunks: bool = True
    answer_id: str = ""

    @property
    def answer_sha256(self) -> str:
        return sha256(self.answer).hexdigest()

    @property
    def chunks_sha256(self) -> str:
        return sha256(json.dumps(self.chunks).encode()).hexdigest()

    @property
    def decoded(self) -> bytes:
        """The answer without its Content-Encoding, as far as it has come."""
        return decoded(self.answer, self.answer_headers.get("content-encoding", ""))


Observer = Callable[[RecordedExchange, bool], None]
"""Called with an exchange when its request is complete, and again (True) when its answer has ended."""


@dataclass(frozen=True)
class Options:
    """How a request goes over the wire. `hangs_up_after`: the client leaves after so many bytes."""

    coding: str = ""
    chunked: bool = False
    expects: bool = False
    closes: bool = False
    accept: str = "gzip, deflate, br, zstd"
    hangs_up_after: int = 0


class RawClient:
    """A connection that is used again while both sides keep it. `log` collects what was sent."""

    def __init__(self, url: str, log: list[Sent], upstream: str, observer: Observer | None = None) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._address = (parts.hostname, parts.port)
        self._host, self._base = f"{parts.hostname}:{parts.port}", parts.path
        self._log, self._observer, self._upstream = log, observer, upstream
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(
        self,
        path: str,
        headers: list[tuple[str, str]],
        body: bytes,
        label: Label,
        client: str,
        options: Options = Options(),
    ) -> Sent:
        """Send a request and read its answer, as far as it comes."""
        content = _encoded(body, options.coding)
        sent = Sent(
            label, client, "POST", path, [], sha256(content).hexdigest(), sha256(body).hexdigest(), len(body)
        )
        sent.headers = self._headers(headers, content, options)
        exchange = self._exchange(sent, content)
        if self._observer:
            self._observer(exchange, False)
        try:
            reader, writer = await self._connected()
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._send(reader, writer, sent, content, options)
                await _receive(reader, sent, options.hangs_up_after)
        except (OSError, asyncio.IncompleteReadError):
            pass
        if not sent.complete or options.closes or sent.answer_headers.get("connection") == "close":
            await self.close()
        self._log.append(sent)
        if self._observer:
            exchange.status, exchange.answer_headers = sent.status, sent.answer_headers
            exchange.answer, exchange.ended_ns = bytearray(sent.answer), time.time_ns()
            remaining = "client-closed" if options.hangs_up_after else "upstream-closed"
            exchange.reason = "" if sent.complete else remaining
            self._observer(exchange, True)
        return sent

    async def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            with suppress(OSError):
                await self._streams[1].wait_closed()
        self._streams = None

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address, limit=1 << 20)
        return self._streams

    def _headers(
        self, headers: list[tuple[str, str]], content: bytes, options: Options
    ) -> list[tuple[str, str]]:
        built = [("Host", self._host), *headers, ("accept-encoding", options.accept)]
        built += [("content-encoding", options.coding)] if options.coding else []
        built += [("Expect", "100-continue")] if options.expects else []
        built += [("Connection", "close")] if options.closes else []
        framing = (
            ("Transfer-Encoding", "chunked") if options.chunked else ("Content-Length", str(len(content)))
        )
        return [*built, framing]

    async def _send(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        sent: Sent,
        content: bytes,
        options: Options,
    ) -> None:
        lines = [
            f"POST {self._base}{sent.path} HTTP/1.1",
            *(f"{name}: {value}" for name, value in sent.headers),
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        if options.expects:
            await writer.drain()
            await reader.readuntil(b"\r\n\r\n")
        if options.chunked:
            for start in range(0, len(content), CHUNK_BYTES):
                part = content[start : start + CHUNK_BYTES]
                writer.write(b"%X\r\n%s\r\n" % (len(part), part))
            content = b"0\r\n\r\n"
        writer.write(content)
        await writer.drain()

    def _exchange(self, sent: Sent, content: bytes) -> RecordedExchange:
        built = RecordedExchange(
            f"direct-{len(self._log)}-{id(sent)}",
            datetime.now(UTC),
            "POST",
            sent.path,
            self._upstream,
            headers={name.lower(): value for name, value in sent.headers},
            content=content,
            sha256=sent.content_sha256,
        )
        built.begun_ns = time.time_ns()
        return built


async def _receive(reader: asyncio.StreamReader, sent: Sent, hangs_up_after: int) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    sent.status = int(head[0].split(" ")[1])
    lines = [line.partition(":") for line in head[1:] if line]
    sent.answer_headers = {name.lower(): value.strip() for name, _, value in lines}
    if sent.answer_headers.get("transfer-encoding") == "chunked":
        while size := int(await reader.readuntil(b"\r\n"), 16):
            sent.answer += await reader.readexactly(size)
            sent.chunks.append(size)
            await reader.readexactly(2)
            if hangs_up_after and len(sent.answer) > hangs_up_after:
                return
        await reader.readexactly(2)
    else:
        length = int(sent.answer_headers["content-length"])
        while len(sent.answer) < length:
            part = await reader.read(length - len(sent.answer))
            if not part:
                return
            sent.answer += part
        sent.chunks = [length] if length else []
    sent.complete = True


def _encoded(body: bytes, coding: str) -> bytes:
    match coding:
        case "gzip":
            return gzip.compress(body, 6, mtime=0)
        case "zstd":
            return zstandard.ZstdCompressor(level=3).compress(body)
        case _:
            return body
