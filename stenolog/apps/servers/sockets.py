"""The socket that a server of this machine listens at: of TCP, or a file that only its user may open."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

UNIX = "unix:"
"""An address that begins so is the path of a socket."""


@contextmanager
def server_socket(host: str, port: int) -> Iterator[tuple[socket.socket, str]]:
    """Yield a bound socket and its URL; port 0 is any that is free. Raises OSError for a taken address.

    For a host `unix:/path` the URL's host is localhost, as a client sends it; the file is removed at the end.
    """
    if host.startswith(UNIX):
        path = host.removeprefix(UNIX)
        with _unix_socket(path) as bound:
            yield bound, "http://localhost"
        return
    family, name = (socket.AF_INET6, f"[{host}]") if ":" in host else (socket.AF_INET, host)
    with socket.create_server((host, port), family=family) as bound:
        # asyncio leaves this out for a socket that it has not made. Without it the body of an answer waits
        # until the client has acknowledged the head, which takes it 40 ms.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield bound, f"http://{name}:{bound.getsockname()[1]}"


def socket_path(host: str) -> dict[str, str]:
    """Return what a command says beside the URL: the path of the socket, if it is a file."""
    return {"socket": host.removeprefix(UNIX)} if host.startswith(UNIX) else {}


@contextmanager
def _unix_socket(path: str) -> Iterator[socket.socket]:
    """Yield a socket bound to a path, with permissions 0600 from its first moment."""
    with socket.socket(socket.AF_UNIX) as bound:
        _remove_if_left(path)
        before = os.umask(0o177)
        try:
            bound.bind(path)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        finally:
            os.umask(before)
        status = os.stat(path)
        bound.listen()
        try:
            yield bound
        finally:
            with suppress(OSError):
                if os.path.samestat(os.stat(path), status):  # another server may have taken the path since
                    os.unlink(path)


def _remove_if_left(path: str) -> None:
    """Remove the socket of a server that was killed. Raises OSError if one listens there, or it is a file."""
    try:
        is_socket = stat.S_ISSOCK(os.lstat(path).st_mode)
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1)
        if is_socket and client.connect_ex(path) == errno.ECONNREFUSED:
            os.unlink(path)
            return
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), path)
