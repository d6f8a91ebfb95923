"""Figures for a reader are worded alike on the terminal and on the pages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from stenolog.apps.views.figures import ago, lasted

NOW = datetime(2026, 11, 29, tzinfo=UTC)


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [(None, ""), (12, "12 ms"), (1_300, "1.3 s"), (125_000, "2 min 5 s"), (11_040_000, "3 h 4 min")],
)
def test_a_duration_is_told_in_its_two_largest_units(milliseconds: int | None, shown: str) -> None:
    assert lasted(milliseconds) == shown


@pytest.mark.parametrize(("seconds", "shown"), [(5, "now"), (60, "1 min ago"), (90_000, "1 d ago")])
def test_a_time_is_told_by_how_long_ago_it_was(seconds: int, shown: str) -> None:
    assert ago(NOW - timedelta(seconds=seconds), NOW) == shown
