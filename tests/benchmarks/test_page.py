"""How the comparison is told: headings, what was not measured, what a quick run is good for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from benchmarks import _rooms
from benchmarks.peers import acceptance, bench, command, costs, page
from benchmarks.peers.bench import QUICK, Plan
from benchmarks.peers.registry import FLOORS, KNOWN, OURS
from benchmarks.peers.tables import beside, table, turns
from tests.counts.measure import VERSIONS, limits

Found = dict[str, dict[str, Any]]
OTHERS = {*KNOWN} - {*FLOORS, *OURS}
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


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Found:
    """Return the results of a whole measurement, kept beside copies of the pages that show it."""
    measured = {name: store(Plan(), 0.03) for name in KNOWN}
    for name in OURS:
        measured[name] |= {kind: dict.fromkeys(faults, 0) for kind, faults in acceptance.NOTHING.items()}
        measured[name]["kills"]["kills"] = 7
    counts = {flow: {"calls": 1_000, "rows": 2, "in domain": 1_000} for flow in costs.FLOWS}
    rooms = {step: {"in domain": 0.000_05} for step in costs.STEPS}
    measured["stenolog"]["costs"] = {"python": VERSIONS[0], "counts": counts, "rooms": rooms}
    monkeypatch.setattr(bench, "RESULTS", tmp_path / "results")
    for module, name in ((page, "PAGE"), (page, "README"), (page, "PICTURE"), (costs, "RECORD")):
        copy = tmp_path / getattr(module, name).name
        copy.write_text(getattr(module, name).read_text())
        monkeypatch.setattr(module, name, copy)
    return measured


def keep(measured: Found) -> None:
    """Keep the results, as a run does."""
    bench.Bench([], Plan(), bench.RESULTS, measured).save()


@pytest.mark.parametrize("plan", [Plan(), Plan(short=30, conversations=7, lengths=(10, 500))])
def test_headings_say_how_many_turns_the_plan_had(plan: Plan) -> None:
    told = page.tables(found(plan))

    assert f"| disk after {plan.short} turns, Latin |" in told
    assert f"| fork at the half of {plan.short} turns, ms |" in told
    assert f"| events/s, {plan.conversations} conversations |" in told
    assert f"| new process at turn {plan.left:,}, ms |" in told
    assert f"in full ({plan.rounds} rounds)" in told


def test_what_is_written_into_the_docs_names_its_commit_and_what_flows_cost_there(whole: Found) -> None:
    keep(whole)

    command.main(["--report", "--write"])

    written, said = page.PAGE.read_text(), page.README.read_text()
    assert "at 0123abcd, in full" in written
    assert "disk after" not in written
    assert "| `domain` | 1,000 | 50 | 1,000 | 50 |" in written
    assert "Measured at 0123abcd: a turn" in said
    assert "After 14 times `kill -9`" in said
    record = costs.recorded()
    assert (record["commit"], record["python"]) == ("0123abcd", VERSIONS[0])
    assert record["counts"] == {flow: {"calls": 1_000, "rows": 2} for flow in costs.FLOWS}


def test_the_docs_show_times_of_one_commit() -> None:
    commit = costs.recorded()["commit"]

    assert f" at {commit}, in full" in page.PAGE.read_text()
    assert f"Measured at {commit}: a turn" in page.README.read_text()


def test_the_times_in_the_docs_are_of_a_program_that_costs_as_much_as_this_one() -> None:
    then = costs.recorded()

    stale = costs.stale(limits(then["python"]), then["counts"])

    assert not stale, "measure again: python -m benchmarks peers --write"


@pytest.mark.parametrize(
    ("today", "why"),
    [
        ({"calls": 1_030, "rows": 2}, []),
        ({"calls": 1_031, "rows": 2}, ["append: 1,031 calls of 1,000"]),
        ({"calls": 1_000, "rows": 3}, ["append: 3 rows of 2"]),
        ({"calls": 800, "rows": 1}, []),
        ({"calls": 799, "rows": 1}, ["append: 799 calls of 1,000"]),
    ],
)
def test_times_are_stale_3_percent_above_their_counts_and_a_fifth_below(
    today: dict[str, int], why: list[str]
) -> None:
    assert costs.stale({"append": today, "other": {}}, {"append": {"calls": 1_000, "rows": 2}}) == why


@pytest.mark.parametrize(
    ("spoilt", "why"),
    [
        (lambda found: found.pop("burr"), "nothing of burr"),
        (lambda found: found["burr"].update(commit="89abcdef"), "figures of 0123abcd and 89abcdef"),
        (lambda found: [each.update(commit="0123abcd-dirty") for each in found.values()], "-dirty"),
        (lambda found: found["stenolog"].pop("costs"), "no costs of stenolog"),
        (lambda found: found["stenolog_32k"].pop("kills"), "no kills of stenolog_32k"),
        (
            lambda found: [each.pop("turn 1000") for name, each in found.items() if name in OTHERS],
            "no turn of another library",
        ),
    ],
)
def test_only_a_whole_measurement_of_one_commit_is_written(
    whole: Found, spoilt: Callable[[Found], object], why: str
) -> None:
    before = page.PAGE.read_text(), page.README.read_text(), costs.RECORD.read_text()
    spoilt(whole)
    keep(whole)

    with pytest.raises(SystemExit, match=f"one whole measurement for the docs, found .*{why}"):
        command.main(["--report", "--write"])

    assert (page.PAGE.read_text(), page.README.read_text(), costs.RECORD.read_text()) == before


@pytest.mark.parametrize(
    ("arguments", "now", "why"),
    [
        (["--peers", "floor"], "0123abcd", "--peers with --write"),
        ([], "0123abcd-dirty", "0123abcd-dirty with --write: commit first"),
        ([], "", "no commit with --write"),
    ],
)
def test_what_could_not_be_written_is_refused_before_it_is_measured(
    arguments: list[str], now: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "commit", lambda: now)

    with pytest.raises(SystemExit, match=f"fit for the docs, found {why}"):
        command.main(["--write", *arguments])


def test_an_append_is_found_in_the_store_and_a_request_where_requests_are_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, less in (("TALKS", 1), ("STEPS", 400), ("ENTRIES", 100)):
        monkeypatch.setattr(_rooms, name, less)

    append, ask = _rooms.measured().values()

    assert max(append, key=append.__getitem__) == "in adapters/store"
    assert ask["in projections/requests"] > 0


def test_a_store_that_was_cut_off_says_how_far_it_came() -> None:
    assert "(first 17 turns)" in table(found(Plan()), beside(Plan()))


def test_columns_that_were_not_measured_are_named_below_their_table() -> None:
    told = table(found(QUICK), turns(QUICK))

    assert told.endswith("Not measured in this run: turn 1,200, settled.")
    assert "not measured" in told
    assert "measured" not in table(found(QUICK), turns(QUICK)[:-1])


@pytest.mark.parametrize(
    ("took", "line"),
    [
        (0.002, "ok          1 x      1.5 x  turn 4,000 against floor_cached (2.00 against 2.00 ms)"),
        (
            0.004,
            "adr         2 x      1.5 x  turn 4,000 against floor_cached (4.00 against 2.00 ms; decision",
        ),
        (
            0.006,
            "MISS        3 x      1.5 x  turn 4,000 against floor_cached (6.00 against 2.00 ms; decision",
        ),
    ],
)
def test_a_row_over_its_limit_names_the_decision_that_accepts_it_or_is_missed(took: float, line: str) -> None:
    rows = acceptance.rows({"stenolog": store(Plan(), took)})

    assert [row for row in rows if row.line().startswith(line)]


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
