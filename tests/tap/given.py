"""A relay in a process of its own, a server whose bytes a test decides, and the journal between them."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from stenolog.apps.tap.journal import JournalReader, JournalRecord
from stenolog.apps.tap.relay.process import RelayConfig
from stenolog.apps.tap.supervisor import start
from stenolog.apps.tap.upstreams import parse_upstream

TOKEN = "a-token-of-tests"
RUN = "run"
PATIENCE = 20.0

Handler = Callable[[socket.socket], None]


class Server:
    """A server on loopback; `handler` speaks with each connection, in a thread of its own."""

    def __init__(self) -> None:
        self.handler: Handler = lambda _: None
        self.connections = 0
        self.faults: list[BaseException] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.settimeout(PATIENCE)
                self.connections += 1
                threading.Thread(target=self._speak, args=[connection], daemon=True).start()

    def _speak(self, connection: socket.socket) -> None:
        with closing(connection):
            try:
                self.handler(connection)
            except BaseException as fault:
                self.faults.append(fault)


@dataclass
class Recorded:
    """An exchange as the journal has it."""

    records: list[JournalRecord] = field(default_factory=list)

    @property
    def kinds(self) -> list[str]:
        """Return the kinds of the records, each once."""
        return list(dict.fromkeys(record.kind for record in self.records))

    def json(self, kind: str) -> dict[str, Any]:
        """Return the JSON of the only record of a kind."""
        (found,) = (record for record in self.records if record.kind == kind)
        value: dict[str, Any] = json.loads(found.payload)
        return value

    def content(self, kind: str) -> bytes:
        """Return the payloads of a kind together."""
        return b"".join(record.payload for record in self.records if record.kind == kind)


class Relay:
    """A running relay. `base` is the path before the upstream's own."""

    def __init__(self, folder: Path, upstream: str, generation: int = 1, **options: Any) -> None:
        self.folder = folder
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.host = f"127.0.0.1:{self.port}"
        self.base = f"/{TOKEN}/test"
        self.url = f"http://{self.host}{self.base}"
        self._alive, self._alive_end = os.pipe()
        self._notify, self._notify_end = os.pipe()
        os.set_blocking(self._notify_end, False)
        self.upstreams = {"test": parse_upstream("test", upstream)}
        self._options = options
        self.errors = TemporaryFile()  # noqa: SIM115 (closed with the relay)
        self.process: subprocess.Popen[bytes]
        self.start(generation)

    def start(self, generation: int) -> None:
        """Start the process."""
        config = RelayConfig(
            folder=str(self.folder),
            run=RUN,
            generation=generation,
            token=TOKEN,
            host="127.0.0.1",
            port=self.port,
            upstreams=self.upstreams,
            listener=self._listener.fileno(),
            alive=self._alive,
            notify=self._notify_end,
            **self._options,
        )
        descriptors = (self._listener.fileno(), self._alive, self._notify_end)
        self.process = start("relay", config, descriptors, self.errors)

    def connect(self) -> socket.socket:
        """Return a new connection of a client."""
        client = socket.create_connection(("127.0.0.1", self.port))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.settimeout(PATIENCE)
        return client

    def head(self, *headers: str, method: str = "GET", path: str = "/v1") -> bytes:
        """Return the head of a request to the upstream."""
        first = f"{method} {self.base}{path} HTTP/1.1"
        return "\r\n".join([first, f"Host: {self.host}", *headers, "", ""]).encode()

    def exchanges(self) -> list[Recorded]:
        """Return the exchanges in the journal now, in order."""
        found: dict[int, Recorded] = {}
        for record in JournalReader(self.folder):
            found.setdefault(record.exchange, Recorded()).records.append(record)
        return list(found.values())

    def ended(self, number: int) -> list[Recorded]:
        """Wait until so many exchanges have ended, and return them; a relay that is gone ends its own."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = [each for each in self.exchanges() if _end_of(each)]
            if len(found) >= number or time.monotonic() > deadline:
                return found
            time.sleep(0.01)

    def printed(self) -> str:
        """Return what the process has printed: nothing, if all is well."""
        self.errors.seek(0)
        return self.errors.read().decode()

    def stop(self) -> int:
        """Let the relay see the end of its supervisor, and return its exit code."""
        if self._alive_end >= 0:
            os.close(self._alive_end)
            self._alive_end = -1
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        """Stop the relay and free what it was given."""
        self.stop()
        for number in (self._alive, self._notify, self._notify_end):
            os.close(number)
        self._listener.close()
        self.errors.close()


def _end_of(recorded: Recorded) -> bool:
    # The reader adds an end of its own where it takes the relay for gone.
    return any(record.kind == "end" and b"relay-stopped" not in record.payload for record in recorded.records)


@contextmanager
def relay(folder: Path, upstream: str | int, **options: Any) -> Iterator[Relay]:
    """Run a relay before a server, given by its URL or its port on loopback."""
    url = f"http://127.0.0.1:{upstream}" if isinstance(upstream, int) else upstream
    running = Relay(folder, url, **options)
    try:
        yield running
    finally:
        running.close()


@contextmanager
def server(handler: Handler | None = None) -> Iterator[Server]:
    """Run a server."""
    running = Server()
    if handler:
        running.handler = handler
    try:
        yield running
    finally:
        running.close()


@contextmanager
def talking(folder: Path, handler: Handler, **options: Any) -> Iterator[tuple[Relay, socket.socket]]:
    """Run a server and a relay before it, and connect a client."""
    with (
        server(handler) as upstream,
        relay(folder / "run", upstream.port, **options) as running,
        running.connect() as client,
    ):
        yield running, client


def read(connection: socket.socket, size: int) -> bytes:
    """Return so many bytes, or fewer where the other side has closed."""
    received = b""
    while len(received) < size:
        data = connection.recv(min(1 << 20, size - len(received)))
        if not data:
            break
        received += data
    return received


def read_head(connection: socket.socket) -> bytes:
    """Return the bytes up to an empty line."""
    received = b""
    while not received.endswith(b"\r\n\r\n"):
        data = connection.recv(1)
        if not data:
            break
        received += data
    return received


def read_all(connection: socket.socket) -> bytes:
    """Return the bytes up to the end of the connection."""
    return read(connection, 1 << 40)


def is_closed(connection: socket.socket, seconds: float = PATIENCE) -> bool:
    """Wait for the end of a connection on which nothing else comes."""
    readable, _, _ = select.select([connection], [], [], seconds)
    if not readable:
        return False
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
