"""Uvicorn within the limits of `limits`: an application says `admit(scope)` once it has seen the token."""

from __future__ import annotations

import asyncio
import signal
import socket
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from .limits import ACCEPTED_AT_ONCE, ADMIT, BACKLOG, PATIENCE_SECONDS, Door

GRACE_SECONDS = 2
"""Seconds that open connections have when the server ends."""
LONGEST_HEAD = 32 << 10
"""The most bytes of a head; browsers send the cookies of all servers of this machine to each."""


def web_server(app: Starlette, patience: float = PATIENCE_SECONDS) -> uvicorn.Server:
    """Return a server whose clients have `patience` seconds to send a request with the token."""
    door = Door(patience=patience)

    class Protocol(ImpatientProtocol):
        _door = door
        patience_seconds = patience

    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=Protocol,
        ws="none",
        log_level="error",
        access_log=False,
        backlog=ACCEPTED_AT_ONCE,
        h11_max_incomplete_event_size=LONGEST_HEAD,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    return _Server(config, door)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, door: Door) -> None:
        super().__init__(config)
        self._door = door

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen with a long queue in the system, and say in one line if descriptors run out."""
        asyncio.get_running_loop().set_exception_handler(self._failed)
        await super().startup(sockets)
        for bound in sockets or ():
            bound.listen(BACKLOG)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End; uvicorn would send SIGTERM to the process again, and nothing be cleaned up after it."""
        if sig == signal.SIGTERM:
            self.should_exit = True
        else:
            super().handle_exit(sig, frame)

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not self._door.noted(context):
            loop.default_exception_handler(context)


class ImpatientProtocol(H11Protocol):
    """HTTP for a client that has a few seconds to send each request.

    Uvicorn itself waits without end for one who sends a byte now and then.
    """

    _door: Door
    patience_seconds = PATIENCE_SECONDS
    _deadline: asyncio.TimerHandle | None = None
    _refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the token."""
        super().connection_made(transport)
        self.app = self._guarded
        self._refused = not self._door.arrived(transport)

    def data_received(self, data: bytes) -> None:
        """Read, unless the connection was refused."""
        if not self._refused:
            super().data_received(data)

    def on_response_complete(self) -> None:
        """Begin to wait for the next request; without the token the first deadline stays."""
        super().on_response_complete()
        if self._door.has_admitted(self.transport):
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._door.forget(self.transport)
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        transport = self.transport
        scope[ADMIT] = lambda: self._door.admitted(transport)
        await self.config.loaded_app(scope, receive, send)

    def _wait(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(self.patience_seconds, self._end_if_idle)

    def _end_if_idle(self) -> None:
        is_answering: Any = self.cycle is not None and not self.cycle.response_complete
        if not is_answering:
            self.transport.close()
