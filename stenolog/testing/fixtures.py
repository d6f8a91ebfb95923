"""Fixtures for pytest: `pytest_plugins = ["stenolog.testing.fixtures"]` in a `conftest.py`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from .kill_points import kill_points as every_kill_point


@pytest.fixture
def kill_points(tmp_path: Path) -> Any:
    """`stenolog.testing.kill_points` in a folder of the test's own: `kill_points(run, world=…)`."""
    return partial(every_kill_point, folder=tmp_path)
