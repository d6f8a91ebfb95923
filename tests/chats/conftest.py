"""A stand-in for Telegram, and a log in a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import stenolog
from stenolog import Log

from .standin import StandIn


@pytest.fixture
def api() -> Iterator[StandIn]:
    with StandIn() as api:
        yield api


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with stenolog.open(tmp_path / "talks.db") as log:
        yield log
