"""The store's contract, told in sentences, for any implementation of `LogRecorder`.

Each test runs on every store of `stores`. A new one is added there, and passes without a change to any test.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stenolog.adapters.store.contract.recorder import LogRecorder
from tests.postgres.server import EACH_VERSION

from .lost import Way, way_to
from .stores import IMPLEMENTATIONS, Servers, Store, opened


@pytest.fixture(params=IMPLEMENTATIONS)
def store(request: pytest.FixtureRequest, tmp_path: Path, postgres: Servers) -> Iterator[Store]:
    """Return a new log in one of the stores."""
    with opened(request.param, tmp_path, postgres) as ready:
        yield ready


@pytest.fixture(params=EACH_VERSION)
def way(request: pytest.FixtureRequest, postgres: Servers) -> Iterator[Way]:
    """Return a log in PostgreSQL behind a proxy that loses answers."""
    with way_to(postgres(request.param)) as ready:
        yield ready


@pytest.fixture
def recorder(store: Store) -> LogRecorder:
    return store.open()


@pytest.fixture
def other(store: Store, recorder: LogRecorder) -> LogRecorder:
    """Return another recorder of the same log, as another process has it."""
    return store.open()
