"""The server's side of a websocket, with compressed messages where the client offers them."""

from __future__ import annotations

import asyncio

from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

from tests.tap.http_side import Incoming

LARGEST = 1 << 28


class Socket:
    """A connection that was upgraded. It answers pings, and ends with the client's close or hangup."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._protocol = ServerProtocol(extensions=[ServerPerMessageDeflateFactory()], max_size=LARGEST)
        self._frames: list[Frame] = []

    async def accept(self, incoming: Incoming) -> None:
        """Answer the handshake."""
        self._protocol.receive_data(incoming.head)
        (request,) = self._protocol.events_received()
        assert isinstance(request, Request)
        self._protocol.send_response(self._protocol.accept(request))
        await self._flush()

    async def receive(self) -> bytes | None:
        """Return the next message; None: the connection has ended."""
        message = b""
        while True:
            while self._frames:
                frame = self._frames.pop(0)
                if frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
                    message += bytes(frame.data)
                    if frame.fin:
                        return message
            if self._protocol.state is not State.OPEN:
                return None
            if not (data := await self._reader.read(1 << 16)):
                return None
            self._protocol.receive_data(data)
            self._frames += [event for event in self._protocol.events_received() if isinstance(event, Frame)]
            await self._flush()

    async def send(self, message: bytes) -> None:
        """Send a text message."""
        self._protocol.send_text(message)
        await self._flush()

    async def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._writer.write(data)
            else:
                self._writer.close()
        await self._writer.drain()
