"""A way to a PostgreSQL server on which an answer, or a request, can be lost.

The proxy is a socket in a folder of its own. Once it is told of a text, it cuts the connection on which a
client sends that text: when so many requests behind it were answered, without handing on the last answer; or
before so many were handed on. So whatever a client does in how many round trips, each of them can be lost.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple

from .server import Server

Lost = Literal["answer", "request"]
SOCKET = ".s.PGSQL.5432"
READY = b"Z\x00\x00\x00\x05"
"""The beginning of the message by which the server ends each answer."""


class Cut(NamedTuple):
    """What is to be lost: the request with `text` is number 0."""

    text: bytes
    lost: Lost
    number: int


class Proxy:
    """Connections to a server; `cut` tells what is to be lost, once, and `was_cut` that it was.

    Behind the cut nobody gets through for `away` seconds.
    """

    def __init__(self, target: str, folder: Path) -> None:
        self.folder = str(folder)
        self.cut: Cut | None = None
        self.was_cut = False
        self.away = 0.0
        self._target = target
        self._back = 0.0
        self._turn = threading.Lock()
        self._open: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / SOCKET))
        self._listener.listen(64)
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def close(self) -> None:
        """Close every connection."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join()
        with self._turn:
            self._close(*self._open)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if time.monotonic() < self._back:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._target)
            with self._turn:
                self._open += [client, server]
            pair = _Pair(self, client, server)
            for pump in (pair.requests, pair.answers):
                threading.Thread(target=pump, daemon=True).start()

    def note_cut(self) -> None:
        """Note that what was to be lost is lost; nothing else will be."""
        self.cut, self.was_cut = None, True
        self._back = time.monotonic() + self.away

    @staticmethod
    def _close(*sockets: socket.socket) -> None:
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


class _Pair:
    """One connection through the proxy."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._cut: Cut | None = None
        self._seen = 0

    def requests(self) -> None:
        """Hand on what the client asks."""
        with suppress(OSError):
            while asked := self._client.recv(65536):
                cut = self._proxy.cut
                if self._cut is None and cut is not None and cut.text in asked:
                    self._cut = cut
                if self._cut is not None and self._cut.lost == "request" and self._is_due():
                    break
                self._server.sendall(asked)
        self._end()

    def answers(self) -> None:
        """Hand on what the server answers."""
        with suppress(OSError):
            while answered := self._server.recv(65536):
                if (
                    self._cut is not None
                    and self._cut.lost == "answer"
                    and READY in answered
                    and self._is_due()
                ):
                    break
                self._client.sendall(answered)
        self._end()

    def _is_due(self) -> bool:
        """Count one round trip, and return whether it is the one to be lost."""
        assert self._cut is not None
        number, self._seen = self._seen, self._seen + 1
        if number != self._cut.number or self._proxy.cut is not self._cut:
            return False
        self._proxy.note_cut()
        return True

    def _end(self) -> None:
        for each in (self._client, self._server):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxied(server: Server, folder: Path) -> Iterator[Proxy]:
    """Yield a proxy to a server, in a folder whose path is short enough for a socket."""
    proxy = Proxy(str(Path(server.folder, SOCKET)), folder)
    try:
        yield proxy
    finally:
        proxy.close()
