"""Killed in the first, the middle and the last third of its run, each example ends as it does unkilled."""

from __future__ import annotations

import pytest

from benchmarks.examples import EXAMPLES, happened


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_killed_in_each_third_of_its_run_it_ends_with_the_same(name: str) -> None:
    story = happened(name, 3)

    assert story.faults == []
    assert story.kills >= 3
