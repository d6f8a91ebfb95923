"""The document's own tables in SQLite, PostgreSQL and MySQL have what the log has, exactly once."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

import stenolog
from examples.stakeholder_mail.crew import agents, team
from examples.stakeholder_mail.script import reply
from examples.stakeholder_mail.workflow import TALK, plan, write
from stenolog import AgentCard, AssistantMessage, LlmError, Log, ModeSwitch, ToolResult, UserMessage
from stenolog.contrib.workflow import WorkflowFollower
from stenolog.errors import CallerError, TableError
from stenolog.models import Scripted
from tests.tables.application import DDL, Application, follow

ROOT = Path(__file__).resolve().parents[2]


def workflow(log: Log, name: str = "october") -> None:
    """Append a workflow with every role."""
    card = AgentCard(persona="You write mails.")
    log[name].append(ModeSwitch(joins=["email_writer"], cards={"email_writer": card}), expected=0)
    log[name].append(UserMessage(text="The report: 412,000 € 🥐."))
    log[name].append(AssistantMessage(agent="email_writer", task="mail-1", text="Dear Ann"))
    log[name].append(ToolResult(call_id="1", name="search", text="Found."))


def test_integer_ids_the_documents_roles_and_agents_and_a_foreign_key(
    log: Log, application: Application
) -> None:
    workflow(log)
    follow(log, application)

    assert application.messages() == [
        ("system", "email_writer", "You write mails."),
        ("user", None, "The report: 412,000 € 🥐."),
        ("assistant", "email_writer", "Dear Ann"),
        ("user", "search", "Found."),
    ]
    ids = application.run("SELECT id FROM conversation_messages ORDER BY id")
    assert ids == [(1,), (2,), (3,), (4,)]
    quoted = '"workflowId"' if application.kind == "postgres" else "workflowId"
    joined = f"""SELECT w.id, w.name, COUNT(*) FROM conversation_messages m
        JOIN workflows w ON w.id = m.{quoted} GROUP BY w.id, w.name"""
    assert application.run(joined) == [(1, "october", 4)]
    keys = ["PRAGMA foreign_keys = ON"] if application.kind == "sqlite" else []
    stray = f"INSERT INTO conversation_messages ({quoted}, role, content) VALUES (77, 'user', 'x')"
    with pytest.raises(Exception, match=r"(?i)foreign key"):
        application.run(*keys, stray)


def test_times_are_those_of_the_log(log: Log, application: Application) -> None:
    log["october"].append(UserMessage(text="one"))
    follow(log, application)

    column = '"createdAt"' if application.kind == "postgres" else "createdAt"
    zone = {"mysql": ["SET time_zone = '+00:00'"], "postgres": ["SET TIME ZONE 'UTC'"]}
    ((found,),) = application.run(
        *zone.get(application.kind, []), f"SELECT {column} FROM conversation_messages"
    )
    assert str(found)[:19] == str(log["october"].entry(2).time)[:19]


def test_what_had_arrived_of_an_answer_that_was_cut_off_is_marked(log: Log, application: Application) -> None:
    log["october"].append(UserMessage(text="Write."))
    log["october"].append(LlmError(agent="email_writer", category="network", text="Dear A"))
    log["october"].append(AssistantMessage(agent="email_writer", text="Dear Ann, all is well."))
    follow(log, application)

    column = {"postgres": '"cutOff"'}.get(application.kind, "cutOff")
    whole = f"SELECT content FROM conversation_messages WHERE NOT {column} ORDER BY id"
    assert application.run(whole) == [("Write.",), ("Dear Ann, all is well.",)]
    assert len(application.messages()) == 3


def test_an_answer_made_anew_keeps_its_row_and_an_erased_one_has_none(
    log: Log, application: Application
) -> None:
    log["october"].append(UserMessage(text="Write."))
    log["october"].append(AssistantMessage(agent="email_writer", text="one"))
    follow(log, application)
    log["october"].append(AssistantMessage(agent="email_writer", text="two", replaces=3))
    follow(log, application)
    log["october"].append(AssistantMessage(agent="email_writer", text="three", replaces=4))
    log["october"].append(UserMessage(text="secret"))
    follow(log, application)

    rows = [("user", None, "Write."), ("assistant", "email_writer", "three")]
    assert application.messages() == [*rows, ("user", None, "secret")]
    log["october"].erase(6, by="Alice")
    follow(log, application)
    assert application.messages()[:2] == rows
    assert not any("secret" in content for *_, content in application.messages())


def test_a_fork_is_a_workflow_with_all_it_inherits_and_a_deleted_conversation_has_no_rows(
    log: Log, application: Application
) -> None:
    workflow(log)
    log["october"].fork(after=2, name="beside").append(UserMessage(text="Warmer."))
    follow(log, application)

    assert [content for *_, content in application.messages("2")] == [
        *("You write mails.", "The report: 412,000 € 🥐.", "Warmer.")
    ]
    log["beside"].rename("aside")
    log["october"].append(UserMessage(text="More."))
    follow(log, application)
    assert len(application.messages("1")) == 5
    log["aside"].delete()
    follow(log, application)
    assert application.messages("2") == []
    assert len(application.messages("1")) == 5


def test_two_followers_at_once_double_nothing_and_take_nothing_back(
    log: Log, path: Path, application: Application
) -> None:
    def write() -> None:
        with stenolog.open(path) as other, closing(application.connect()) as connection:
            follower = WorkflowFollower(other, connection)
            for _ in range(15):
                follower.catch_up()

    follow(log, application)
    with ThreadPoolExecutor() as pool:
        at_work = [pool.submit(write) for _ in range(2)]
        for number in range(30):
            log[f"talk {number % 5}"].append(UserMessage(text=f"{number}"))
        for one in at_work:
            one.result()
    follow(log, application)

    assert sorted(int(content) for *_, content in application.messages()) == [*range(30)]
    assert application.run("SELECT max(id) FROM conversation_messages") == [(30,)]


def test_the_application_may_say_which_workflow_a_conversation_is(log: Log, application: Application) -> None:
    application.run(*DDL[application.kind].split(";"))
    application.run("INSERT INTO workflows (id) VALUES (7)")
    log["mails of October"].append(UserMessage(text="Write."))
    log["other"].append(UserMessage(text="Not for the application."))
    with closing(application.connect()) as connection:
        WorkflowFollower(log, connection, workflow={"mails of October": 7}.get).catch_up()

    assert application.run("SELECT workflowId, content FROM conversation_messages") == [(7, "Write.")]


def test_what_the_database_refuses_is_said_and_nothing_of_it_is_kept(
    log: Log, application: Application
) -> None:
    log["october"].append(UserMessage(text="Write."))
    with closing(application.connect()) as connection:
        with pytest.raises(TableError, match=r"(?i)foreign key"):
            WorkflowFollower(log, connection, workflow=lambda name: 99).catch_up()
        assert application.messages() == []
        log["1"].append(UserMessage(text="One."))
        with pytest.raises(CallerError, match="'1': workflow 1 has another conversation"):
            WorkflowFollower(log, connection).catch_up()


def test_another_log_is_not_taken_for_the_one_before(
    log: Log, application: Application, tmp_path: Path
) -> None:
    workflow(log)
    follow(log, application)
    with stenolog.open(tmp_path / "other.db") as other:
        workflow(other)
        with pytest.raises(TableError, match="it follows another log"):
            follow(other, application)


def test_a_connection_in_autocommit_or_of_another_kind_is_refused(log: Log, tmp_path: Path) -> None:
    commits = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    with closing(commits), pytest.raises(CallerError, match="found one in autocommit"):
        WorkflowFollower(log, commits)
    with pytest.raises(CallerError, match="expected a connection of sqlite3, psycopg, pymysql"):
        WorkflowFollower(log, object())


def test_the_example_is_in_the_documents_table_by_its_agents_and_roles(
    log: Log, application: Application
) -> None:
    async def main() -> None:
        async with team(agents(Scripted(reply, endless=True))) as working:
            for part in (plan, write):
                async for _ in part(log[TALK], working):
                    pass

    asyncio.run(main())
    follow(log, application)

    found = application.run("SELECT role, agent, COUNT(*) FROM conversation_messages GROUP BY role, agent")
    assert set(found) == {
        ("system", None, 1),  # the rules
        *(("system", agent, 1) for agent in ("orchestrator", "task_planner", "email_writer", "reviewer")),
        ("user", None, 3),  # the report, the selection, and the wish to sum up
        ("assistant", "orchestrator", 2),
        ("assistant", "task_planner", 1 + 8 + 9),  # the plan, the briefs, the requests to score
        ("assistant", "email_writer", 8 + 1),
        ("assistant", "reviewer", 9 + 1),  # the scores, and the wish to refine a mail
    }


@pytest.mark.slow
def test_a_follower_killed_at_any_instant_loses_no_row_and_doubles_none(
    log: Log, path: Path, application: Application
) -> None:
    chance, process = Random(3), None
    command = [sys.executable, "-m", "tests.tables.follow_workflow", str(path), application.kind]
    for number in range(150):
        if number % 15 == 0:
            if process:
                time.sleep(chance.uniform(0, 1.0))
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
            process = subprocess.Popen([*command, *application.address.split(" ")], cwd=ROOT)
        log[f"talk {number % 3}"].append(UserMessage(text=f"{number}"))
        time.sleep(chance.uniform(0, 0.02))
    assert process
    process.kill()
    process.wait()
    follow(log, application)

    numbers = [int(content) for *_, content in application.messages()]
    assert sorted(numbers) == [*range(150)]


def test_a_column_that_is_too_short_for_a_long_message_is_warned_of_at_the_start(
    log: Log, application: Application, caplog: pytest.LogCaptureFixture
) -> None:
    application.run(*DDL[application.kind].split(";"))
    follow(log, application)

    told = [message for message in caplog.messages if "MODIFY content MEDIUMTEXT" in message]
    assert len(told) == (application.kind == "mysql")
