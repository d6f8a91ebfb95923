"""Both connections of an exchange, client's and upstream's, as it uses them."""

from __future__ import annotations

import asyncio
from typing import Protocol

from stenolog.apps.tap.upstreams import Upstream


class UpstreamSide(Protocol):
    """Connection to an upstream. `writable` is set while it takes more bytes."""

    closed: bool
    writable: asyncio.Event

    def begin(self, exchange: AnswerTaker) -> None:
        """Give an exchange what the server sends."""

    def write(self, data: bytes) -> None: ...

    def pause_reading(self, reason: str) -> None: ...

    def resume_reading(self, reason: str) -> None:
        """Read on, unless there is another reason to wait."""

    def abort(self) -> None: ...


class ClientSide(Protocol):
    """Connection of a client."""

    def write(self, data: bytes) -> None: ...

    def hold_reading(self) -> None:
        """Stop reading until `release_reading` was called as often."""

    def release_reading(self) -> None:
        """Read on after the last hold."""

    def close(self, reset: bool = False) -> None:
        """Close after what was written; a reset shows that an answer without a length was cut."""

    def refuse(self, status: int, reason: str) -> None:
        """Answer instead of an upstream, and close."""

    def exchange_ended(self) -> None:
        """Go on with the next request."""

    async def upstream_for(self, upstream: Upstream) -> UpstreamSide:
        """Return the connection to an upstream, new if necessary. Raises OSError."""
        ...


class UpstreamUser(Protocol):
    """Client to which a connection to an upstream belongs."""

    def unasked_data(self, data: bytes) -> None:
        """Pass on what comes without a request."""

    def idle_upstream_closed(self, upstream: UpstreamSide) -> None:
        """Close an idle client with its upstream; a begun request gets a new connection."""


class AnswerTaker(Protocol):
    """Exchange as the connection to its upstream uses it."""

    ended: bool

    def upstream_data(self, data: bytes) -> None:
        """Pass the upstream's bytes on, then record them."""

    def upstream_closed(self, error: Exception | None) -> None:
        """End with the upstream's connection, as the client would have seen it."""
