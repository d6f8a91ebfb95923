"""Times in foreign files: text, seconds or milliseconds, and whatever else somebody may have put there."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from stenolog.contrib.workflow.files import at_of
from stenolog.importers import as_time
from tests.transcripts.crewagent_given import folder, imported, index
from tests.transcripts.given import Import
from tests.transcripts.test_crewagent import A_TURN

NEVER = datetime(1, 1, 1, tzinfo=UTC)
MARCH = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "told", ["2026-03-02T09:00:00Z", "2026-03-02T10:00:00+01:00", "2026-03-02", 1772442000, 1772442000000.0]
)
def test_a_time_is_text_or_seconds_or_milliseconds(told: Any) -> None:
    assert as_time(told) in (MARCH, MARCH.replace(hour=0))


@pytest.mark.parametrize(
    "told",
    [
        10**400,
        -(10**400),
        10**18,
        1e308,
        float("inf"),
        float("nan"),
        True,
        None,
        "",
        "soon",
        "0001-01-01T00:00+09:00",
    ],
)
def test_what_is_no_time_is_the_default(told: Any) -> None:
    assert as_time(told, NEVER) is NEVER


@pytest.mark.parametrize("told", ["9" * 5000, "1" * 400])
def test_digits_that_are_no_time_are_none(told: str) -> None:
    assert at_of({"createdAt": told}) is None


def test_a_time_that_nobody_can_read_stops_neither_its_conversation_nor_another(
    into: Import, tmp_path: Path
) -> None:
    made = folder(tmp_path, odd=[{**A_TURN[0], "timestamp": 10**400}], good=A_TURN)
    index(made, [{"id": "odd", "createdAt": 10**400}, {"id": "good", "createdAt": -(10**400)}])

    imported(into.log, made)

    assert list(into.log) == ["odd", "good"]
