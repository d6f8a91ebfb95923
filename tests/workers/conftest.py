"""Logs that workers share: in a file, and in a schema of its own in PostgreSQL, with that of its jobs."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.postgres.server import Server
from tests.workers.given import jobs_dropped


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


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
