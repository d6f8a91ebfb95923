"""Logs that workers share: in a file, and in a schema of its own in PostgreSQL, with that of its jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.postgres.server import Server
from tests.workers.given import jobs_dropped


@pytest.fixture
def server_log(postgres: Callable[[str], Server]) -> Iterator[str]:
    """Yield the address of a log in PostgreSQL."""
    server = postgres("postgres 15")
    with server.schema() as address:
        yield address
        jobs_dropped(server, address)


@pytest.fixture(params=["file", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Yield the address of a log in a file, and of one in PostgreSQL."""
    if request.param == "file":
        yield str(tmp_path / "talks.db")
    else:
        yield request.getfixturevalue("server_log")
