"""Guard of a tap: which requests may pass, by token, host and origin."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from stenolog.apps.tap.upstreams import Upstream, accounts

LOCAL = ("127.0.0.1", "localhost", "[::1]")
ACCOUNT = b"chatgpt-account-id"
NO_TOKEN = "expected the base URL that `stenolog tap` has set"
LONGEST_METHOD = 32
OWN_PAGES = ("none", "same-origin")


class Route(NamedTuple):
    """An upstream, and the target of the request there."""

    upstream: Upstream
    target: bytes


class Refusal(NamedTuple):
    """A status and its explanation."""

    status: int
    reason: str


class Guard:
    """Checks the heads of requests. `token` is the first part of every path."""

    def __init__(self, token: str, upstreams: Mapping[str, Upstream], host: str, port: int) -> None:
        self._token = token.encode()
        self._accounts = {account.instead_of: account.name for account in accounts()}
        self._upstreams = upstreams
        names = {*LOCAL, f"[{host}]" if ":" in host else host}
        self._hosts = {f"{name}:{port}" for name in names} | (names if port == 80 else set())

    def has_token(self, head: bytes | bytearray) -> bool | None:
        """Return whether a head begins with the token; None if it is too short."""
        begun, _, target = head.partition(b" ")
        right = b"/" + self._token + b"/"
        if b"\n" in begun or len(begun) > LONGEST_METHOD:
            return False
        # Only as a whole: an answer to each letter would tell a stranger the token letter by letter.
        if len(target) < len(right) and b"\n" not in target:
            return None
        return hmac.compare_digest(bytes(target[: len(right)]), right)

    def route(self, target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> Route | Refusal:
        """Return a request's route, or its refusal; header names are lower case."""
        of_account = False
        for name, value in headers:
            of_account = of_account or name == ACCOUNT
            text = value.decode("latin-1").strip().lower()
            # A page elsewhere may have its own host name lead here (DNS rebinding).
            if name == b"host" and text not in self._hosts:
                return Refusal(403, "this host name is not one of this machine's")
            if name == b"origin" and urlsplit(text).netloc not in self._hosts:
                return Refusal(403, "a page of another origin may not ask here")
            if name == b"sec-fetch-site" and text not in OWN_PAGES:
                return Refusal(403, "a page of another site may not ask here")
        token, upstream, remaining = _parts(target)
        # In constant time: the duration must not tell how much of the token was right.
        if not hmac.compare_digest(token, self._token):
            return Refusal(403, NO_TOKEN)
        found = self._upstreams.get(upstream.decode("latin-1"))
        if of_account and found:
            # A program takes one base URL, whether its user has a key or has logged in.
            found = self._upstreams.get(self._accounts.get(found.name, ""), found)
        if found is None:
            return Refusal(403, f"expected one of the upstreams {', '.join(self._upstreams)}")
        path = found.path.encode()
        return Route(found, path + remaining if path or remaining[:1] == b"/" else b"/" + remaining)


def _parts(target: bytes) -> tuple[bytes, bytes, bytes]:
    """Return token, upstream's name, and the rest of the target with its slash or query."""
    if not target.startswith(b"/"):
        # An absolute target is that of a client which takes the tap for a forward proxy.
        return b"", b"", b""
    token, _, remaining = target[1:].partition(b"/")
    ends = [at for mark in (b"/", b"?") if (at := remaining.find(mark)) >= 0]
    end = min(ends, default=len(remaining))
    return token, remaining[:end], remaining[end:]
