"""The socket that a server of this machine listens at."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def server_socket(host: str, port: int) -> Iterator[tuple[socket.socket, str]]:
    """Yield a bound socket and its URL; port 0 is any that is free. Raises OSError for a taken port."""
    family, name = (socket.AF_INET6, f"[{host}]") if ":" in host else (socket.AF_INET, host)
    with socket.create_server((host, port), family=family) as bound:
        # asyncio leaves this out for a socket that it has not made. Without it the body of an answer waits
        # until the client has acknowledged the head, which takes it 40 ms.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield bound, f"http://{name}:{bound.getsockname()[1]}"
