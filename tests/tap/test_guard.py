"""The door of a tap is closed: without the token, by another host name, and for pages of other sites."""

from __future__ import annotations

import pytest

from stenolog.apps.cli import run
from stenolog.apps.tap.relay.guard import Guard
from tests.tap.conftest import Pair
from tests.tap.given import TOKEN, read_all


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
