"""Costs that can be counted are limited: a change that makes a flow dearer by more than 3 % fails.

`python -m tests.counts.measure --write` renews the figures in `tests/costs.toml`, for this Python.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.counts.counters import IN, least
from tests.counts.flows import FLOWS, ON_POSTGRES, Counts
from tests.counts.measure import (
    BY_ROOM,
    VERSIONS,
    dearer,
    limits,
    measured,
    most,
    rows_on_postgres,
    strace,
    this_version,
)
from tests.postgres.server import programs


def counts(flows: Iterable[str]) -> dict[str, Counts]:
    """Return the counts in a folder as near to the root as the command's: a path costs calls by its depth."""
    with tempfile.TemporaryDirectory() as folder:
        return measured(Path(folder), flows)


@pytest.mark.parametrize("flows", [FLOWS, ON_POSTGRES], ids=["in files", "on PostgreSQL"])
def test_no_flow_costs_over_3_percent_more_than_its_limit(flows: Iterable[str]) -> None:
    if flows is ON_POSTGRES and programs() is None:
        pytest.skip("no PostgreSQL is installed here")
    held = limits(this_version())
    held = {row: held[row] for row in held if (row in rows_on_postgres(held)) == (flows is ON_POSTGRES)}
    found = counts(flows)
    assert found.keys() == held.keys()
    for _ in range(2):  # a turn on a busy machine polls more often
        if dearer(found, held):
            other = counts(flows)
            found = {row: least([counts, other[row]]) for row, counts in found.items()}
    assert not dearer(found, held)
    assert not strace() or flows is ON_POSTGRES or found["append"]["fsyncs"] == 1


@pytest.mark.parametrize("row", BY_ROOM)
def test_the_rooms_of_a_flow_add_up_to_its_calls(row: str) -> None:
    held = limits(VERSIONS[0])[row]
    by_room = sum(count for name, count in held.items() if name.startswith(IN))
    assert by_room <= most(held["calls"]), "run `python -m tests.counts.measure --write`"
    assert held["calls"] <= most(by_room), "run `python -m tests.counts.measure --write`"


def test_one_row_more_and_4_percent_more_calls_are_too_dear() -> None:
    held = {"append": {"calls": 1_000, "rows": 2}}
    assert dearer({"append": {"calls": 1_030, "rows": 2}}, held) == []
    assert dearer({"append": {"calls": 1_040, "rows": 3}}, held) == [
        "append: 1,040 calls of 1,000",
        "append: 3 rows of 2",
    ]
    assert dearer({"append": {"calls": 1, "in domain": 1}}, held) == []
    assert dearer({"append": {"calls": 1, "statements": 1}}, held) == ["append: 1 statements of 0"]
