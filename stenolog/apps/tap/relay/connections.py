"""Connection of a client: one request after another, each with its exchange."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any

import h11

from stenolog.apps.servers.limits import Door
from stenolog.apps.tap.heads import MAX_HEAD_BYTES, head_end
from stenolog.apps.tap.upstreams import Upstream

from .connecting import connect
from .copies import Recording
from .exchange import Exchange
from .framing import ambiguous, fault
from .guard import NO_TOKEN, Guard, Refusal
from .sides import AnswerTaker, UpstreamSide, UpstreamUser


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


PIPELINED_BYTES = 256 << 10
"""A client that sends more than this before it has its answer must wait."""
LINGER_SECONDS = 2.0
"""A refused client has this long to read why, while its body is thrown away."""
VERSIONS = (b"1.0", b"1.1")
RESET = struct.pack("ii", 1, 0)
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
REASONS = {
    400: "Bad Request",
    403: "Forbidden",
    431: "Request Header Fields Too Large",
    502: "Bad Gateway",
    501: "Not Implemented",
}


class ClientConnection(asyncio.Protocol):
    """Reads requests, and keeps one connection to the upstream that they name."""

    def __init__(
        self, recording: Recording, guard: Guard, connections: set[ClientConnection], door: Door
    ) -> None:
        self._recording, self._guard, self._connections, self._door = recording, guard, connections, door
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._exchange: Exchange | None = None
        self._upstream: UpstreamConnection | None = None
        self._refused = self._lost = False
        self._holds = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connections.add(self)
        self._refused = not self._door.arrived(transport)
        if transport.get_extra_info("socket").family == socket.AF_UNIX:
            return
        # asyncio leaves this out for a socket that it has not made.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        exchange = self._exchange
        if exchange is not None and exchange.complete and exchange.gives_way():
            exchange = self._exchange = None
            if self._upstream:  # its next bytes would not be understood either
                self._upstream.abort()
                self._upstream = None
        if exchange is not None and (not exchange.complete or exchange.switched):
            self._feed(exchange, data)
            return
        self._buffer += data
        if exchange is None:
            self._next_request()
        elif len(self._buffer) > PIPELINED_BYTES and self._transport:
            self.hold_reading()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        if self._transport:
            self._door.forget(self._transport)
        self._transport = None  # asyncio's own fails where it is aborted after this
        self._connections.discard(self)
        if self._exchange:
            self._exchange.client_closed()
        if self._upstream:
            self._upstream.abort()

    def pause_writing(self) -> None:
        if self._upstream:
            self._upstream.pause_reading("client")

    def resume_writing(self) -> None:
        if self._upstream:
            self._upstream.resume_reading("client")

    def hold_reading(self) -> None:
        self._holds += 1
        if self._holds == 1 and self._transport and not self._transport.is_closing():
            self._transport.pause_reading()

    def release_reading(self) -> None:
        if not self._holds:
            return
        self._holds -= 1
        if not self._holds and self._transport and not self._transport.is_closing():
            self._transport.resume_reading()

    def write(self, data: bytes) -> None:
        if self._transport and not self._transport.is_closing():
            self._transport.write(data)

    def unasked_data(self, data: bytes) -> None:
        """Pass on what an upstream sends without a request, such as a 408 before it closes."""
        if not self._exchange:
            self.write(data)

    def idle_upstream_closed(self, upstream: UpstreamSide) -> None:
        if upstream is self._upstream:
            self._upstream = None
            if not self._exchange and not self._buffer:
                self.close()

    def close(self, reset: bool = False) -> None:
        self._exchange = None
        if not self._transport:
            return
        if reset:
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._transport.close()

    def stop(self) -> None:
        """End the exchange because the tap ends."""
        if self._exchange:
            self._exchange.end("tap-ended")
        self._abort()

    def exchange_ended(self) -> None:
        self._exchange = None
        self._holds = min(self._holds, 1)
        self.release_reading()
        if self._buffer:
            self._next_request()

    def refuse(self, status: int, reason: str) -> None:
        self._exchange, self._refused = None, True
        self._holds = min(self._holds, 1)
        self.release_reading()
        body = f"{status}: {reason}\n".encode()
        head = f"HTTP/1.1 {status} {REASONS[status]}\r\ncontent-type: text/plain; charset=utf-8\r\n"
        self.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
        transport = self._transport
        if transport:
            # Closing with unread data would reset the connection before the client has read the answer.
            if transport.can_write_eof():
                transport.write_eof()
            asyncio.get_running_loop().call_later(LINGER_SECONDS, self._abort)

    async def upstream_for(self, upstream: Upstream) -> UpstreamConnection:
        found = self._upstream
        if found and found.upstream == upstream and not found.closed:
            return found
        if found:
            self._upstream = None
            found.abort()
        connection = UpstreamConnection(upstream, self)
        try:
            await connect(upstream, connection)
        except asyncio.CancelledError:
            connection.abort()
            raise
        if self._lost:
            connection.abort()
        self._upstream = connection
        return connection

    def _abort(self) -> None:
        if self._transport:
            self._transport.abort()

    def _next_request(self) -> None:
        while self._buffer[:2] == b"\r\n":  # empty lines before a request are allowed
            del self._buffer[:2]
        end = head_end(self._buffer)
        if (end or len(self._buffer)) > MAX_HEAD_BYTES:
            self.refuse(431, f"expected a head of at most {MAX_HEAD_BYTES} bytes")
        elif not end and self._guard.has_token(self._buffer) is False:
            self.refuse(403, NO_TOKEN)
        if not end or self._refused:
            return
        head, following = bytes(self._buffer[:end]), bytes(self._buffer[end:])
        self._buffer.clear()
        parser = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        try:
            parser.receive_data(head)
            request: Any = parser.next_event()
            if not isinstance(request, h11.Request) or request.http_version not in VERSIONS:
                raise h11.RemoteProtocolError("another version")
            if (ambiguity := ambiguous(head, request.headers)) is not None:
                raise h11.RemoteProtocolError(ambiguity)
        except h11.RemoteProtocolError as error:
            self.refuse(400, f"expected an HTTP/1.1 request, found {fault(error)}")
            return
        route = self._guard.route(request.target, request.headers)
        if isinstance(route, Refusal):
            self.refuse(route.status, route.reason)
            return
        if self._transport:
            self._door.admitted(self._transport)
        if parser.they_are_waiting_for_100_continue:
            self.write(CONTINUE)
        if self._recording.redact is not None and _asks_for_websocket(request):
            # Its frames could not be redacted before they are written. Clients go on over HTTP.
            self.refuse(501, "expected no websocket, since the tap redacts")
            return
        self._exchange = Exchange(self, self._recording, route, head, parser, request)
        self._feed(self._exchange, following)

    def _feed(self, exchange: Exchange, data: bytes) -> None:
        try:
            self._buffer += exchange.client_data(data)
        except h11.RemoteProtocolError as error:
            exchange.end(f"request-not-understood: {fault(error)}")
            self.refuse(400, f"expected the body of an HTTP/1.1 request, found {fault(error)}")


def _asks_for_websocket(request: h11.Request) -> bool:
    return any(name == b"upgrade" and b"websocket" in value.lower() for name, value in request.headers)
