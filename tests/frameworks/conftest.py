"""The log of a test, in a file of its own, checked once the test is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import stenolog
from stenolog import Conversation, Log
from tests.examples.harness import clean


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with stenolog.open(tmp_path / "graph.db", synchronous="normal") as log:
        yield log
        is_empty = not log.names()
    if not is_empty:
        clean(tmp_path / "graph.db")


@pytest.fixture
def conversation(tmp_path: Path) -> Iterator[Conversation]:
    with stenolog.open(tmp_path / "talks.db") as log:
        yield log["books"]
    clean(tmp_path / "talks.db")
