"""Bytes pass a tap unaltered in either direction, and the journal has their content."""

from __future__ import annotations

import gzip
import hashlib
import queue
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zstandard
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection, serve

from tests.tap.conftest import Pair
from tests.tap.given import Recorded, Relay, is_closed, read, read_all, read_head, relay

TEXT = 'data: {"text":"Grüße, 世界 🌍"}\n\n'.encode()
SPLIT = TEXT.index("世".encode()) + 1


def chunked(*parts: bytes, trailers: bytes = b"", extension: bytes = b"") -> bytes:
    framed = b"".join(b"%x%s\r\n%s\r\n" % (len(part), extension, part) for part in parts)
    return framed + b"0\r\n" + trailers + b"\r\n"


def answer(content: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    length = b"content-length: %d" % len(content)
    return b"\r\n".join([b"HTTP/1.1 " + status, length, *headers, b"", content])


def head(*headers: bytes, status: bytes = b"200 OK", version: bytes = b"HTTP/1.1") -> bytes:
    return b"\r\n".join([version + b" " + status, *headers, b"", b""])


CHUNKED = head(b"Transfer-Encoding: chunked", b"Content-Type: text/event-stream")
ANSWERS = {
    "a content with a length": ([answer(b"hello")], b"hello"),
    "no content": ([answer(b"")], b""),
    "odd header names and blanks": (
        [answer(b"x", b"X-oDd:  a  ", b"set-cookie: a=1", b"set-cookie: b=2")],
        b"x",
    ),
    "events in chunks": ([CHUNKED, chunked(TEXT, TEXT)], TEXT * 2),
    "a split inside a character": (
        [CHUNKED, b"%x\r\n" % len(TEXT) + TEXT[:SPLIT], TEXT[SPLIT:] + b"\r\n0\r\n\r\n"],
        TEXT,
    ),
    "a split inside a chunk's length": ([CHUNKED + b"1", b"0\r", b"\n0123456789abcdef\r\n", b"0\r\n\r\n"],
        b"0123456789abcdef"),
    "lines that end with \\r\\n": (
        [CHUNKED, chunked(TEXT.replace(b"\n", b"\r\n"))],
        TEXT.replace(b"\n", b"\r\n"),
    ),
    "trailers and extensions": (
        [CHUNKED + chunked(TEXT, extension=b";a=b", trailers=b"X-Checksum: 1\r\nX-b: 2\r\n")],
        TEXT,
    ),
    "gzip": ([answer(gzip.compress(TEXT), b"Content-Encoding: gzip")], gzip.compress(TEXT, mtime=0)),
    "zstd in chunks": (
        [head(b"Transfer-Encoding: chunked", b"Content-Encoding: zstd"), chunked(zstandard.compress(TEXT))],
        zstandard.compress(TEXT),
    ),
    # A relay does not look into it, so any bytes are as good as brotli's.
    "br": ([answer(bytes(range(256)), b"Content-Encoding: br")], bytes(range(256))),
    "no content by its status": ([head(b"X-a: b", status=b"204 No Content")], b""),
    "not modified": ([head(b"ETag: x", b"content-length: 40", status=b"304 Not Modified")], b""),
    "early hints": ([head(b"Link: </a>", status=b"103 Early Hints"), answer(b"late")], b"late"),
    "an error": ([answer(b'{"error":{}}', status=b"529 Overloaded")], b'{"error":{}}'),
    "a large head": ([answer(b"x", b"x-large: " + b"y" * 50_000)], b"x"),
    "a megabyte": ([answer(bytes(range(256)) * 4096)], bytes(range(256)) * 4096),
}  # fmt: skip
ANSWERS["gzip"] = ([answer(ANSWERS["gzip"][1], b"Content-Encoding: gzip")], ANSWERS["gzip"][1])


def exchange(
    pair: Pair, request: bytes, pieces: list[bytes], *, expected: bytes, closes: bool = False
) -> bytes:
    """Send a request and return what the server received; each piece is sent once the one before came."""
    arrived: queue.Queue[int] = queue.Queue()
    received: queue.Queue[bytes] = queue.Queue()

    def speak(connection: socket.socket) -> None:
        received.put(read(connection, len(expected)))
        for piece in pieces:
            connection.sendall(piece)
            arrived.get(timeout=20)
        if not closes:
            assert is_closed(connection)

    with pair.speaking(speak) as client:
        client.sendall(request)
        for piece in pieces:
            assert read(client, len(piece)) == piece
            arrived.put(len(piece))
        if closes:
            assert read_all(client) == b""
    return received.get(timeout=20)


def forwarded(pair: Pair, request: bytes) -> bytes:
    """Return a request as the server must receive it."""
    return request.replace(pair.relay.base.encode(), b"", 1).replace(
        b"Host: " + pair.relay.host.encode(), b"Host: 127.0.0.1:%d" % pair.server.port
    )


def post(pair: Pair, framed: bytes, *headers: bytes, method: bytes = b"POST") -> bytes:
    first = method + b" " + pair.relay.base.encode() + b"/v1/messages?beta=true HTTP/1.1"
    return b"\r\n".join([first, b"Host: " + pair.relay.host.encode(), *headers, b"", framed])


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_reaches_the_client_byte_by_byte_as_it_comes(pair: Pair, name: str) -> None:
    pieces, content = ANSWERS[name]
    request = post(pair, b"{}", b"content-length: 2")
    received = exchange(pair, request, pieces, expected=forwarded(pair, request))
    recorded = pair.last()

    assert received == forwarded(pair, request)
    assert recorded.content("data") == content
    assert recorded.json("end") == {"reason": "", "sha256": hashlib.sha256(content).hexdigest()}


@pytest.mark.parametrize("version", [b"HTTP/1.1", b"HTTP/1.0"])
def test_an_answer_that_ends_with_its_connection_ends_the_client_s(pair: Pair, version: bytes) -> None:
    request = post(pair, b"{}", b"content-length: 2")
    pieces = [head(b"content-type: text/plain", version=version), b"un", b"til"]
    exchange(pair, request, pieces, expected=forwarded(pair, request), closes=True)
    recorded = pair.last()

    assert recorded.content("data") == b"until"
    assert recorded.json("end")["reason"] == ""


def test_an_answer_to_head_has_a_length_and_no_content(pair: Pair) -> None:
    request = post(pair, b"", b"Accept: */*", method=b"HEAD")
    received = exchange(pair, request, [head(b"content-length: 99")], expected=forwarded(pair, request))

    assert received == forwarded(pair, request)
    assert pair.last().json("end")["reason"] == ""


REQUESTS = {
    "a length": (b"hello", [b"content-length: 5"], b"hello"),
    "no body": (b"", [], b""),
    "chunks, an extension and trailers": (
        chunked(b"hel", b"lo", extension=b";a=1", trailers=b"X-t: 1\r\n"),
        [b"Transfer-Encoding: chunked"],
        b"hello",
    ),
    "odd header names": (b"a", [b"X-oDD:  b ", b"content-Length: 1", b"Authorization: Bearer abc"], b"a"),
    "gzip": (gzip.compress(b"{}", mtime=0), [b"Content-Encoding: gzip", b"content-length: 22"],
        gzip.compress(b"{}", mtime=0)),
    "more than memory has, with a length": (
        b"x" * (3 << 20),
        [b"content-length: %d" % (3 << 20)],
        b"x" * (3 << 20),
    ),
    "more than memory has, in chunks": (
        chunked(*[bytes([65 + n % 26]) * 99_991 for n in range(60)], extension=b";q=AAAA"),
        [b"Transfer-Encoding: chunked"],
        b"".join(bytes([65 + n % 26]) * 99_991 for n in range(60)),
    ),
    "as many chunks as bytes": (chunked(*[b"5"] * 20_000), [b"Transfer-Encoding: chunked"], b"5" * 20_000),
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_reaches_the_server_as_it_was_sent(pair: Pair, name: str) -> None:
    framed, headers, content = REQUESTS[name]
    request = post(pair, framed, *headers)
    received = exchange(pair, request, [answer(b"ok")], expected=forwarded(pair, request))
    recorded = pair.last()

    assert received == forwarded(pair, request)
    assert recorded.content("body") == content
    assert recorded.json("ready") == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    assert recorded.kinds == [kind for kind in ("request", "body", "ready", "response", "data", "end")
        if kind != "body" or content]  # fmt: skip


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_request_may_come_in_pieces_of_any_size(pair: Pair, size: int) -> None:
    request = post(pair, chunked(b"hello", TEXT, trailers=b"X-t: 1\r\n"), b"Transfer-Encoding: chunked")
    expected = forwarded(pair, request)
    received: queue.Queue[bytes] = queue.Queue()

    def speak(connection: socket.socket) -> None:
        received.put(read(connection, len(expected)))
        connection.sendall(answer(b"ok"))

    with pair.speaking(speak) as client:
        for at in range(0, len(request), size):
            client.sendall(request[at : at + size])
        assert read_all(client) == answer(b"ok")

    assert received.get(timeout=20) == expected
    assert pair.last().content("body") == b"hello" + TEXT


def test_a_client_that_waits_for_100_gets_it_from_the_tap_and_the_server_is_not_asked(pair: Pair) -> None:
    received: queue.Queue[bytes] = queue.Queue()

    def speak(connection: socket.socket) -> None:
        received.put(read_head(connection) + read(connection, 5))
        connection.sendall(answer(b"ok"))

    pair.server.handler = speak
    request = post(pair, b"", b"Expect: 100-continue", b"content-length: 5", b"X-last: 1")
    with pair.relay.connect() as client:
        client.sendall(request)
        assert read_head(client) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"hello")
        assert read_all(client) == answer(b"ok")

    assert (
        received.get(timeout=20)
        == forwarded(pair, request).replace(b"Expect: 100-continue\r\n", b"") + b"hello"
    )


# A websocket passes a tap as it is, and each message is on disk before it goes up.


HEADERS = {"Authorization": "Bearer sk-a-secret-of-the-user", "x-session-id": "s1"}


@contextmanager
def echoing(folder: Path) -> Iterator[tuple[Relay, list[str]]]:
    """Run a server that answers each message with three, before it a relay."""
    compressed: list[str] = []

    def echo(connection: ServerConnection) -> None:
        assert connection.request is not None
        assert connection.request.path == "/v1/responses"
        compressed.append(connection.request.headers.get("Sec-WebSocket-Extensions", ""))
        for message in connection:
            for _ in range(3):
                connection.send(message)

    with serve(echo, "127.0.0.1", 0) as upstream:
        threading.Thread(target=upstream.serve_forever, daemon=True).start()
        try:
            with relay(folder, upstream.socket.getsockname()[1]) as running:
                yield running, compressed
        finally:
            upstream.shutdown()


def up_sizes(recorded: Recorded) -> int:
    return len(recorded.content("up"))


@pytest.mark.parametrize("compression", [None, "deflate"])
def test_messages_of_both_sides_pass_and_are_recorded(tmp_path: Path, compression: str | None) -> None:
    messages = ["hello", "Grüße 🌍" * 1000, "x" * 300_000]
    with echoing(tmp_path / "run") as (running, compressed):
        url = f"ws://{running.host}{running.base}/v1/responses"
        with connect(url, additional_headers=HEADERS, compression=compression, max_size=None) as client:
            for message in messages:
                client.send(message)
                for _ in range(3):
                    assert client.recv(timeout=20) == message
        (recorded,) = running.ended(1)
        printed = running.printed()

    assert ("permessage-deflate" in compressed[0]) == (compression is not None)
    assert recorded.kinds == ["request", "ready", "response", "up", "down", "end"]
    assert recorded.json("response")["status"] == 101
    assert recorded.json("end")["reason"] in ("", "client-closed")
    sizes = sum(len(message.encode()) for message in messages)
    assert (up_sizes(recorded) > sizes) == (compression is None)
    assert ["x-session-id", "s1"] in recorded.json("request")["headers"]
    assert "sk-a-secret" not in str(recorded)
    assert printed == ""


def test_a_message_stands_in_the_journal_before_the_server_has_it(tmp_path: Path) -> None:
    found: list[int] = []

    def check(connection: ServerConnection) -> None:
        for _ in connection:
            found.append(up_sizes(running.exchanges()[-1]))
            connection.send("seen")

    with serve(check, "127.0.0.1", 0) as upstream:
        threading.Thread(target=upstream.serve_forever, daemon=True).start()
        with (
            relay(tmp_path / "run", upstream.socket.getsockname()[1]) as running,
            connect(f"ws://{running.host}{running.base}/v1", compression=None) as client,
        ):
            for size in (10, 1000, 60_000):
                client.send("y" * size)
                assert client.recv(timeout=20) == "seen"
        upstream.shutdown()

    assert found[0] > 10
    assert found[1] > 1010
    assert found[2] > 61_010


def test_a_server_that_refuses_or_closes_a_websocket_is_passed_on(tmp_path: Path) -> None:
    with echoing(tmp_path / "run") as (running, _):
        with pytest.raises(InvalidStatus) as raised:
            connect(f"ws://{running.host}/wrong/test/v1/responses")
        assert raised.value.response.status_code == 403

    with serve(lambda connection: connection.close(1008, "no"), "127.0.0.1", 0) as upstream:
        threading.Thread(target=upstream.serve_forever, daemon=True).start()
        with (
            relay(tmp_path / "closing", upstream.socket.getsockname()[1]) as running,
            connect(f"ws://{running.host}{running.base}/v1") as client,
            pytest.raises(ConnectionClosed) as closed,
        ):
            client.recv(timeout=20)
        upstream.shutdown()

    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1008, "no")
