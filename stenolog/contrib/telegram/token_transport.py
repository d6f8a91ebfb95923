"""Requests to the Bot API whose token nobody sees: it is put into the address where it leaves for the net.

The address of every request holds the token, and libraries write addresses into their logs and errors. What
they see here holds a stand-in.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx
from telegram.request import HTTPXRequest

TOO_MANY = 429
FLOODED = 5.0
"""Seconds to wait where the server does not say how many."""
CONNECT, READ, WAIT = 10.0, 30.0, 60.0


class Request(HTTPXRequest):
    """Requests with a stand-in for the token. Where there were too many, it waits as long as it is told."""

    def __init__(self, server: str, standin: str, token: str) -> None:
        super().__init__(
            read_timeout=READ,
            connect_timeout=CONNECT,
            pool_timeout=WAIT,
            httpx_kwargs={"transport": TokenTransport(server, standin, token)},
        )

    async def do_request(self, *args: Any, **kwargs: Any) -> tuple[int, bytes]:
        """As the library does it, again and again while that is too often."""
        while True:
            status, content = await super().do_request(*args, **kwargs)
            if status != TOO_MANY:
                return status, content
            await asyncio.sleep(_pause(content))


class TokenTransport(httpx.AsyncBaseTransport):
    """Puts the token in the place of its stand-in, in a request that nobody else sees."""

    def __init__(self, server: str, standin: str, token: str) -> None:
        self._inner = httpx.AsyncHTTPTransport(proxy=_proxy(server))
        self._standin, self._token = standin.encode(), token.encode()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.replace(self._standin, self._token, 1)
        sent = httpx.Request(
            request.method,
            request.url.copy_with(raw_path=path),
            headers=request.headers,
            stream=request.stream,
            extensions=request.extensions,
        )
        return await self._inner.handle_async_request(sent)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _proxy(server: str) -> str | None:
    """The proxy that the environment names for a server."""
    scheme, host = urlsplit(server).scheme, urlsplit(server).hostname or ""
    found = getproxies()
    return None if proxy_bypass(host) else found.get(scheme) or found.get("all")


def _pause(content: bytes) -> float:
    """The seconds that the server asks to wait."""
    try:
        return float(json.loads(content)["parameters"]["retry_after"])
    except (ValueError, KeyError, TypeError):
        return FLOODED
