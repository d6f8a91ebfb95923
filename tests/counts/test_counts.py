"""Costs that can be counted are held to: a change that makes a flow dearer by more than 3 % fails.

`python -m tests.counts.measure --write` renews the figures in `limits.json`, for this Python.
"""

from __future__ import annotations

import pytest

from tests.counts.flows import FLOWS, Counts
from tests.counts.measure import limits, measured, most, strace

TRACER = strace()
FSYNCS = "fsyncs"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Counts]:
    """Return the counts of all flows, in the order in which one uses another's files."""
    folder = tmp_path_factory.mktemp("counts")
    return {flow: measured(flow, folder, TRACER) for flow in FLOWS}


@pytest.mark.parametrize("flow", limits())
def test_a_flow_costs_at_most_3_percent_more_than_it_is_held_to(flow: str, found: dict[str, Counts]) -> None:
    allowed = {name: most(count) for name, count in limits()[flow].items()}

    dearer = {
        name: f"{count} of {allowed.get(name, 0)}"
        for name, count in found[flow].items()
        if count > allowed.get(name, 0)
    }

    assert not dearer


@pytest.mark.skipif(
    not TRACER, reason="strace is not installed, or cannot trace here: fsyncs are not counted"
)
def test_fsyncs_are_counted(found: dict[str, Counts]) -> None:
    assert found["append"][FSYNCS] == 1
