"""A conversation in a file, and a provider on loopback, for every test here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import stenolog
from stenolog import Conversation
from tests.agents.provider import Provider


@pytest.fixture
def conversation(tmp_path: Path) -> Iterator[Conversation]:
    with stenolog.open(tmp_path / "talks.db") as log:
        yield log["talk"]


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as made:
        yield made
        made.shutdown()
