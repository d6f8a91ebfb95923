"""Limits of all servers here: what a client without the token can cost.

A client is a stranger until a request with the right token has come. Strangers have a few seconds. If there
are too many of them, the oldest one goes: a program with the token sends it at once, and is never the oldest.
"""

from __future__ import annotations

import asyncio
import errno
import sys
from collections.abc import Mapping
from typing import Any

PATIENCE_SECONDS = 10.0
"""Seconds until a request with the right token must have come."""
MOST_STRANGERS = 512
OPEN_FILES = 4096
"""The process may open this many files, if the system allows it."""
FILES_BESIDE = 400
"""File descriptors left for the database, and for connections that are accepted but not looked at."""
LEAST_CONNECTIONS = 32
ACCEPTED_AT_ONCE = 32
"""Connections accepted in one turn of the loop, before the first of them is looked at."""
BACKLOG = 1024
"""Connections that the system holds until they are accepted."""
OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
ADMIT = "stenolog.admit"
"""The key in ASGI's scope of a function that takes the client off the list of strangers."""
FULL = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Door:
    """All connections of one server. `files_each`: descriptors that a client with the token needs."""

    def __init__(self, files_each: int = 1, patience: float = PATIENCE_SECONDS) -> None:
        files = open_files()
        self._most = max(files - FILES_BESIDE, LEAST_CONNECTIONS) // files_each
        self._most_strangers = min(MOST_STRANGERS, max(self._most // 2, 1))
        self._files, self._patience = files, patience
        self._strangers: dict[asyncio.Transport, asyncio.TimerHandle] = {}  # the oldest first
        self._admitted: set[asyncio.Transport] = set()
        self._said: set[str] = set()

    def arrived(self, transport: asyncio.Transport) -> bool:
        """Note a new connection; return False if it was refused, since too many have the token."""
        if len(self._strangers) >= self._most_strangers or self._count() >= self._most:
            self._say_once(f"over {self._most_strangers} clients have sent no token: the oldest are cut off")
            if not self._strangers:
                transport.write(FULL)
                transport.close()
                return False
            self._cut(next(iter(self._strangers)))
        loop = asyncio.get_running_loop()
        self._strangers[transport] = loop.call_later(self._patience, self._cut, transport)
        return True

    def admitted(self, transport: asyncio.Transport) -> None:
        """Note that a connection has shown the token."""
        if (deadline := self._strangers.pop(transport, None)) is not None:
            deadline.cancel()
            self._admitted.add(transport)

    def has_admitted(self, transport: asyncio.Transport) -> bool:
        """Return whether a connection has shown the token."""
        return transport in self._admitted

    def forget(self, transport: asyncio.Transport) -> None:
        """Note the end of a connection."""
        self._admitted.discard(transport)
        if (deadline := self._strangers.pop(transport, None)) is not None:
            deadline.cancel()

    def noted(self, context: dict[str, Any]) -> bool:
        """Return whether an error of the loop was only a lack of descriptors: it then pauses accepting."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in OUT_OF_FILES:
            return False
        self._say_once(f"out of file descriptors ({self._files}): new connections wait")
        return True

    def _count(self) -> int:
        return len(self._strangers) + len(self._admitted)

    def _cut(self, transport: asyncio.Transport) -> None:
        self.forget(transport)
        transport.abort()

    def _say_once(self, words: str) -> None:
        if words not in self._said:
            self._said.add(words)
            print(f"stenolog: {words}", file=sys.stderr, flush=True)


def admit(scope: Mapping[str, Any]) -> None:
    """Say that a request has the right token; does nothing under another server."""
    if (tell := scope.get(ADMIT)) is not None:
        tell()


def open_files() -> int:
    """Raise the limit of open files as far as it is needed and allowed, and return it."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows has no such limit
        return OPEN_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return OPEN_FILES
    if soft < OPEN_FILES:
        soft = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft
