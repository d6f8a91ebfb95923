"""The agent that remembers, as a person runs it: to its end, through restarts and kills."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stenolog
from tests.examples.harness import clean, finished, killed, outcome, run, said

NAME = "worker_agent"
CHILDREN = ["reader of review", "summariser of library"]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the database of a run without a kill."""
    return finished(NAME, tmp_path_factory.mktemp("done"))


def test_it_ends_with_answers_reasons_and_summaries(done: Path) -> None:
    ended: Any = outcome(NAME, done)

    assert ended["remembers"][-1] == "coder: loaves.py has 66 characters."
    assert ended["stuck"][-1] == "ended: stuck: ls({}) gave the same result 3 times"
    assert ended["walk"][-1] == "ended: max_steps: 4 steps since the last message"
    assert "ask_reader → loaves.py begins at tray 1, hence one tray too few." in ended["review"]
    assert ended["library"] == ["librarian: On the third page I read about salt."]
    assert ended["children"] == CHILDREN


def test_a_second_start_appends_nothing_and_shows_the_same(tmp_path: Path) -> None:
    first = said(NAME, tmp_path)
    with stenolog.open(tmp_path / "worker_agent.db") as log:
        before = {name: log[name].digest for name in log}
    second = said(NAME, tmp_path)
    with stenolog.open(tmp_path / "worker_agent.db") as log:
        after = {name: log[name].digest for name in log}

    assert (second, after) == (first, before)


def test_it_shows_the_steps_the_history_and_why_each_run_ended(tmp_path: Path) -> None:
    shown = said(NAME, tmp_path)

    for line in (
        "  2        1  user_message       coder\n     Which files are there?  → call_model",
        "  3        2  assistant_message  coder                2\n     I look. ls({})  → run_tools ls",
        "  4        3  tool_result        coder                3\n     loaves.py, oven.py, test_loaves.py",
        "     How long is the first one?  → call_model",
        "ended: stuck: ls({}) gave the same result 3 times",
        "ended: max_steps: 4 steps since the last message",
        "  4        2  assistant_message  lead                 3 in review-1/look",
        "settings: mode run; run review-1, node look",
        "    used 356 of the 24,951 tokens of its share",
        "  stenolog request remembers --agent coder --at 8 --db worker_agent.db",
    ):
        assert line in shown


@pytest.mark.slow
def test_a_model_that_cannot_be_started_is_said_at_the_end_and_asked_again_the_next_time(
    tmp_path: Path,
) -> None:
    code, out, errors = run(NAME, tmp_path, "--model", "cli:nosuchprog")
    said(NAME, tmp_path)

    assert code == 1
    assert "ended: nosuchprog could not be started" in out
    assert errors.startswith("✗ 3 model calls failed: other: nosuchprog could not be started")
    ended: Any = outcome(NAME, tmp_path / "worker_agent.db")
    assert ended["remembers"][-1] == "coder: loaves.py has 66 characters."
    assert ended["library"] == ["librarian: On the third page I read about salt."]


def test_another_model_on_a_log_that_is_done_changes_no_last_words(done: Path) -> None:
    _, out, _ = run(NAME, done.parent, "--model", "cli:cat")

    assert "ended: One test fails: 9 != 12." in out
    assert "ended: \n" not in out


@pytest.mark.slow
def test_killed_at_five_instants_it_ends_with_the_same_result(done: Path, tmp_path: Path) -> None:
    path = killed(NAME, tmp_path, kills=5, seed=4)

    assert outcome(NAME, path) == outcome(NAME, done)
    clean(path)


def test_its_log_is_whole_and_every_request_of_it_would_be_taken(done: Path) -> None:
    clean(done)


def test_the_worker_in_a_fork_was_sent_what_its_caller_knew_and_no_entry_was_copied(done: Path) -> None:
    with stenolog.open(done) as log:
        (name,) = (name for name in log if name.startswith("reader~"))
        entries = [*log[name].entries()]
        request = log[name].request("reader", at=entries[-2].position)

        assert "We bake one tray too few" in str(request.body)
        assert entries[3].event.kind == "mode_switch"  # the first of its own
        assert {entry.position: entry.digest for entry in entries[:3]} == {
            entry.position: entry.digest for entry in log["review"].entries(at=3)
        }
