"""PostgreSQL for any test: a server of each version, once a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from tests.postgres.server import VERSIONS, Server, running


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
