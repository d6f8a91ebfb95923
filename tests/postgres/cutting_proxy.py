"""A proxy before a server's socket that drops connections in the middle of an answer."""

from __future__ import annotations

import selectors
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

CUT_EVERY = 40
"""Of so many answers one is cut."""


class Proxy:
    """Forwards all that is said, and cuts connections: `cuts` counts them."""

    def __init__(self, server: str, folder: str, cuts: int) -> None:
        self.folder = folder
        self.cuts = 0
        self._left = cuts
        self._server = server
        self._random = Random(7)
        self._wakes, self._ends = socket.socketpair()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{folder}/.s.PGSQL.5432")
        self._listener.listen(100)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wakes, selectors.EVENT_READ)
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._clients: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._wakes:
                    return
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj in self._pairs:
                    self._forward(key.fileobj)

    def _accept(self) -> None:
        client, server = self._listener.accept()[0], socket.socket(socket.AF_UNIX)
        server.connect(self._server)
        self._clients.add(client)
        self._pairs |= {client: server, server: client}
        for each in (client, server):
            self._selector.register(each, selectors.EVENT_READ)

    def _forward(self, one: socket.socket) -> None:
        other = self._pairs[one]
        with suppress(OSError):
            said = one.recv(65536)
            is_cut = one not in self._clients and self._left and self._random.randrange(CUT_EVERY) == 0
            if said and is_cut:
                # The server has done what it was asked for; its answer comes in part, or not at all.
                other.sendall(said[: self._random.randrange(len(said))])
                self.cuts += 1
                self._left -= 1
            elif said:
                other.sendall(said)
                return
        self._drop(one)
        self._drop(other)

    def _drop(self, one: socket.socket) -> None:
        self._selector.unregister(one)
        del self._pairs[one]
        self._clients.discard(one)
        one.close()

    def close(self) -> None:
        self._ends.close()
        self._thread.join()
        self._selector.close()
        for each in (*self._pairs, self._listener, self._wakes):
            each.close()


@contextmanager
def cutting(server: str, cuts: int) -> Iterator[Proxy]:
    """Yield a proxy before the server whose socket is in a folder; it cuts so many connections."""
    with tempfile.TemporaryDirectory(prefix="proxy") as folder:
        proxy = Proxy(str(Path(server, ".s.PGSQL.5432")), folder, cuts)
        try:
            yield proxy
        finally:
            proxy.close()
