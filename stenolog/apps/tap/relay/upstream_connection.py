"""Connection to an upstream, which belongs to one client."""

from __future__ import annotations

import asyncio

from stenolog.apps.tap.upstreams import Upstream

from .sides import AnswerTaker, UpstreamUser


class UpstreamConnection(asyncio.Protocol):
    """Passes what the server sends to its exchange, or else to the client."""

    def __init__(self, upstream: Upstream, client: UpstreamUser) -> None:
        self.upstream, self._client = upstream, client
        self._exchange: AnswerTaker | None = None
        self.closed = False
        self.writable = asyncio.Event()
        self.writable.set()
        self._transport: asyncio.Transport | None = None
        self._waits_for: set[str] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._exchange and not self._exchange.ended:
            self._exchange.upstream_data(data)
        else:
            self._client.unasked_data(data)

    def eof_received(self) -> None:
        self.closed = True  # the transport closes too; a request that waits must not go this way

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._transport = None  # asyncio's own fails where it is aborted after this
        self.writable.set()
        exchange, self._exchange = self._exchange, None
        if exchange and not exchange.ended:
            exchange.upstream_closed(exc)
        else:
            self._client.idle_upstream_closed(self)

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def begin(self, exchange: AnswerTaker) -> None:
        self._exchange = exchange

    def write(self, data: bytes) -> None:
        if self._transport and not self._transport.is_closing():
            self._transport.write(data)

    def pause_reading(self, reason: str) -> None:
        if self._transport and not self._waits_for and not self._transport.is_closing():
            self._transport.pause_reading()
        self._waits_for.add(reason)

    def resume_reading(self, reason: str) -> None:
        if reason in self._waits_for:
            self._waits_for.remove(reason)
            if self._transport and not self._waits_for and not self._transport.is_closing():
                self._transport.resume_reading()

    def abort(self) -> None:
        if self._transport:
            self._transport.abort()
