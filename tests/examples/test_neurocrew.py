"""The chat room of command-line agents: from start to end, through kills, at the terminal and on Telegram."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples import harness

NAME = "neurocrew"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of a run that nobody has killed."""
    return harness.finished(NAME, tmp_path_factory.mktemp(NAME))


def test_it_ends_by_itself_with_a_log_that_all_judges_accept(undisturbed: Path) -> None:
    harness.clean(undisturbed)


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_five_times_it_ends_with_the_same(undisturbed: Path, tmp_path: Path, seed: int) -> None:
    path = harness.killed(NAME, tmp_path, seed=seed)

    assert harness.outcome(NAME, path) == harness.outcome(NAME, undisturbed)
    harness.clean(path)
