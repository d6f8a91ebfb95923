"""A provider on 127.0.0.1 that answers by script, over real HTTP/1.1, and keeps what it was sent.

    with Server() as server:
        server.add(Reply(frames(answer)), Reply(frames(answer), end="cut"), failure(429, {...}))

A reply consists of frames, each written as one chunk. A file for each provider (`wire_….py`) makes them of a
neutral `ModelResponse`, so that a test expects from the model what it has put in here.
"""

from __future__ import annotations

import json
import select
import socket
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, Literal, NamedTuple

End = Literal["done", "cut", "hang"]
STREAM = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json"}


class Reply(NamedTuple):
    """What to answer: frames with a pause (in seconds) before each, then an end.

    done: the answer is whole. cut: the connection breaks off. hang: nothing more comes until the client
    leaves or the server closes. `status` 0 hangs, or cuts, before there is a status line.
    """

    frames: Iterable[bytes] = ()
    pause: float = 0.0
    end: End = "done"
    status: int = 200
    headers: Mapping[str, str] = STREAM


def failure(status: int, body: Any, **headers: str) -> Reply:
    """Return an error with a JSON body, or with the bytes given, and with the header `retry-after`."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply([content], status=status, headers=JSON | named)


SILENCE = Reply(status=0, end="hang")
CUT = Reply(status=0, end="cut")


def sse(data: Any, event: str = "") -> bytes:
    """Return one server-sent event: `data` as JSON, or a text as it is."""
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {event}\n" if event else "").encode() + f"data: {text}\n\n".encode()


@dataclass(frozen=True)
class Received:
    """A request: header names in lower case, the body parsed, and its bytes.

    `left` is set when the client goes away before the answer has ended.
    """

    path: str
    headers: Mapping[str, str]
    body: Any
    content: bytes = b""
    left: Event = field(default_factory=Event)


class Server:
    """Answers each request with the next reply, or, where none is left, as `otherwise` says."""

    def __init__(self, otherwise: Callable[[Received], Reply] | None = None) -> None:
        self.received: list[Received] = []
        self.replies: deque[Reply] = deque()
        self.otherwise = otherwise or (lambda _: failure(500, {"error": {"message": "no reply is left"}}))
        self.connections: set[socket.socket] = set()
        self.closing = False
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.script = self
        self._thread = Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing = True
        self._http.shutdown()
        for connection in list(self.connections):
            _break(connection)
        self._http.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """The address, with no path."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def bodies(self) -> list[Any]:
        """The bodies that came, in their order."""
        return [request.body for request in self.received]

    def add(self, *replies: Reply) -> None:
        """Add replies to the next requests."""
        self.replies.extend(replies)

    def answer(self, request: Received) -> Reply:
        """Return the reply to a request, which is kept."""
        self.received.append(request)
        return self.replies.popleft() if self.replies else self.otherwise(request)


class _Http(ThreadingHTTPServer):
    daemon_threads = False  # they are joined when the server closes, and none outlives its test
    request_queue_size = 128
    script: Server


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Http

    def setup(self) -> None:
        super().setup()
        self.server.script.connections.add(self.connection)

    def finish(self) -> None:
        self.server.script.connections.discard(self.connection)
        super().finish()

    def handle(self) -> None:
        try:
            super().handle()
        except ConnectionError:
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Say nothing on stderr."""

    def do_POST(self) -> None:
        """Keep the request and play the reply."""
        content = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Received(self.path, headers, json.loads(content or b"null"), content)
        try:
            self._play(self.server.script.answer(request), request)
        except ConnectionError:
            self._gone(request)

    do_GET = do_POST

    def _play(self, reply: Reply, request: Received) -> None:
        # HTTP/1.0 has no chunks: the end of the connection is the end of the reply.
        chunked = self.request_version != "HTTP/1.0"
        if reply.status:
            self.send_response(reply.status)
            for name, value in {
                **reply.headers,
                **({"transfer-encoding": "chunked"} if chunked else {}),
            }.items():
                self.send_header(name, value)
            self.end_headers()
        for frame in reply.frames:
            if not self._stays(reply.pause):
                return self._gone(request)
            self.wfile.write(b"%x\r\n%b\r\n" % (len(frame), frame) if chunked else frame)
        if reply.end == "done":
            self.wfile.write(b"0\r\n\r\n" if chunked else b"")
        elif reply.end == "cut" or not self._stays(None):
            self._gone(request, left=reply.end == "hang")
        return None

    def _stays(self, seconds: float | None) -> bool:
        """Wait, and say whether the client is still there."""
        readable, _, _ = select.select([self.connection], [], [], seconds)
        return not readable or self.connection.recv(1, socket.MSG_PEEK) != b""

    def _gone(self, request: Received, left: bool = True) -> None:
        if left and not self.server.script.closing:
            request.left.set()
        self.close_connection = True
        _break(self.connection)


def _break(connection: socket.socket) -> None:
    with suppress(OSError):  # the other side was first
        connection.shutdown(socket.SHUT_RDWR)
