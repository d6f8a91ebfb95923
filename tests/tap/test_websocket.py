"""A websocket passes a tap as it is, and each message is on disk before it goes up."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection, serve

from tests.tap.given import Recorded, Relay, relay

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
