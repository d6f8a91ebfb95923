"""The socket that `inspect` and `serve` listen at."""

from __future__ import annotations

import socket

from stenolog.apps.servers.sockets import server_socket


def test_no_answer_waits_until_its_head_is_acknowledged() -> None:
    with (
        server_socket("127.0.0.1", 0) as (bound, url),
        socket.create_connection(bound.getsockname()),
        bound.accept()[0] as accepted,
    ):
        assert url == f"http://127.0.0.1:{bound.getsockname()[1]}"
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
