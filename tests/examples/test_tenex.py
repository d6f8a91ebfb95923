"""The example of many agents on one conversation, as a person starts it, stops it and kills it."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

import stenolog
from examples.tenex.completions import Task, completions, lanes
from examples.tenex.views import marks, side_by_side
from examples.tenex.views import said as said_by
from stenolog import Conversation, Log
from tests.command_line import run
from tests.examples.harness import ROOT, clean, finished, killed, outcome, said
from tests.forked import python

AGENTS = ("project-manager", "planner", "reviewer", "tester", "executor")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the log of a run that nobody disturbed."""
    return finished("tenex", tmp_path_factory.mktemp("tenex"))


@pytest.fixture
def log(path: Path) -> Iterator[Log]:
    """Open the log again."""
    with stenolog.open(path) as opened:
        yield opened


@pytest.fixture
def site(log: Log) -> Conversation:
    """Return the project's conversation."""
    return log["opening-hours"]


def test_it_says_what_it_does_and_shows_who_sees_what(tmp_path: Path) -> None:
    shown = said("tenex", tmp_path)

    assert "Done: hours.html is ready, Ann." in shown
    assert "MESSAGES WHILE YOU WERE AWAY" in shown
    assert "💬 reviewer" in shown


def test_it_goes_on_after_it_was_stopped_and_a_second_start_adds_nothing(path: Path) -> None:
    before = outcome("tenex", path)
    with stenolog.open(path) as log:
        entries = {name: list(log[name].entries()) for name in log}
    shown = said("tenex", path.parent)
    with stenolog.open(path) as log:
        after = {name: list(log[name].entries()) for name in log}

    assert (outcome("tenex", path), after) == (before, entries)
    assert "tester" in shown


@pytest.mark.slow
def test_killed_five_times_it_ends_the_same_and_its_log_is_clean(path: Path, tmp_path: Path) -> None:
    again = killed("tenex", tmp_path, kills=5, seed=3, most=0.9)

    assert outcome("tenex", again) == outcome("tenex", path)
    clean(again)


def test_its_log_is_clean(path: Path) -> None:
    clean(path)


def test_at_one_position_each_agent_has_its_own_view(site: Conversation) -> None:
    asked = site.state().lane("executor").seen
    shown = {agent: dict(marks(site.request(agent, asked))) for agent in AGENTS}
    by_text = {getattr(entry.event, "text", ""): entry.position for entry in site.entries(at=asked)}
    table = by_text["The table is right. It has no title to be read by."]
    plan = by_text["Plan: 1. hours.html with a table. 2. A test that Mondays are closed."]

    assert {agent: shown[agent][table] for agent in AGENTS} == {
        "project-manager": "away",
        "planner": "away",
        "reviewer": "own",
        "tester": "away",
        "executor": "away",
    }
    assert {agent: shown[agent][plan] for agent in AGENTS} == {
        "project-manager": "away",
        "planner": "own",
        "reviewer": "heard",
        "tester": "heard",
        "executor": "has it",
    }
    assert side_by_side(site, asked).row_count == len(
        [entry for entry in site.entries(at=asked) if said_by(entry)]
    )


def test_the_orchestrators_routing_is_in_its_own_context_alone(site: Conversation) -> None:
    own, others = site.request("project-manager").bytes, [site.request(name).bytes for name in AGENTS[1:]]

    assert own.count(b"<routing>") == 5
    assert [body.count(b"<routing>") for body in others] == [0, 0, 0, 0]
    assert own.count(b"Answered so far") == 5
    assert [body.count(b"Answered so far") for body in others] == [0, 0, 0, 0]


def test_each_phase_hands_its_summary_on(site: Conversation) -> None:
    asked = [task.asked for task in completions(site.entries()) if task.agent == "reviewer"]
    request = site.request("reviewer", asked[0])

    assert "The executor has built it; nobody has read it yet." in request.body["messages"][-1]["content"]
    assert [part.rule for part in request.parts][-1] == "handoff"


def test_who_was_asked_and_who_has_answered_is_read_off_the_log(site: Conversation) -> None:
    tasks = list(completions(site.entries()))
    half = list(completions(site.entries(at=tasks[-1].asked)))

    assert [(task.agent, task.phase) for task in tasks if task.agent not in ("tester", "executor")] == [
        ("project-manager", "agent"),
        ("planner", "plan"),
        ("reviewer", "review"),
        ("reviewer", "verify"),
    ]
    assert all(task.answered for task in tasks)
    assert half[-1] == Task("reviewer", "verify", tasks[-1].asked)


def test_no_session_is_anybody_elses(log: Log) -> None:
    of_executor = {
        name: session for name in log for who, _, _, session in lanes(log[name]) if who == "executor"
    }
    told = {name: [getattr(e.event, "text", "") for e in log[name].entries()] for name in log}

    assert len({*of_executor.values()}) == len(of_executor) == 4
    assert of_executor["what-if-dark"] != of_executor["opening-hours"]
    assert told["what-if-dark"][-1] == "hours.html is dark now."  # told everything, since its session is new
    assert told["gift-cards"][-1] == "I work on no page yet."


def test_what_was_imported_is_a_conversation_like_any_other(log: Log) -> None:
    menu = log["menu"]
    [(_, seen, answered, _)] = [lane for lane in lanes(menu) if lane[0] == "reviewer"]

    assert (seen, answered) == (menu.position - 1, menu.position)
    assert "💬 planner" in menu.request("reviewer").bytes.decode()


def test_a_model_that_cannot_start_is_said_and_asked_again_at_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "tenex.db"
    failed = subprocess.run(
        python("-m", "examples.tenex", "--model", "cli:no-such-program", "--db", str(path)),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    shown = said("tenex", tmp_path)

    assert failed.returncode == 1
    assert failed.stderr.startswith("✗ 1 model call failed: other: no-such-program could not be started")
    assert "reviewer: The menu: it was built, and is tested." in shown
    assert "Done: hours.html is ready, Ann." in shown


@pytest.mark.parametrize("columns", ["80", "100"])
def test_no_line_is_longer_than_the_terminal_but_of_a_command(tmp_path: Path, columns: str) -> None:
    shown = said("tenex", tmp_path, env={"COLUMNS": columns})
    wide = [line for line in shown.splitlines() if cell_len(line.rstrip()) > int(columns)]

    assert [line for line in wide if "stenolog" not in line] == []


def test_the_command_at_the_end_shows_what_was_just_shown(path: Path) -> None:
    with stenolog.open(path) as log:
        asked = log["opening-hours"].state().lane("executor").seen
        named = "tenex.db" if log.path == str(path) else shlex.quote(log.path)

    assert said("tenex", path.parent).splitlines()[-1] == (
        f"Why? stenolog request opening-hours --agent executor --at {asked} --db {named}"
    )


def test_the_command_line_says_why(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with stenolog.open(path) as log:
        asked = log["opening-hours"].state().lane("executor").seen
    at = ["--at", str(asked), "--db", str(path)]

    assert run(["request", "opening-hours", "--agent", "executor", *at]) == 0
    assert "away-note" in capsys.readouterr().out
