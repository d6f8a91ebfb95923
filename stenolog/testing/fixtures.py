"""Fixtures for pytest: `pytest_plugins = ["stenolog.testing.fixtures"]` in a `conftest.py`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from .crash_points import crash_points as every_crash_point


@pytest.fixture
def crash_points(tmp_path: Path) -> Any:
    """Return `stenolog.testing.crash_points` in the test's own folder: `crash_points(run, world=…)`."""
    return partial(every_crash_point, folder=tmp_path)
