"""Connections to upstreams, direct or through the environment's HTTP proxy."""

from __future__ import annotations

import asyncio
import os
import ssl
from base64 import b64encode
from functools import cache
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from stenolog.apps.tap.heads import END_OF_HEAD, MAX_HEAD_BYTES
from stenolog.apps.tap.upstreams import Upstream

CONNECT_SECONDS = 60.0
HAPPY_EYEBALLS_SECONDS = 0.25
CA_VARIABLES = ("NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE")
"""Variables in which clients look for certificates; SSL_CERT_FILE is read by OpenSSL itself."""


@cache
def tls_context() -> ssl.SSLContext:
    """Return the TLS context: the system's certificates and the environment's."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    for variable in CA_VARIABLES:
        if path := os.environ.get(variable):
            try:
                context.load_verify_locations(path)
            except (OSError, ssl.SSLError):
                continue  # the client ignores it too, or names it in its own error
    if not context.cert_store_stats()["x509_ca"] and not ssl.get_default_verify_paths().capath:
        try:
            import certifi  # Python's installer for macOS brings no certificates
        except ModuleNotFoundError:
            return context
        context.load_verify_locations(certifi.where())
    return context


async def connect(upstream: Upstream, protocol: asyncio.Protocol) -> None:
    """Connect a protocol to an upstream. Raises OSError, also for TLS and time-outs."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await _connect(upstream, protocol)
    except TimeoutError:
        raise OSError(None, f"no connection within {CONNECT_SECONDS:.0f} s") from None


async def _connect(upstream: Upstream, protocol: asyncio.Protocol) -> None:
    loop = asyncio.get_running_loop()
    context = tls_context() if upstream.scheme == "https" else None
    proxy = _proxy(upstream)
    if proxy is None:
        await loop.create_connection(
            lambda: protocol,
            upstream.host,
            upstream.port,
            ssl=context,
            happy_eyeballs_delay=HAPPY_EYEBALLS_SECONDS,
        )
        return
    tunnel = _Tunnel(loop)
    transport, _ = await loop.create_connection(lambda: tunnel, proxy.hostname or "", proxy.port or 80)
    transport.write(_connect_request(upstream, proxy))
    try:
        await tunnel.opened
        if context is not None:
            secured = await loop.start_tls(transport, protocol, context, server_hostname=upstream.host)
            assert secured is not None
            protocol.connection_made(secured)
        else:
            transport.set_protocol(protocol)
            protocol.connection_made(transport)
    except BaseException:
        transport.abort()
        raise


def _proxy(upstream: Upstream) -> SplitResult | None:
    proxies = getproxies()
    url = proxies.get(upstream.scheme) or proxies.get("all")
    if not url or upstream.host in ("127.0.0.1", "::1", "localhost") or proxy_bypass(upstream.host):
        return None
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme != "http" or not parts.hostname:
        raise OSError(None, f"expected an http:// proxy for {upstream.origin}, found {parts.scheme}://")
    return parts


def _connect_request(upstream: Upstream, proxy: SplitResult) -> bytes:
    host = f"[{upstream.host}]" if ":" in upstream.host else upstream.host
    lines = [f"CONNECT {host}:{upstream.port} HTTP/1.1", f"Host: {host}:{upstream.port}"]
    if proxy.username is not None:
        pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        lines.append(f"Proxy-Authorization: Basic {b64encode(pair.encode()).decode()}")
    return "\r\n".join([*lines, "", ""]).encode()


class _Tunnel(asyncio.Protocol):
    """Answer of a proxy to CONNECT; `opened` ends with the tunnel, or raises OSError."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.opened: asyncio.Future[None] = loop.create_future()
        self._head = b""

    def data_received(self, data: bytes) -> None:
        self._head += data
        if self.opened.done():
            return
        status = self._head.split(b"\r\n", 1)[0][:80].decode("latin-1")
        if not END_OF_HEAD.search(self._head):
            if len(self._head) > MAX_HEAD_BYTES:
                self._fail("its answer is too long")
        elif status.split(" ")[1:2] == ["200"]:
            self.opened.set_result(None)
        else:
            # Its words are a stranger's; the number says enough.
            number = status.split(" ")[1:2]
            self._fail(f"status {number[0]}" if number and number[0].isdecimal() else "it speaks no HTTP")

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.opened.done():
            self._fail(str(exc or "it closed the connection"))

    def _fail(self, reason: str) -> None:
        self.opened.set_exception(OSError(None, f"the proxy refused: {reason}"))
