"""A log to import into, for every test here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.transcripts.given import Import, importing


@pytest.fixture
def into(tmp_path: Path) -> Iterator[Import]:
    """Yield an empty log in memory, and a folder for the files that are imported into it."""
    with importing(tmp_path) as ready:
        yield ready
