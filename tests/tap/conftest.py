"""One relay and one server for the tests of a module, since a process takes a third of a second to start."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.tap.given import Handler, Recorded, Relay, Server, relay, server


class Pair(NamedTuple):
    """A relay and the server that it forwards to."""

    relay: Relay
    server: Server

    def speaking(self, handler: Handler) -> socket.socket:
        """Let the server speak so from now on, and return a new connection of a client."""
        self.server.handler = handler
        return self.relay.connect()

    def last(self) -> Recorded:
        """Wait until every exchange has ended, and return the newest."""
        return self.relay.ended(len(self.relay.exchanges()) or 1)[-1]


@pytest.fixture(scope="module")
def _running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with server() as upstream, relay(tmp_path_factory.mktemp("tap") / "run", upstream.port) as running:
        yield Pair(running, upstream)


@pytest.fixture
def pair(_running: Pair) -> Iterator[Pair]:
    """Return the module's relay and server; neither may have printed or raised anything."""
    _running.server.connections = 0
    _running.server.faults.clear()
    yield _running
    assert (_running.server.faults, _running.relay.printed()) == ([], "")
