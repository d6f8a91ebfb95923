"""MCP servers as processes of their own."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SCRIPT = str(Path(__file__).parent / "mcp_server.py")


@contextmanager
def serving(port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run the server of the tests over HTTP, until it is left or killed."""
    process = subprocess.Popen([sys.executable, SCRIPT, "http", str(port)], stderr=subprocess.DEVNULL)
    try:
        for _ in range(1_000):
            with socket.socket() as trying:
                if trying.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.01)
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        number: int = found.getsockname()[1]
        return number
