"""A log that is recorded into, for every test here."""

from __future__ import annotations

import pytest

from tests.recording.given import Tap


@pytest.fixture
def tap() -> Tap:
    return Tap()
