"""A log in a folder of its own, and its pages as a browser sees them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import stenolog


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "talks.db"


@pytest.fixture
def log(db: Path) -> Iterator[stenolog.Log]:
    """Open an empty log; a module's own fixture of this name fills it."""
    with stenolog.open(db) as opened:
        yield opened


@pytest.fixture
def web(log: stenolog.Log) -> Iterator[TestClient]:
    with TestClient(stenolog.inspector(log, token=""), base_url="http://127.0.0.1") as client:
        yield client
