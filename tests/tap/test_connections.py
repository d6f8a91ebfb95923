"""Connections behave as without a tap: kept alive, closed, cut and cancelled at the same moments."""

from __future__ import annotations

import queue
import socket
import struct
import threading
from pathlib import Path

import pytest

from stenolog.apps.tap.upstreams import parse_upstream
from tests.tap.conftest import Pair
from tests.tap.given import Relay, is_closed, read, read_all, read_head, relay, server

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def request(running: Relay, body: bytes = b"{}", name: str = "test") -> bytes:
    target = running.base.replace("/test", f"/{name}")
    head = f"POST {target}/v1 HTTP/1.1\r\nHost: {running.host}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def answers(connection: socket.socket) -> None:
    """Answer requests with two bytes of body until the client closes."""
    while read_head(connection):
        read(connection, 2)
        connection.sendall(OK)


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def test_requests_of_one_connection_share_one_connection_to_the_server(pair: Pair) -> None:
    with pair.speaking(answers) as client:
        for _ in range(5):
            client.sendall(request(pair.relay))
            assert read(client, len(OK)) == OK

    assert pair.server.connections == 1


def test_requests_sent_before_the_answer_are_answered_in_order(pair: Pair) -> None:
    with pair.speaking(answers) as client:
        client.sendall(request(pair.relay) * 20)
        assert read(client, 20 * len(OK)) == 20 * OK

    assert pair.server.connections == 1


def test_a_server_that_closes_an_idle_connection_closes_the_client_s(pair: Pair) -> None:
    def speak(connection: socket.socket) -> None:
        read(connection, len(read_head(connection)) and 2)
        connection.sendall(OK)

    with pair.speaking(speak) as client:
        client.sendall(request(pair.relay))
        assert read_all(client) == OK


def test_a_408_that_nobody_asked_for_reaches_the_client(pair: Pair) -> None:
    late = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n"

    def speak(connection: socket.socket) -> None:
        read_head(connection)
        read(connection, 2)
        connection.sendall(OK)
        answered.wait(20)
        connection.sendall(late)

    answered = threading.Event()
    with pair.speaking(speak) as client:
        client.sendall(request(pair.relay))
        assert read(client, len(OK)) == OK
        answered.set()
        assert read_all(client) == late


def test_a_request_that_began_before_the_server_closed_goes_over_a_new_connection(pair: Pair) -> None:
    """Nothing of it went up, so it can do no harm; without a tap the client would have to ask again."""
    closed = threading.Event()

    def speak(connection: socket.socket) -> None:
        read_head(connection)
        read(connection, 2)
        connection.sendall(OK)
        if pair.server.connections == 1:
            begun.wait(20)
            connection.shutdown(socket.SHUT_RDWR)
            closed.set()
        else:
            assert is_closed(connection)

    begun, before = threading.Event(), len(pair.relay.exchanges())
    with pair.speaking(speak) as client:
        client.sendall(request(pair.relay))
        assert read(client, len(OK)) == OK
        client.sendall(request(pair.relay)[:-1])
        while len(pair.relay.exchanges()) < before + 2:
            threading.Event().wait(0.01)
        begun.set()
        closed.wait(20)
        client.sendall(b"}")
        assert read(client, len(OK)) == OK

    assert pair.server.connections == 2


def test_a_client_that_disconnects_cancels_the_server_s_work(pair: Pair) -> None:
    cancelled: queue.Queue[bool] = queue.Queue()

    def speak(connection: socket.socket) -> None:
        read_head(connection)
        read(connection, 2)
        connection.sendall(CHUNKED + b"5\r\nhello\r\n")
        cancelled.put(is_closed(connection))

    with pair.speaking(speak) as client:
        client.sendall(request(pair.relay))
        assert read(client, len(CHUNKED) + 10) == CHUNKED + b"5\r\nhello\r\n"

    assert cancelled.get(timeout=20)
    recorded = pair.last()
    assert recorded.json("end")["reason"] == "client-closed"
    assert recorded.content("data") == b"hello"


def test_a_client_that_leaves_in_mid_request_sends_nothing_up(pair: Pair) -> None:
    got: queue.Queue[bytes] = queue.Queue()
    pair.server.handler = lambda connection: got.put(read_all(connection))
    before = len(pair.relay.exchanges())
    with pair.relay.connect() as client:
        client.sendall(request(pair.relay)[:-1])
        while not (pair.server.connections and pair.relay.exchanges()[before:][-1:]):
            threading.Event().wait(0.01)

    recorded = pair.last()
    assert got.get(timeout=20) == b""
    assert recorded.kinds == ["request", "body", "end"]
    assert recorded.json("end")["reason"] == "client-closed"


def test_an_answer_that_is_cut_is_cut_for_the_client_and_its_part_is_recorded(pair: Pair) -> None:
    def speak(connection: socket.socket) -> None:
        read_head(connection)
        read(connection, 2)
        connection.sendall(CHUNKED + b"5\r\nhello\r\n9\r\nwor")

    with pair.speaking(speak) as client:
        client.sendall(request(pair.relay))
        assert read_all(client) == CHUNKED + b"5\r\nhello\r\n9\r\nwor"

    recorded = pair.last()
    assert recorded.json("end")["reason"] == "upstream-closed"
    assert recorded.content("data") == b"hellowor"


