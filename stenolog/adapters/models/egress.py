"""Check of a request where it leaves the SDK: the bytes on their way are those that the receipt is for.

Each HTTP client of an SDK gets a hook that compares what is about to be sent. A request that was changed on
the way is not sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from typing import Any
from urllib.parse import unquote

from stenolog.domain.errors import ModelError
from stenolog.projections.messages.json_fields import same_from_start
from stenolog.projections.requests.transport import BEHAVIOUR, Outgoing

SHOWN = 40
"""Bytes that an error shows of each side, from the first difference on."""


# The SDKs are given our bytes, and add credentials and other headers.
class _Watch:
    """One request on its way. `fault` is what was changed."""

    def __init__(self, outgoing: Outgoing) -> None:
        self.outgoing = outgoing
        self.is_redirected = False
        self.fault: ModelError | None = None

    def check(self, request: Any, content: bytes) -> None:
        """Compare a request that is about to be sent. Raises `ModelError`."""
        if found := self._difference(request, content):
            words = f"the SDK changed the request on its way, so it was not sent: {found}"
            self.fault = ModelError("invalid_request", words)
            raise self.fault
        self.is_redirected = True

    def _difference(self, request: Any, content: bytes) -> str:
        transport = self.outgoing.transport
        if content != self.outgoing.content:
            return difference(self.outgoing.content, content)
        if request.method != transport.method:
            return f"expected {transport.method}, found {request.method}"
        # SDKs quote a path in their own ways, and put a key or a prefix beside it.
        path = unquote(transport.path.partition("?")[0])
        # Only the first request: a redirect leads to a path of the server's own.
        if not self.is_redirected and path not in unquote(request.url.path):
            # The path that was found is not shown, since it may hold a key.
            return f"expected the path {transport.path}, found another"
        if (headers := behaviour(request.headers)) != transport.headers:
            return f"headers: expected {dict(transport.headers)}, found {headers}"
        return ""


def difference(expected: bytes, found: bytes) -> str:
    """Describe the first difference of two bodies."""
    at = same_from_start(expected, found)
    shown = [body[at : at + SHOWN].decode("utf-8", "replace") for body in (expected, found)]
    return (
        f"expected {len(expected)} bytes with sha256 {sha256(expected).hexdigest()[:12]}…, "
        f"found {len(found)} bytes; from byte {at} on expected {shown[0]!r}, found {shown[1]!r}"
    )


# A context variable, since one client serves many calls at the same time.
_WATCHED: ContextVar[_Watch | None] = ContextVar("request on its way", default=None)


async def _check(request: Any) -> None:
    """Compare a request of a client that we have hooked, if it is one of ours."""
    watch = _WATCHED.get()
    if watch is not None:
        watch.check(request, await request.aread())


@contextmanager
def unchanged(http_client: Any, outgoing: Outgoing) -> Iterator[None]:
    """Let only these bytes out of an httpx client in this block. Raises `ModelError` for others.

    A client without hooks, such as one of aiohttp, is not watched.
    """
    hooks = getattr(http_client, "event_hooks", None)
    # Once for each client; without a watch of its own a request passes the hook unchecked.
    if hooks is not None and _check not in hooks["request"]:
        http_client.event_hooks = {**hooks, "request": [*hooks["request"], _check]}
    watch = _Watch(outgoing)
    token = _WATCHED.set(watch)
    try:
        yield
    except Exception as error:
        if watch.fault is not None and error is not watch.fault:
            # An SDK may have wrapped it in an error of its own.
            raise watch.fault from None
        raise
    finally:
        _WATCHED.reset(token)


def behaviour(headers: Mapping[str, object]) -> dict[str, str]:
    """Return the headers that change a provider's behaviour, by their names in lower case."""
    named = {name.lower(): value for name, value in headers.items()}
    return {name: value for name in BEHAVIOUR if isinstance(value := named.get(name), str)}
