"""Credentials pass a tap and never reach the disk, wherever in a head they are."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import random
import socket
import string
import threading
from pathlib import Path
from queue import Queue

import h11
import pytest

from stenolog.apps.tap.heads import recorded_target
from stenolog.apps.tap.journal import JournalReader
from stenolog.apps.tap.journal_writer import JournalWriter
from stenolog.apps.tap.relay.copies import Recording, RequestCopy
from tests.file_bytes import words_in
from tests.tap.given import Relay, read, read_all, read_head, relay, server, talking

CHARACTERS = string.ascii_letters + string.digits
CREDENTIAL_HEADERS = (
    "Authorization", "x-api-key", "X-Goog-Format-Key", "api-key", "Cookie", "Proxy-Authorization",
    "x-amz-security-token", "openai-organization", "X-Auth-Token", "x-codex-auth-token",
    "x-stainless-api-key",
    "X-Custom-Header", "x-claude-code-oauth-token", "Referer", "x-session-cookie", "chatgpt-account-id",
)  # fmt: skip
ALLOWED_HEADERS = ("User-Agent", "x-app", "x-session-id", "anthropic-beta", "originator")
QUERY_NAMES = ("key", "api_key", "access_token", "token", "sig", "auth", "alt", "beta", "api-version")
SHAPES = (
    "sk-ant-api03-{}",
    "sk-proj-{}",
    "eyJ{}.eyJzdWIiOjF9.x",
    "AIza{}",
    "ghp_{}",
    "github_pat_{}",
    "ya29.{}",
)


def planted(count: int) -> list[str]:
    """Return so many secrets without a form of their own."""
    chance = random.Random(1)
    return ["".join(chance.choices(CHARACTERS, k=40)) for _ in range(count)]


def requests(running: Relay, secrets: list[str]) -> list[bytes]:
    """Return requests with one secret each: in any header, in an allowed one by its form, in the target."""
    made = []
    for number, secret in enumerate(secrets):
        target, header = f"{running.base}/v1/models", ""
        shaped = SHAPES[number % len(SHAPES)].format(secret)
        match number % 5:
            case 0 | 1:
                header = f"{CREDENTIAL_HEADERS[number % len(CREDENTIAL_HEADERS)]}: Bearer {secret}\r\n"
            case 2:
                header = f"{ALLOWED_HEADERS[number % len(ALLOWED_HEADERS)]}: agent {shaped}\r\n"
            case 3:
                name = QUERY_NAMES[number % len(QUERY_NAMES)]
                target += f"?{name}={secret if name not in ('alt', 'beta', 'api-version') else shaped}"
            case _:
                target = f"{running.base}/hooks/{shaped}"
        made.append(f"GET {target} HTTP/1.1\r\nHost: {running.host}\r\n{header}\r\n".encode())
    return made


def on_disk(folder: Path) -> bytes:
    return b"".join(words_in(path) for path in folder.rglob("*") if path.is_file())


def test_fifty_planted_credentials_reach_the_server_and_none_the_disk(tmp_path: Path) -> None:
    secrets, answered = planted(50), planted(60)[50:]
    received: list[bytes] = []
    cookies = "".join(
        f"set-cookie: a={secret}\r\nx-key-{at}: {secret}\r\n" for at, secret in enumerate(answered)
    )
    answer = (
        f"HTTP/1.1 200 OK\r\n{cookies}x-request-id: sk-{answered[0]}\r\ncontent-length: 2\r\n\r\nok".encode()
    )

    def speak(connection: socket.socket) -> None:
        while head := read_head(connection):
            received.append(head)
            connection.sendall(answer)

    with server(speak) as upstream, relay(tmp_path / "run", upstream.port) as running:
        with running.connect() as client:
            sent = requests(running, secrets)
            for request in sent:
                client.sendall(request)
                assert read(client, len(answer)) == answer
        assert len(running.ended(50)) == 50
        printed = running.printed()
    disk = on_disk(tmp_path)
    reached = b"".join(received)

    # A proxy's own credentials are for the proxy: they alone go no further.
    stopped = [secret for secret in secrets if secret.encode() not in reached]
    assert len(stopped) == sum(b"Proxy-Auth" in request for request in sent)
    # Not even a part is recorded, so a part is what is looked for.
    found = [
        secret for secret in (*secrets, *answered) if secret[8:20].encode() in disk or secret[:12] in printed
    ]
    assert found == []
    assert disk.count(b'"method":"GET"') == 50
    assert disk.count(b'"redacted":true') == disk.count(b"[redacted]") - disk.count(b'"x-request-id"')


def test_a_password_in_the_upstream_s_url_goes_up_and_not_to_the_disk(tmp_path: Path) -> None:
    received: list[bytes] = []

    def speak(connection: socket.socket) -> None:
        received.append(read_head(connection))
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    with server(speak) as upstream:
        url = f"http://user:pass%40word@127.0.0.1:{upstream.port}/proxy"
        with relay(tmp_path / "run", url) as running, running.connect() as client:
            client.sendall(running.head())
            assert read_all(client) == b"HTTP/1.1 204 No Content\r\n\r\n"
            running.ended(1)
    disk = on_disk(tmp_path)

    pair = base64.b64encode(b"user:pass@word")
    assert received[0].startswith(b"GET /proxy/v1 HTTP/1.1\r\n")
    assert b"Authorization: Basic " + pair in received[0]
    assert [
        secret for secret in (b"pass", pair, b"user:") if secret in disk.replace(b"user-agent", b"")
    ] == []


def test_a_body_that_is_too_large_to_be_redacted_goes_up_as_it_comes_and_is_not_recorded(
    tmp_path: Path,
) -> None:
    part, number = b"x" * (1 << 20), 80
    received: Queue[int] = Queue()

    def speak(connection: socket.socket) -> None:
        read_head(connection)
        received.put(len(read(connection, 70 << 20)))
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
        received.put(len(read(connection, 10 << 20)))

    with talking(tmp_path, speak, redacts=True) as (running, client):
        client.sendall(running.head(f"Content-Length: {number << 20}", method="POST"))
        for _ in range(75):
            client.sendall(part)
        # The upstream answers to what has gone up, before the client has sent the remainder.
        assert read_head(client) == b"HTTP/1.1 204 No Content\r\n\r\n"
        for _ in range(5):
            client.sendall(part)
        (exchange,) = running.ended(1)
    assert received.get(timeout=60) + received.get(timeout=60) == number << 20
    assert exchange.content("body") == b""
    assert exchange.json("ready")["redacted"] == ["too-large"]


def test_a_long_body_is_redacted_beside_the_loop_which_forwards_others_meanwhile(tmp_path: Path) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def redact(content: bytes, encoding: str) -> tuple[bytes, tuple[str, ...]]:
        begun.set()
        assert may_end.wait(30)
        return content.replace(b"secret", b"[redacted]"), ("assigned",)

    async def fed() -> list[bytes]:
        writer = JournalWriter(tmp_path, 1)
        recording = Recording(writer, "run", 0, redact=redact)
        parser = h11.Connection(h11.SERVER)
        parser.receive_data(f"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        parser.next_event()
        copy = RequestCopy(recording, 1, parser)
        copy.feed(body)
        assert copy.takes_long
        redacting = asyncio.create_task(copy.redact_apart())
        while not begun.is_set():
            await asyncio.sleep(0)  # the loop goes round
        may_end.set()
        await redacting
        copy.ready()
        recording.flush()
        await asyncio.to_thread(writer.close)
        return [record.payload for record in JournalReader(tmp_path) if record.kind == "body"]

    body = b"a secret " * 20_000
    assert b"".join(asyncio.run(fed())) == b"a [redacted] " * 20_000


def test_where_no_secrets_can_be_looked_for_traffic_goes_on_and_nothing_is_recorded(tmp_path: Path) -> None:
    received: list[bytes] = []

    def speak(connection: socket.socket) -> None:
        read_head(connection)
        received.append(read(connection, len(body)))
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    body = gzip.compress(b"no text: \xff" * 30_000)
    with talking(tmp_path, speak, redacts=True) as (running, client):
        size = f"Content-Length: {len(body)}"
        client.sendall(running.head(size, "Content-Encoding: gzip", method="POST") + body)
        assert read_head(client).split()[1] == b"204"
        (exchange,) = running.ended(1)
    assert received == [body]
    assert exchange.content("body") == b""
    assert exchange.json("ready")["redacted"] == ["unreadable"]


def test_a_client_that_goes_while_its_body_is_redacted_leaves_no_request_behind(tmp_path: Path) -> None:
    body = json.dumps({"text": 'token: "\\u00e4" secret key\n' * 30_000}).encode()
    received: list[bytes] = []

    def speak(connection: socket.socket) -> None:
        received.append(read_head(connection))
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    with server(speak) as upstream, relay(tmp_path / "run", upstream.port, redacts=True) as running:
        with running.connect() as client:
            client.sendall(running.head(f"Content-Length: {len(body)}", method="POST") + body)
        (gone,) = running.ended(1)
        with running.connect() as client:
            client.sendall(running.head(path="/next"))
            assert read_head(client).split()[1] == b"204"
    assert gone.json("end")["reason"] == "client-closed"
    assert [head.split()[1] for head in received if head] == [b"/next"]


@pytest.mark.parametrize(("protocol", "status"), [("h2c", b"101"), ("websocket", b"501")])
def test_no_byte_of_another_protocol_is_recorded_under_redact(
    tmp_path: Path, protocol: str, status: bytes
) -> None:
    switched = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\nfrom there"

    def speak(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(switched)
        connection.sendall(read(connection, 9) + b" and back")

    with talking(tmp_path, speak, redacts=True) as (running, client):
        client.sendall(running.head("Connection: Upgrade", f"Upgrade: {protocol}"))
        assert read_head(client).split()[1] == status
        if status == b"101":
            client.sendall(b"from here")
            assert read_all(client) == b"from therefrom here and back"
            running.ended(1)
    disk = on_disk(tmp_path)

    assert [words for words in (b"from there", b"from here", b"and back") if words in disk] == []


def test_the_journal_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    with server(lambda connection: None) as upstream, relay(tmp_path / "a" / "run", upstream.port) as running:
        with running.connect() as client:
            client.sendall(running.head())
            running.ended(1)
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "a").rglob("*")}

    assert modes == {"run": 0o700, "000001-000001.segment": 0o600}


KEY = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
EVENTS = [
    b'data: {"d": "%s"}\n\n' % part.encode() for part in ("It is ", KEY[:11], KEY[11:25], KEY[25:], "!")
]


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
@pytest.mark.parametrize("cut", [False, True])
def test_an_answer_to_redact_is_passed_on_at_once_and_written_once_it_is_redacted(
    tmp_path: Path, encoding: str, cut: bool
) -> None:
    content = b"".join(EVENTS)
    sent = gzip.compress(content) if encoding == "gzip" else content
    may_end = threading.Event()
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(sent) + cut}\r\n\r\n"

    def speak(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(head.encode() + sent[:-1])
        assert may_end.wait(30)
        connection.sendall(sent[-1:])

    with talking(tmp_path, speak, redacts=True) as (running, client):
        client.sendall(running.head())
        # All of it has come while the server still speaks; so far nothing of it is on disk.
        assert read_head(client) == head.encode()
        assert read(client, len(sent) - 1) == sent[:-1]
        assert [exchange.content("data") for exchange in running.exchanges()] == [b""]
        may_end.set()
        assert read(client, 1) == sent[-1:]
        (exchange,) = running.ended(1)
    end = exchange.json("end")

    texts = [json.loads(line[6:])["d"] for line in exchange.content("data").decode().split("\n") if line]
    assert texts == ["It is ", "[redacted github-token]", "", "", "!"]
    assert (end["redacted"], end["decoded"]) == (["github-token"], True)
    assert end["reason"] == ("upstream-closed" if cut else "")
    assert [part for part in (KEY[:11], KEY[11:25], KEY[25:]) if part.encode() in on_disk(tmp_path)] == []


MALFORMED = [
    "Transfer-Encoding: chunked\r\n\r\nCANARY012zq345\r\nhello\r\n",
    "Transfer-Encoding: chunked\r\n\r\n2\r\n{}CANARY012zq345\r\n0\r\n\r\n",
    "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nAuthorization CANARY012zq345\r\n\r\n",
]


@pytest.mark.parametrize("rest", MALFORMED)
@pytest.mark.parametrize("side", ["request", "answer"])
def test_no_reason_quotes_what_was_not_understood(tmp_path: Path, rest: str, side: str) -> None:
    def speak(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(f"HTTP/1.1 200 OK\r\n{rest}".encode())

    with talking(tmp_path, speak) as (running, client):
        of_request = rest if side == "request" else "\r\n"
        head = f"POST {running.base}/v1 HTTP/1.1\r\nHost: {running.host}\r\n"
        client.sendall((head + of_request).encode())
        read_all(client)
        (exchange,) = running.ended(1)
        printed = running.printed()
    reason = exchange.json("end")["reason"]

    assert reason.startswith(f"{side}-not-understood: a ")
    assert "CANARY" not in reason + printed


def test_what_two_readers_may_read_differently_is_passed_on_and_recorded_as_such(tmp_path: Path) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"

    def speak(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(answer)

    with talking(tmp_path, speak) as (running, client):
        client.sendall(running.head())
        assert read_all(client) == answer
        (exchange,) = running.ended(1)
    assert exchange.json("end")["reason"] == (
        "answer-not-understood: Content-Length beside Transfer-Encoding"
    )


@pytest.mark.parametrize(
    ("path", "recorded"),
    [
        ("/k/CANARY012zq345678901/chat?alt=sse", "/k/[redacted]/chat?alt=sse"),
        ("//user:secret@host/", "//[redacted]host/"),
        (
            "/v1?alt=secret&api-version=2024-10-21&beta=true",
            "/v1?alt=%5Bredacted%5D&api-version=2024-10-21&beta=true",
        ),
        ("/v1/responses/resp_0123456789ABCDEFabcdef0123", "/v1/responses/resp_0123456789ABCDEFabcdef0123"),
        ("/models/gemini-2.5-pro:streamGenerateContent", "/models/gemini-2.5-pro:streamGenerateContent"),
    ],
)
def test_a_target_is_recorded_without_keys_passwords_and_values_that_nobody_knows(
    path: str, recorded: str
) -> None:
    assert recorded_target(path) == recorded
