"""System 5 with the engine: the workflow of the example, step by step, the log opened anew before each."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import sqlite3
import subprocess
import sys
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import stenolog
from examples.stakeholder_mail.crew import agents, team
from examples.stakeholder_mail.script import reply
from examples.stakeholder_mail.tables import tables
from examples.stakeholder_mail.workflow import TALK, answers, firsts, mails, plan, quality_of, said, write
from stenolog import AssistantMessage, Conversation, Log, Team
from stenolog.analysis import Price, usage
from stenolog.contrib.workflow import conversation_messages
from stenolog.engine import Replay, RunEvent, regenerate
from stenolog.importers import import_file
from stenolog.models import Scripted
from stenolog.tables import attach_table, attached_tables
from tests.examples.harness import PATIENCE, ROOT

Part = Callable[[Conversation, Team], AsyncIterator[RunEvent]]
ROWS = "SELECT id, role, content, agent, createdAt FROM conversation_messages WHERE workflowId = 'october'"


pytestmark = pytest.mark.about_file("its tables are in the log's own database, and read as a file")


def model() -> Scripted:
    return Scripted(reply, name="scripted", endless=True)


def work(path: Path, *parts: Part) -> None:
    """Do each part in a log that was just opened, with a team that was just made."""
    for part in parts:
        with stenolog.open(path) as log:
            tables(log)
            go_through(log[TALK], team(agents(model())), part)


def go_through(conversation: Conversation, working: Team, *parts: Part) -> None:
    async def all_of_it() -> None:
        for part in parts:
            async for _ in part(conversation, working):
                pass

    asyncio.run(all_of_it())


def sql(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talks.db"


@pytest.fixture
def done(path: Path) -> Path:
    """Return the mails, written."""
    work(path, plan, write)
    return path


def test_the_requests_whose_price_is_estimated_before_are_those_that_are_sent(path: Path) -> None:
    work(path, plan)
    with stenolog.open(path) as log:
        lanes = [f"mail-{n}" for n in range(1, 9)]
        before = {task: log[TALK].request("email_writer", task=task).sha256 for task in lanes}
    work(path, write)

    with stenolog.open(path) as log:
        sent = {said(mail).task: said(mail).receipt for mail in firsts(log[TALK], "email_writer")}
    assert {task: receipt.sha256 for task, receipt in sent.items() if receipt} == before


def test_the_account_is_by_agent_and_run_at_prices_of_ones_own(done: Path) -> None:
    with stenolog.open(done) as log:
        used = usage(log[TALK].entries())
    prices = (Price("scripted", 2.0, 2.0, 10.0),)

    costs = {what: {name: tally.cost(prices) for name, tally in used.by(what)} for what in ("agent", "run")}
    total = 2 * used.total.sum.input + 10 * used.total.sum.output
    assert costs["run"] == {"october-mails": total}
    assert sum(cost or 0 for cost in costs["agent"].values()) == total
    assert set(costs["agent"]) == {"orchestrator", "task_planner", "email_writer", "reviewer"}


def test_eight_mails_are_asked_for_at_once_and_each_sees_its_own_brief_alone(done: Path) -> None:
    with stenolog.open(done) as log:
        conversation = log[TALK]
        briefs = [entry.position for entry in conversation.entries() if entry.id.startswith("brief-")]
        written = [said(mail) for mail in firsts(conversation, "email_writer")]
        views = {mail.receipt.view for mail in written if mail.receipt}
        bodies = [str(conversation.request("email_writer", task=mail.task).body) for mail in written]

    assert (len(briefs), views) == (8, {briefs[-1]})
    assert [body.count("Write to ") for body in bodies] == [1] * 8


def test_the_tables_are_the_log_at_every_step_and_after_it_is_made_anew(path: Path) -> None:
    for part in (plan, write):
        work(path, part)
        kept = sql(path, ROWS)
        with stenolog.open(path) as log:
            assert attached_tables(log) == [
                ("conversation_messages", 0, ""),
                ("mail_scores", 0, ""),
                ("stakeholder_mails", 0, ""),
            ]
            attach_table(log, conversation_messages).rebuild()
        assert sql(path, ROWS) == kept


def test_rows_of_another_programs_table_go_on_as_a_conversation(done: Path, tmp_path: Path) -> None:
    columns = "id", "role", "content", "agent", "createdAt"
    rows = [dict(zip(columns, row, strict=True)) for row in sql(done, ROWS)]
    file = tmp_path / "rows.json"
    file.write_text(json.dumps([{**row, "workflowId": "theirs"} for row in rows]))
    again = tmp_path / "again.db"
    with stenolog.open(again) as log:
        import_file(log, file)
    with stenolog.open(again) as log:
        attach_table(log, conversation_messages)
        crew = agents(model())
        answer = asyncio.run(team(crew).ask(log["theirs"], "How many mails speak of the outages?"))

    assert answer.startswith("3 mails speak of the outages")
    told = "SELECT role, content, agent, createdAt FROM conversation_messages ORDER BY createdAt LIMIT 20"
    assert sql(again, told) == sql(done, told)


def test_the_whole_workflow_is_replayed_from_the_log_alone(done: Path) -> None:
    with stenolog.open(done) as log, stenolog.open(":memory:") as memory:
        recording = Replay(log[TALK])
        again = team([recording.agent(agent) for agent in agents(model())])
        go_through(memory[TALK], again, plan, write)

        assert recording.remaining == 0
        assert [said(entry).text for entry in answers(memory[TALK])] == [
            said(entry).text for entry in answers(log[TALK])
        ]


def test_a_mail_made_anew_is_one_row_in_its_place_and_a_fork_beside_it_copies_no_entry(done: Path) -> None:
    def anew(log: Log, *, in_place: bool) -> stenolog.Entry:
        third = mails(log[TALK])["mail-3"]
        return asyncio.run(
            regenerate(log[TALK], third.position, agents(model())[2], "Shorter!", in_place=in_place)
        )

    entries = sql(done, "SELECT count(*) FROM stored_events")[0][0]
    with stenolog.open(done) as log:
        tables(log)
        fork = anew(log, in_place=False).conversation
    assert sql(done, "SELECT count(*) FROM stored_events") == [(entries + 3,)]  # the fork, the wish, the mail
    with stenolog.open(done) as log:
        tables(log)
        anew(log, in_place=True)

    own = (
        "SELECT count(*), max(length(content)) FROM conversation_messages WHERE agent = 'email_writer/mail-3'"
    )
    assert sql(done, "SELECT count(*) FROM stored_events") == [(entries + 4,)]  # the same fork, and the edit
    assert sql(done, f"{own} AND workflowId = 'october'") == sql(done, f"{own} AND workflowId = '{fork}'")
    words = "SELECT words FROM stakeholder_mails WHERE workflow = 'october' AND mail = 'mail-3'"
    assert sql(done, words) == [(16,)]


# System 5 at a terminal: how far each mail is, while it is written; the scores stand in the log.


BAR = re.compile(r"email_writer/(mail-\d) +(━*╸?)")
"""A bar, as far as it is full; colours are taken out before."""
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def at_a_terminal(folder: Path, *command: str) -> str:
    """Return the output of a program that runs at a terminal."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (40, 120))
    env = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=folder,
        env={**env, "TERM": "xterm", "PYTHONPATH": str(ROOT)},
    )
    os.close(slave)
    with os.fdopen(master, "rb", buffering=0) as screen:
        said = b"".join(iter(lambda: read(screen.fileno()), b""))
    assert process.wait(PATIENCE) == 0
    return said.decode()


def read(screen: int) -> bytes:
    """Read more from the screen; nothing once the program has gone."""
    try:
        return os.read(screen, 65_536)
    except OSError:  # Linux says so at the end of a terminal
        return b""


@pytest.mark.slow
def test_bars_grow_while_the_mails_are_written_and_the_scores_are_kept(tmp_path: Path) -> None:
    said = at_a_terminal(tmp_path, "examples.stakeholder_mail")
    lengths: dict[str, set[int]] = {}
    for mail, full in BAR.findall(CONTROL.sub("", said)):
        lengths.setdefault(mail, set()).add(len(full))
    with stenolog.open(tmp_path / "stakeholder_mail.db") as log:
        events = [entry.event for name in log for entry in log[name].entries()]
    reviews = [e for e in events if isinstance(e, AssistantMessage) and e.agent == "reviewer"]
    scores = {f"quality {quality_of(review)['score']:.0%}" for review in reviews}

    assert sorted(lengths) == [f"mail-{n}" for n in range(1, 9)]
    assert min(map(len, lengths.values())) > 2
    assert all(map(quality_of, reviews))
    assert scores == set(re.findall(r"quality \d+%", said))
