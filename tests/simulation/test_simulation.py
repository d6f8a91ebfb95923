"""Seeds, each of which decides a run of several processes on one log: all invariants hold in it.

One that fails: `python -m tests.simulation --seed N` makes it short, and prints a command that repeats it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.postgres.in_schemas import is_chosen
from tests.simulation.__main__ import main
from tests.simulation.shrink import command, dumped, loaded, minimal, shrink
from tests.simulation.simulation import play, simulate
from tests.simulation.test_planted_faults import first_failure, lost_fence

ROOT = Path(__file__).parents[2]
# A commit on a server, and its checks, take five times as long.
FAST, ALL, SHARE = (5, 100, 5) if is_chosen() else (10, 310, 10)


def failures(first: int, number: int) -> list[str]:
    """Return the faults of so many seeds, and how to reproduce them."""
    outcomes = map(simulate, range(first, first + number))
    return [f"{outcome.fault}: {command(outcome.run)}" for outcome in outcomes if outcome.fault]


@pytest.mark.parametrize("first", range(1, FAST + 1, SHARE))
def test_all_holds_whatever_a_seed_decides(first: int) -> None:
    assert failures(first, SHARE) == []


@pytest.mark.slow
@pytest.mark.parametrize("first", range(FAST + 1, ALL + 1, SHARE))
def test_all_holds_in_many_seeds(first: int) -> None:
    assert failures(first, SHARE) == []


def test_a_seed_decides_everything_in_another_process_too() -> None:
    seeds = range(1, 6)
    here = [simulate(seed) for seed in seeds]

    told = f"for seed in {[*seeds]}: print(simulate(seed).digest)"
    there = subprocess.run(
        [sys.executable, "-c", f"from tests.simulation.simulation import simulate\n{told}"],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert there.stdout.splitlines() == [outcome.digest for outcome in here]
    assert [simulate(seed) for seed in seeds] == here


def test_the_decisions_that_were_taken_are_all_there_is_to_a_seed() -> None:
    drawn = simulate(3)

    given = play(drawn.run._replace(decisions=drawn.decisions))

    assert (given.digest, given.decisions, given.commits) == (drawn.digest, drawn.decisions, drawn.commits)


@pytest.mark.about_file("its fault is planted in SQLite's appends")
def test_a_failing_seed_is_made_short_and_its_command_fails_as_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lost_fence(monkeypatch)
    failed = first_failure()

    short = shrink(failed)

    assert len(short.run.actions) < len(failed.run.actions)
    assert len(short.decisions) < len(failed.decisions)
    assert play(loaded(dumped(short.run))) == short
    assert main(["--script", dumped(short.run)]) == 1
    assert short.fault in (printed := capsys.readouterr().out)
    assert command(short.run) in printed


def test_what_is_left_out_is_all_that_is_not_needed() -> None:
    items = [(f"decision {number}", 1) for number in range(20)]
    needed = {items[3], items[8]}

    left = minimal([*items], lambda rest: needed <= set(rest))

    assert left == [items[3], items[8]]


def test_the_command_simulates_many_seeds_in_several_processes() -> None:
    arguments = ["-m", "tests.simulation", "--seeds", "6", "-j", "2"]

    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.startswith("6 seeds, ")
    assert ", 0 failed, " in done.stdout
