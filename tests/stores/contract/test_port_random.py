"""The same calls on any store give the same answers, and with the same times and ids the same digests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.postgres.server import VERSIONS

from .histories import History, sources
from .inspecting import faults
from .stores import FILE, IMPLEMENTATIONS, MEMORY, Servers, opened

SEQUENCES = int(os.environ.get("STENOLOG_SEQUENCES", "30"))
STEPS = 40
OTHERS = IMPLEMENTATIONS[1:]
NAMES = (MEMORY, *VERSIONS)
"""The others: each begins with seeds of its own."""


def answers(name: str, seed: int, folder: Path, postgres: Servers) -> list[object]:
    """Return what a store answers to the calls of a seed, and all that is in it then."""
    folder.mkdir(exist_ok=True)
    with opened(name, folder, postgres) as store:
        recorder = store.open(sources())
        history = History(recorder, seed)
        history.run(STEPS)
        assert faults(recorder) == []
        return history.answers


def compare(name: str, seed: int, folder: Path, postgres: Servers) -> None:
    expected = answers(FILE, seed, folder / str(seed), postgres)
    found = answers(name, seed, folder, postgres)
    for step, (one, other) in enumerate(zip(expected, found, strict=True)):
        assert (seed, step, other) == (seed, step, one)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", OTHERS)
def test_random_calls_are_answered_as_by_a_file(
    name: str, seed: int, tmp_path: Path, postgres: Servers
) -> None:
    compare(name, 3 * seed + NAMES.index(name), tmp_path, postgres)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS[1:])
def test_many_random_calls_are_answered_as_by_a_file(name: str, tmp_path: Path, postgres: Servers) -> None:
    for seed in range(1000, 1000 + SEQUENCES):
        compare(name, seed, tmp_path, postgres)
