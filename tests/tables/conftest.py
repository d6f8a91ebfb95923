"""A log in a file, with times and ids that are the same in every run."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

import stenolog
from stenolog import Log

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talks.db"


@pytest.fixture
def log(path: Path) -> Iterator[Log]:
    ticks, numbers = count(), count(1)
    with stenolog.open(
        path, clock=lambda: START + timedelta(seconds=next(ticks)), ids=lambda: f"e{next(numbers)}"
    ) as opened:
        yield opened
