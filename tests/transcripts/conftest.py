"""A log to import into, for every test here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.transcripts.given import Import, importing
from tests.transcripts.soundness import assert_sound


@pytest.fixture
def into(tmp_path: Path) -> Iterator[Import]:
    """Yield an empty log in memory, and a folder for the files that are imported into it."""
    with importing(tmp_path) as ready:
        yield ready


@pytest.fixture
def sound(into: Import) -> Iterator[None]:
    """Assert that the log is sound in the end, however bad the files were."""
    yield
    assert_sound(into.log)
