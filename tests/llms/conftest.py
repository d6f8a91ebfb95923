from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.llms.server import Server


@pytest.fixture
def server() -> Iterator[Server]:
    """A provider that answers by script."""
    with Server() as server:
        yield server
