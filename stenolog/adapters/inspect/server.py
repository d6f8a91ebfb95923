"""Uvicorn for the pages: slow clients are cut off, and however many come at once, nothing fails."""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 2000
"""Connections beyond these are answered with 503."""
LEAST_CONNECTIONS = 32
BACKLOG = 128
"""Connections that are accepted at once, before the first of them is looked at."""
PATIENCE_SECONDS = 10.0
"""Seconds that a client has to send a request."""
GRACE_SECONDS = 1
"""Seconds that open connections have when the server is told to end."""
FILES_BESIDE = 700
"""File descriptors that are left for the database, and for a few times BACKLOG of new connections."""
FULL = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


def configured(app: Starlette, patience: float = PATIENCE_SECONDS) -> uvicorn.Config:
    """Return the configuration of a server whose clients have `patience` seconds for each request."""

    class Protocol(ImpatientProtocol):
        patience_seconds = patience
        most_connections = min(MOST_CONNECTIONS, max(_open_files() - FILES_BESIDE, LEAST_CONNECTIONS))

    return uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="off",
        log_level="error",
        access_log=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )


class ImpatientProtocol(H11Protocol):
    """HTTP for a client that has a few seconds to send a request.

    Uvicorn itself waits without end for one who sends a byte now and then.
    """

    patience_seconds = PATIENCE_SECONDS
    most_connections = MOST_CONNECTIONS
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        # Uvicorn's own limit answers a request; until it has come, the connection has its file descriptor.
        if len(self.connections) > self.most_connections:
            transport.write(FULL)
            transport.close()
        else:
            self._wait()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(self.patience_seconds, self._end_if_idle)

    def _end_if_idle(self) -> None:
        is_answering: Any = self.cycle is not None and not self.cycle.response_complete
        if not is_answering:
            self.transport.close()


def _open_files() -> int:
    """Return how many files this process may open, as many as the system lets it."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows has no such limit
        return MOST_CONNECTIONS + FILES_BESIDE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + FILES_BESIDE
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return wanted if soft == resource.RLIM_INFINITY else soft
