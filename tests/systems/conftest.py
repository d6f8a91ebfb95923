"""A room to talk in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.systems.given import Room


@pytest.fixture
def room(tmp_path: Path) -> Room:
    """Return an empty conversation in a file of its own."""
    return Room(tmp_path / "talks.db")
