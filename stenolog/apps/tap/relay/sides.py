"""Both sides of an exchange: the client's connection and the upstream's, as an exchange uses them."""

from __future__ import annotations

import asyncio
from typing import Protocol

from stenolog.apps.tap.upstreams import Upstream


class UpstreamSide(Protocol):
    """Connection to an upstream. `writable` is set while it takes more bytes."""

    closed: bool
    writable: asyncio.Event

    def begin(self, exchange: AnswerTaker) -> None:
        """Give an exchange what the server sends from now on."""

    def write(self, data: bytes) -> None:
        """Send bytes."""

    def pause_reading(self, reason: str) -> None:
        """Stop reading."""

    def resume_reading(self, reason: str) -> None:
        """Go on with reading, unless there is another reason to wait."""

    def abort(self) -> None:
        """Close at once."""


class ClientSide(Protocol):
    """Connection of a client."""

    def write(self, data: bytes) -> None:
        """Send bytes."""

    def hold_reading(self) -> None:
        """Stop reading until `release_reading` was called as often."""

    def release_reading(self) -> None:
        """Go on with reading after the last hold."""

    def close(self, reset: bool = False) -> None:
        """Close after what was written; a reset shows that an answer without a length was cut."""

    def refuse(self, status: int, reason: str) -> None:
        """Answer instead of an upstream, and close."""

    def exchange_ended(self) -> None:
        """Go on with the next request on this connection."""

    async def upstream_for(self, upstream: Upstream) -> UpstreamSide:
        """Return the connection to an upstream: the one that is there, or a new one. Raises OSError."""
        ...


class UpstreamUser(Protocol):
    """Client to which a connection to an upstream belongs."""

    def unasked_data(self, data: bytes) -> None:
        """Pass on what an upstream sends without a request."""

    def idle_upstream_closed(self, upstream: UpstreamSide) -> None:
        """Close an idle client with its upstream; a request that has begun gets a new connection."""


class AnswerTaker(Protocol):
    """Exchange as the connection to its upstream uses it."""

    ended: bool

    def upstream_data(self, data: bytes) -> None:
        """Pass the upstream's next bytes on, and then record them."""

    def upstream_closed(self, error: Exception | None) -> None:
        """End with the upstream's connection, as the client would have seen it."""
