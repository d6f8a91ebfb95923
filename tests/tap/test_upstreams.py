"""A tap reaches its upstream over TLS, and through the proxy that the environment names."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from stenolog.apps.tap.relay.guard import Guard
from tests.command_line import run
from tests.tap.conftest import Pair
from tests.tap.given import TOKEN, Handler, Relay, Server, is_closed, read, read_all, read_head, relay, server

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
NAME = "provider.test"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with a certificate of this server's and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl, which makes the certificate, is not installed")
    folder = tmp_path_factory.mktemp("tls")
    key, made, both = folder / "key.pem", folder / "made.pem", folder / "both.pem"
    names = f"subjectAltName=DNS:{NAME},DNS:localhost,IP:127.0.0.1"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={NAME}",
         "-addext", names, "-keyout", str(key), "-out", str(made)],
        check=True, capture_output=True,
    )  # fmt: skip
    both.write_bytes(made.read_bytes() + key.read_bytes())
    return both


@pytest.fixture
def context(certificate: Path) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(certificate)
    made.set_alpn_protocols(["h2", "http/1.1"])
    return made


def secured(context: ssl.SSLContext, handler: Handler) -> Handler:
    """Return a handler that speaks TLS first."""

    def speak(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as wrapped:
            assert wrapped.selected_alpn_protocol() == "http/1.1"
            handler(wrapped)

    return speak


def answers(connection: socket.socket) -> None:
    while head := read_head(connection):
        read(connection, int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]))
        connection.sendall(OK)


def ask(running: Relay, client: socket.socket, size: int = 2) -> bytes:
    client.sendall(running.head(f"Content-Length: {size}", method="POST") + b"x" * size)
    return read(client, len(OK))


@pytest.mark.parametrize("told_in", ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"])
def test_requests_go_over_one_tls_connection_as_http_1(
    told_in: str,
    tmp_path: Path,
    context: ssl.SSLContext,
    certificate: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(told_in, str(certificate))
    with server(secured(context, answers)) as upstream:
        url = f"https://localhost:{upstream.port}"
        with relay(tmp_path / "run", url) as running, running.connect() as client:
            assert [ask(running, client, size) for size in (2, 80_000, 3 << 20)] == [OK] * 3
            recorded = running.ended(3)
            assert running.printed() == ""

    assert upstream.connections == 1
    assert [len(each.content("body")) for each in recorded] == [2, 80_000, 3 << 20]


def test_a_certificate_that_nobody_vouches_for_is_a_502_that_says_so(
    tmp_path: Path, context: ssl.SSLContext
) -> None:
    got: list[bytes] = []
    with (
        server(secured(context, lambda connection: got.append(read_all(connection)))) as upstream,
        relay(tmp_path / "run", f"https://localhost:{upstream.port}") as running,
    ):
        with running.connect() as client:
            client.sendall(running.head())
            answer = read_all(client)
        (recorded,) = running.ended(1)

    assert answer.startswith(b"HTTP/1.1 502")
    assert b"certificate" in answer.lower()
    assert recorded.json("end")["reason"].startswith("upstream-failed: ")
    assert got == []


def test_a_client_that_leaves_closes_the_tls_connection(
    tmp_path: Path, context: ssl.SSLContext, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    closed = threading.Event()

    def speak(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(OK[:-1])
        try:
            ended = is_closed(connection)
        except ssl.SSLError:
            ended = True  # without the goodbye of TLS, as of a client that was killed
        if ended:
            closed.set()

    with (
        server(secured(context, speak)) as upstream,
        relay(tmp_path / "run", f"https://localhost:{upstream.port}") as running,
    ):
        with running.connect() as client:
            client.sendall(running.head())
            assert read(client, len(OK) - 1) == OK[:-1]
        assert closed.wait(20)
        (recorded,) = running.ended(1)

    assert recorded.json("end")["reason"] == "client-closed"


class Proxy:
    """An HTTP proxy that leads every CONNECT to one port of this machine."""

    def __init__(self, port: int) -> None:
        self.heads: list[bytes] = []
        self._port = port

    def speak(self, connection: socket.socket) -> None:
        """Answer a CONNECT, and pass bytes on."""
        self.heads.append(read_head(connection))
        with socket.create_connection(("127.0.0.1", self._port)) as onward:
            connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=passed_on, args=[onward, connection])
            back.start()
            passed_on(connection, onward)
            back.join()


def passed_on(one: socket.socket, other: socket.socket) -> None:
    try:
        while data := one.recv(65536):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
    except OSError:
        pass


@pytest.fixture
def provider(context: ssl.SSLContext) -> Iterator[Server]:
    with server(secured(context, answers)) as running:
        yield running


def test_a_proxy_of_the_environment_is_used_for_what_is_not_of_this_machine(
    tmp_path: Path, provider: Server, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = Proxy(provider.port)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with server(proxy.speak) as proxying:
        monkeypatch.setenv("HTTPS_PROXY", f"http://user:pass@127.0.0.1:{proxying.port}")
        with relay(tmp_path / "run", f"https://{NAME}") as running, running.connect() as client:
            assert [ask(running, client), ask(running, client)] == [OK, OK]
            assert running.printed() == ""

    assert [head.split(b"\r\n")[:3] for head in proxy.heads] == [
        [
            f"CONNECT {NAME}:443 HTTP/1.1".encode(),
            f"Host: {NAME}:443".encode(),
            b"Proxy-Authorization: Basic dXNlcjpwYXNz",
        ]
    ]


def test_a_proxy_that_refuses_is_a_502_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")

    with server(refuse) as proxying:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxying.port}")
        with relay(tmp_path / "run", f"https://{NAME}") as running, running.connect() as client:
            client.sendall(running.head())
            answer = read_all(client)

    assert answer.endswith(b"cannot reach https://provider.test: the proxy refused: status 407\n")


# The door of a tap is closed: without the token, by another host name, and for pages of other sites.


def refused(pair: Pair, head: str) -> bytes:
    """Return the answer to a request; the server must not hear of it."""
    with pair.relay.connect() as client:
        client.sendall(head.replace("HOST", pair.relay.host).encode())
        answer = read_all(client)
    assert pair.server.connections == 0
    assert not any(
        TOKEN in record.payload.decode() for each in pair.relay.exchanges() for record in each.records
    )
    return answer


@pytest.mark.parametrize(
    "head",
    [
        "GET /wrong/test/v1 HTTP/1.1\r\nHost: HOST\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: HOST\r\n\r\n",
        f"GET /{TOKEN}x/test/v1 HTTP/1.1\r\nHost: HOST\r\n\r\n",
        f"GET /{TOKEN}/unlisted/v1 HTTP/1.1\r\nHost: HOST\r\n\r\n",
        f"GET /{TOKEN} HTTP/1.1\r\nHost: HOST\r\n\r\n",
        f"GET http://HOST/{TOKEN}/test/v1 HTTP/1.1\r\nHost: HOST\r\n\r\n",
        f"GET /{TOKEN}/test/v1 HTTP/1.1\r\nHost: evil.example:80\r\n\r\n",
        f"GET /{TOKEN}/test/v1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n",
        f"GET /{TOKEN}/test/v1 HTTP/1.1\r\nHost: HOST\r\nOrigin: https://evil.example\r\n\r\n",
        f"GET /{TOKEN}/test/v1 HTTP/1.1\r\nHost: HOST\r\nOrigin: null\r\n\r\n",
        f"OPTIONS /{TOKEN}/test/v1 HTTP/1.1\r\nHost: HOST\r\nOrigin: https://evil.example\r\n\r\n",
        f"GET /{TOKEN}/test/v1 HTTP/1.1\r\nHost: HOST\r\nSec-Fetch-Site: cross-site\r\n\r\n",
        "GET /wrong/test HTTP/1.1\r\nHost: HOST\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    ],
)
def test_what_may_not_pass_is_a_403_and_nothing_goes_up(pair: Pair, head: str) -> None:
    answer = refused(pair, head)

    assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
    assert b"access-control" not in answer.lower()


def test_a_refused_body_is_not_read_in_vain_and_the_reason_arrives(pair: Pair) -> None:
    body = "x" * 500_000
    answer = refused(pair, f"POST /no/test HTTP/1.1\r\nHost: HOST\r\nContent-Length: 500000\r\n\r\n{body}")

    assert answer.endswith(b"403: expected the base URL that `stenolog tap` has set\n")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (f"GET /{TOKEN}/test HTTP/1.1\r\n\r\n", b"400"),
        ("nonsense\r\n\r\n", b"400"),
        ("PRI * HTTP/2.0\r\n\r\n", b"400"),
        (f"POST /{TOKEN}/test HTTP/1.1\r\nHost: HOST\r\nContent-Length: x\r\n\r\n", b"400"),
        (f"GET /{TOKEN}/test HTTP/1.1\r\nHost: HOST\r\nX: {'y' * 300_000}\r\n\r\n", b"431"),
        # What two readers may read differently goes no further.
        (
            f"POST /{TOKEN}/test HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\n"
            "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"400",
        ),
        (f"GET /{TOKEN}/test HTTP/1.1\r\nHost: HOST\r\nX: a\r\n b\r\n\r\n", b"400"),
        (f"POST /{TOKEN}/test HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding:\r\n\tchunked\r\n\r\n", b"400"),
        (f"GET /{TOKEN}/test HTTP/1.1\r\nHost: HOST\nX: a\r\n\r\n", b"400"),
        # Without the token nothing is waited for, and no letter of it is told.
        ("GET /wrong-token-here/test/v1 HTTP/1.1\r\n", b"403"),
        (f"GET /{TOKEN[:-1]}x/test", b"403"),
        ("x" * 40, b"403"),
    ],
)
def test_what_is_no_request_is_refused(pair: Pair, head: str, status: bytes) -> None:
    assert refused(pair, head).startswith(b"HTTP/1.1 " + status)


def test_a_part_of_the_token_is_answered_as_any_other_beginning() -> None:
    guard = Guard(TOKEN, {}, "127.0.0.1", 80)
    begun = f"GET /{TOKEN}/"
    for end in range(len(begun)):
        assert guard.has_token(begun[:end].encode()) is None
        assert guard.has_token(f"GET /{'x' * len(TOKEN)}/"[:end].encode()) is None
    assert guard.has_token(begun.encode()) is True
    assert guard.has_token(f"GET /{'x' * len(TOKEN)}/".encode()) is False


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "192.0.2.1:80", "example.com:80", "[::]:0", "127.0.0.1:x"])
def test_only_addresses_of_this_machine_are_listened_at(
    listen: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["tap", "--listen", listen]) == 2
    assert "an address of this machine alone" in capsys.readouterr().err
