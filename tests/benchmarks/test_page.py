"""How the comparison is told: headings, what was not measured, what a quick run is good for."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers import acceptance, bench, command, page
from benchmarks.peers.bench import QUICK, Plan
from benchmarks.peers.tables import beside, table, turns

Found = dict[str, dict[str, Any]]
ROOT = Path(__file__).parent.parent.parent


def store(plan: Plan, seconds: float) -> dict[str, Any]:
    """Return the results of a store whose every time is the same; the floors take 1 ms and 2 ms."""
    timed = [f"turn {length}" for length in plan.lengths] + ["cold list", "fork", "interleaved"]
    return {
        "when": "2030-01-02 03:04 UTC",
        "commit": "0123abcd",
        "plan": asdict(plan),
        "failed": {},
        "short": plan.short,
        "bytes latin": 100_000,
        "interleaved turns": 17,
        **{what: [[seconds, 0.001, 0.002]] for what in timed},
    }


def found(plan: Plan) -> Found:
    """Return four stores of which the loop with a held list is the fastest."""
    times = {"floor": 0.004, "floor_cached": 0.001, "stenolog": 0.003, "stenolog_32k": 0.002}
    return {name: store(plan, seconds) for name, seconds in times.items()}


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the results of a quick run."""
    monkeypatch.setattr(bench, "RESULTS", tmp_path)
    bench.Bench([], QUICK, tmp_path, found(QUICK)).save()


@pytest.mark.parametrize("plan", [Plan(), Plan(short=30, conversations=7, lengths=(10, 500))])
def test_headings_say_how_many_turns_the_plan_had(plan: Plan) -> None:
    told = page.tables(found(plan))

    assert f"| disk after {plan.short} turns, Latin |" in told
    assert f"| fork at the half of {plan.short} turns, ms |" in told
    assert f"| events/s, {plan.conversations} conversations |" in told
    assert f"| new process at turn {plan.left:,}, ms |" in told
    assert f"in full ({plan.rounds} rounds)" in told


def test_what_is_written_into_the_docs_names_its_commit() -> None:
    measured = {**found(Plan()), "burr": store(Plan(), 0.03)}
    for each in measured.values():
        each["kills"] = dict.fromkeys(("kills", "broken", *acceptance.NOTHING["kills"]), 0)

    assert "at 0123abcd, in full" in page.tables(measured, in_full=False)
    assert "disk after" not in page.tables(measured, in_full=False)
    assert page.headline(measured).startswith("Measured at 0123abcd: a turn")
    assert re.search(r"Measured .* at [0-9a-f]{8}, in full", page.PAGE.read_text())


def test_a_store_that_was_cut_off_says_how_far_it_came() -> None:
    assert "(first 17 turns)" in table(found(Plan()), beside(Plan()))


def test_columns_that_were_not_measured_are_named_below_their_table() -> None:
    told = table(found(QUICK), turns(QUICK))

    assert told.endswith("Not measured in this run: turn 1,200, settled.")
    assert "not measured" in told
    assert "measured" not in table(found(QUICK), turns(QUICK)[:-1])


def test_a_limit_that_is_missed_says_why_and_one_that_is_kept_does_not() -> None:
    row, why = "turn 4,000 against floor_cached", acceptance.WHY["turn 4,000 against floor_cached"]
    slow, fast = {"stenolog": store(Plan(), 0.004)}, {"stenolog": store(Plan(), 0.002)}

    [missed], [kept] = ([one for one in acceptance.rows(found) if one.name == row] for found in (slow, fast))

    assert not missed.ok
    assert f"4.00 against 2.00 ms: {why}" in missed.note
    assert kept.ok


def test_a_quick_run_is_told_as_such_and_its_times_fail_nothing(
    quick: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--report", "--quick"]) == 0

    printed = capsys.readouterr().out
    assert "Measured 2030-01-02 03:04 UTC at 0123abcd, **quick** (2 rounds, rough)" in printed
    assert "MISS" in printed
    assert "MISS means nothing" in printed


def test_quick_figures_are_kept_apart_and_never_written_into_the_docs(quick: None) -> None:
    assert bench.kept() == {}
    assert list(bench.kept(quick=True)) == ["floor", "floor_cached", "stenolog", "stenolog_32k"]
    with pytest.raises(SystemExit, match="fit for the docs, found --quick"):
        command.main(["--quick", "--write"])
    with pytest.raises(SystemExit, match="nothing was measured"):
        command.main(["--report", "--write"])


def test_a_report_that_nobody_reads_to_its_end_ends_quietly(quick: None, tmp_path: Path) -> None:
    code = (
        f"import sys; from pathlib import Path; from benchmarks.peers import bench, command\n"
        f"bench.RESULTS = Path({str(tmp_path)!r})\n"
        f"sys.exit(command.main(['--report', '--quick']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as reporting:
        assert reporting.stdout
        assert reporting.stderr
        reporting.stdout.close()
        errors = reporting.stderr.read()

    assert (reporting.returncode, errors) == (0, b"")
