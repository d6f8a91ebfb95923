"""Bytes pass a tap unaltered in either direction, and the journal has their content."""

from __future__ import annotations

import gzip
import hashlib
import queue
import socket

import pytest
import zstandard

from tests.tap.conftest import Pair
from tests.tap.given import is_closed, read, read_all, read_head

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
