"""System 5 as an example: a report in, eight mails out, in one command, wherever it is killed."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import stenolog
from examples.stakeholder_mail.crew import agents, team
from examples.stakeholder_mail.workflow import TALK, plan, write
from stenolog.models import ModelRequest, Scripted
from stenolog.projections.usage import usage
from stenolog.tables import attached_tables
from tests.examples.harness import clean, finished, killed, outcome, run, said

NAME = "stakeholder_mail"
OCTOBER = "workflow = 'october'"
FORK = "workflow LIKE 'writer~%'"


def sql(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the log of a run without options."""
    return finished(NAME, tmp_path_factory.mktemp("mails"))


def test_a_report_becomes_eight_scored_mails_on_one_conversation(done: Path) -> None:
    rows = sql(done, "SELECT mail, score FROM stakeholder_mails WHERE workflow = 'october' ORDER BY mail")

    assert [mail for mail, _ in rows] == [f"mail-{n}" for n in range(1, 9)]
    assert {score for _, score in rows} == {0.8, 1.0}


def test_the_table_of_messages_has_every_message_and_the_personas(done: Path) -> None:
    query = "SELECT role, count(*) FROM conversation_messages WHERE workflowId = 'october' GROUP BY role"

    assert sql(done, query) == [("assistant", 20), ("system", 6), ("user", 3)]
    with stenolog.open(done) as log:
        assert attached_tables(log) == [("conversation_messages", 0, ""), ("stakeholder_mails", 0, "")]


def test_a_mail_made_anew_stands_in_its_place_and_another_beside_it_with_nothing_copied(done: Path) -> None:
    third = "SELECT text FROM stakeholder_mails WHERE workflow = 'october' AND mail = 'mail-3'"
    fork = f"SELECT text FROM stakeholder_mails WHERE {FORK} AND mail = 'mail-5'"
    own = """SELECT count(*) FROM stored_events e JOIN conversations c ON c.stream = e.originator_id
        WHERE c.name LIKE 'writer~%' GROUP BY c.name"""

    assert [len(text.split()) for (text,) in sql(done, third)] == [16]
    assert ["Thank you" in text for (text,) in sql(done, fork)] == [True]
    assert sql(done, own) == [(3,), (3,)]  # the fork, the wish, the mail


def test_the_account_names_each_agent_and_the_run(done: Path) -> None:
    with stenolog.open(done) as log:
        used = usage(log["october"].entries())

    assert {agent: tally.answers for agent, tally in used.by("agent")} == {
        "orchestrator": 3,
        "planner": 1,
        "writer": 8,
    }
    assert [run for run, _ in used.by("run")] == ["october-mails"]


def test_what_it_shows_has_the_estimate_the_scores_the_account_and_the_replay(done: Path) -> None:
    told = said(NAME, done.parent / "..", "--db", str(done))

    for words in (
        "all 8 mails are written\nafter:  8 mails, 4,",
        "workflow             mail    score  lacks   words  text",
        "october              mail-7  0.8    figure  30     Dear Gia,",
        "user → writer/mail-3: Shorter, please.",
        "quality 100%",
        "agent writer",
        "$0.0",
        "8 mails, 0 calls left over",
    ):
        assert words in told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("cli:nosuchprog", "✗ orchestrator: nosuchprog could not be"),
        ("cli:echo hello", "✗ expected a plan as"),
    ],
)
def test_a_model_that_fails_or_plans_nothing_is_one_line_and_the_next_start_asks_again(
    tmp_path: Path, model: str, found: str
) -> None:
    for _ in range(2):
        code, _, errors = run(NAME, tmp_path, "--model", model)
        assert (code, errors.count("\n"), errors[: len(found)]) == (1, 1, found)

    said(NAME, tmp_path)

    assert sql(tmp_path / f"{NAME}.db", f"SELECT count(*) FROM stakeholder_mails WHERE {OCTOBER}") == [(8,)]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--model", "nope"], "✗ expected a model as openai:NAME"),
        (["--prices", "nope.toml"], "✗ [Errno 2] No such file or directory: 'nope.toml'"),
        (["--regenerate", "99", "x"], "✗ expected the number of a mail, 1 to 8; found '99'"),
        (["--sql", "SELECT nope"], "✗ no such column: nope: SELECT nope"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(done: Path, options: list[str], found: str) -> None:
    code, _, errors = run(NAME, done.parent, *options)

    assert (code, errors.count("\n"), errors[: len(found)]) == (1, 1, found)


def test_a_question_and_a_wish_are_answered_from_the_log_as_it_stands(tmp_path: Path) -> None:
    path = finished(NAME, tmp_path, "--sql", "SELECT 1")
    asked = said(NAME, tmp_path, "--ask", "Who hears of the outages?")
    wished = said(NAME, tmp_path, "--regenerate", "4", "Shorter!")
    again = said(NAME, tmp_path, "--regenerate", "4", "Shorter!")

    assert "3 mails speak of the outages" in asked
    assert "mail 4, in the place of " in wished
    assert sql(path, "SELECT count(*) FROM stakeholder_mails WHERE workflow = 'october'") == [(8,)]
    assert wished == again


def test_its_log_is_clean(done: Path) -> None:
    clean(done)


def test_an_orchestrator_that_hands_on_to_the_planner_again_stops_no_later_start(tmp_path: Path) -> None:
    def reply(prompt: ModelRequest) -> str:
        about = json.dumps({"mails": [{"to": "Ann", "about": f"growth {prompt.key[:9]}"}]})
        return {"planner": about, "writer": "Dear Ann"}.get(prompt.lane.partition("/")[0], "Go on, @planner.")

    async def main(log: stenolog.Log) -> None:
        async with team(agents(Scripted(reply, endless=True))) as working:
            for part in (plan, write, plan, write):
                async for _ in part(log[TALK], working):
                    pass

    with stenolog.open(tmp_path / "a.db") as log:
        asyncio.run(main(log))
        briefs = [entry.id for entry in log[TALK].entries() if entry.id.startswith("brief-")]

    assert briefs == ["brief-1"]


@pytest.mark.slow
def test_killed_in_its_last_answers_it_ends_the_same(done: Path, tmp_path: Path) -> None:
    for seed in range(3):
        (tmp_path / f"{seed}").mkdir()
        path = killed(NAME, tmp_path / f"{seed}", kills=2, seed=seed, most=3.0)

        assert outcome(NAME, done) == outcome(NAME, path)


@pytest.mark.slow
def test_killed_at_five_instants_it_ends_the_same_and_so_do_its_tables(done: Path, tmp_path: Path) -> None:
    path = killed(NAME, tmp_path, kills=5, seed=5)
    rows = "SELECT mail, score, text FROM stakeholder_mails ORDER BY mail, text"

    assert outcome(NAME, done) == outcome(NAME, path)
    assert sql(done, rows) == sql(path, rows)
    clean(path)
