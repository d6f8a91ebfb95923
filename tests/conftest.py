"""For any test: an event loop for one that is a coroutine, and a server of each version of PostgreSQL."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

# Loaded while freezegun has replaced datetime, it would know only that one.
from pydantic import TypeAdapter  # noqa: F401

from tests.postgres.server import VERSIONS, Server, running


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(scope="session")
def postgres() -> Iterator[Callable[[str], Server]]:
    """Yield a function that returns the server of a version, or skips where there is none."""
    with ExitStack() as stack:

        @cache
        def server(version: str) -> Server:
            found, reason = VERSIONS[version]
            bin = found()
            if bin is None:
                pytest.skip(reason)
            return stack.enter_context(running(bin))

        yield server