def test_a_reset_of_an_answer_without_a_length_is_a_reset_for_the_client(pair: Pair) -> None:
    """An orderly end would make the part look like all of it."""
    part = b"HTTP/1.1 200 OK\r\n\r\npart"
    arrived = threading.Event()

    def speak(connection: socket.socket) -> None:
        read_head(connection)
        read(connection, 2)
        connection.sendall(part)
        arrived.wait(20)
        reset(connection)

    with pair.speaking(speak) as client:
        client.sendall(request(pair.relay))
        assert read(client, len(part)) == part
        arrived.set()
        with pytest.raises(ConnectionResetError):
            read_all(client)

    assert pair.last().json("end")["reason"].startswith("upstream-failed: ")


def test_a_server_that_closes_without_an_answer_leaves_the_client_without_one(pair: Pair) -> None:
    def speak(connection: socket.socket) -> None:
        read_head(connection)

    with pair.speaking(speak) as client:
        client.sendall(request(pair.relay))
        assert is_closed(client)

    assert pair.last().json("end")["reason"] in (
        "upstream-closed",
        "upstream-failed: Connection reset by peer",
    )


def test_an_answer_that_is_not_understood_passes_and_the_client_goes_on(pair: Pair) -> None:
    odd = b"HTTP/1.1 200 OK\r\nA name: x\r\ncontent-length: 2\r\n\r\nok"

    def speak(connection: socket.socket) -> None:
        while read_head(connection):
            read(connection, 2)
            connection.sendall(odd)

    with pair.speaking(speak) as client:
        for _ in range(3):
            client.sendall(request(pair.relay))
            assert read(client, len(odd)) == odd

    assert pair.last().json("end")["reason"] in ("client-closed", "upstream-closed")
    assert pair.server.connections == 3


def test_an_answer_in_mid_body_is_relayed_and_the_body_is_not_sent_on(pair: Pair) -> None:
    refused = b"HTTP/1.1 413 Payload Too Large\r\ncontent-length: 3\r\nconnection: close\r\n\r\nbig"
    received: queue.Queue[int] = queue.Queue()

    def speak(connection: socket.socket) -> None:
        read_head(connection)
        part = read(connection, 1 << 20)
        connection.sendall(refused)
        connection.shutdown(socket.SHUT_WR)
        received.put(len(part) + len(read_all(connection)))

    pair.server.handler = speak
    body = b"x" * (20 << 20)
    with pair.relay.connect() as client:
        client.sendall(request(pair.relay, body))
        assert read_all(client) == refused

    assert received.get(timeout=20) <= len(body)
    recorded = pair.last()
    assert recorded.json("response")["status"] == 413
    assert recorded.json("end")["reason"] == ""


def test_a_server_that_resets_in_mid_body_ends_the_client_s_connection(pair: Pair) -> None:
    def speak(connection: socket.socket) -> None:
        read_head(connection)
        read(connection, 1 << 20)
        reset(connection)

    with pair.speaking(speak) as client:
        client.sendall(request(pair.relay, b"x" * (20 << 20)))
        assert is_closed(client)

    assert pair.last().json("end")["reason"].startswith("upstream-")


def test_a_client_that_does_not_read_stops_the_server_and_then_gets_everything(pair: Pair) -> None:
    content = bytes(range(256)) * (40 << 12)
    sent = threading.Event()

    def speak(connection: socket.socket) -> None:
        read_head(connection)
        read(connection, 2)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(content) + content)
        sent.set()

    with pair.speaking(speak) as client:
        client.sendall(request(pair.relay))
        assert not sent.wait(0.5)
        assert read_all(client).endswith(content)

    assert pair.last().content("data") == content


def test_a_server_that_cannot_be_reached_is_a_502_that_names_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with relay(tmp_path / "run", port) as running, running.connect() as client:
        client.sendall(request(running))
        answer = read_all(client)
        (recorded,) = running.ended(1)

    assert answer.startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
    assert f"cannot reach http://127.0.0.1:{port}".encode() in answer
    assert recorded.json("end")["reason"].startswith("upstream-failed: ")
    assert recorded.content("body") == b"{}"


def test_a_connection_may_name_another_upstream_with_each_request(tmp_path: Path) -> None:
    with server(answers) as one, server(answers) as other:
        running = Relay(tmp_path / "run", f"http://127.0.0.1:{one.port}")
        running.stop()
        running.upstreams["other"] = parse_upstream("other", f"http://127.0.0.1:{other.port}")
        with relay(tmp_path / "both", one.port) as both:
            both.upstreams = running.upstreams
            both.process.terminate()
            both.process.wait()
            both.start(2)
            with both.connect() as client:
                for name in ("test", "other", "test"):
                    client.sendall(request(both, name=name))
                    assert read(client, len(OK)) == OK
            recorded = both.ended(3)
        running.close()

    assert (one.connections, other.connections) == (2, 1)
    assert [each.json("request")["upstream"] for each in recorded] == ["test", "other", "test"]


def test_the_end_of_the_supervisor_ends_the_relay_and_its_exchanges(tmp_path: Path) -> None:
    def speak(connection: socket.socket) -> None:
        read_head(connection)
        read(connection, 2)
        connection.sendall(CHUNKED + b"5\r\nhello\r\n")
        assert is_closed(connection)

    with server(speak) as upstream, relay(tmp_path / "run", upstream.port) as running:
        with running.connect() as client:
            client.sendall(request(running))
            read(client, len(CHUNKED) + 10)
            assert running.stop() == 0
            assert is_closed(client)
        (recorded,) = running.exchanges()

    assert recorded.json("end")["reason"] == "tap-ended"
    assert recorded.content("data") == b"hello"
