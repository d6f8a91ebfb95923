"""Rows of the application come into the log, rows of the follower do not come back."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Any

import pytest

from stenolog import Agent, AgentCard, AssistantMessage, Log, ModeSwitch, Team, ToolResult, UserMessage
from stenolog.contrib.workflow import WorkflowFollower, import_rows
from stenolog.engine import ByAddress, regenerate
from stenolog.errors import CallerError, TableError
from stenolog.events import Entry
from stenolog.models import Scripted
from tests.tables.application import DDL, Application, follow


def test_the_applications_own_rows_come_into_the_log_and_go_on_there(
    log: Log, application: Application
) -> None:
    application.run(*DDL[application.kind].split(";"))
    for statement in (
        "INSERT INTO workflows (id) VALUES (12)",
        "INSERT INTO conversation_messages (workflowId, role, content, agent)"
        " VALUES (12, 'system', 'You write mails.', 'email_writer')",
        "INSERT INTO conversation_messages (workflowId, role, content) VALUES (12, 'user', 'Write.')",
        "INSERT INTO conversation_messages (workflowId, role, content, agent)"
        " VALUES (12, 'assistant', 'Dear Ann', 'email_writer')",
    ):
        application.run(statement)
    with closing(application.connect()) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT * FROM conversation_messages")
        import_rows(log, cursor)
        log["12"].append(UserMessage(text="Shorter."))
        follower = WorkflowFollower(log, connection)
        follower.catch_up()
        log["12"].append(AssistantMessage(agent="email_writer", text="Ann:"))
        follower.catch_up()

    query = "SELECT id, workflowId, role, content, agent FROM conversation_messages ORDER BY id"
    assert application.run(query) == [
        (1, 12, "system", "You write mails.", "email_writer"),
        (2, 12, "user", "Write.", None),
        (3, 12, "assistant", "Dear Ann", "email_writer"),
        (4, 12, "user", "Shorter.", None),
        (5, 12, "assistant", "Ann:", "email_writer"),
    ]


def test_what_the_follower_wrote_does_not_come_in_again_with_what_the_application_wrote(
    log: Log, application: Application
) -> None:
    application.run(*DDL[application.kind].split(";"))
    application.run("INSERT INTO workflows (id) VALUES (12)")
    card = AgentCard(persona="You write mails.")
    log["12"].append(ModeSwitch(cards={"email_writer": card}, turns=ByAddress(default=["email_writer"])))
    log["12"].append(UserMessage(text="Write.", to=["email_writer/mail-1"]))
    log["12"].append(AssistantMessage(agent="email_writer", task="mail-1", text="one"))
    log["12"].append(ToolResult(call_id="c", text="7", name="look"))
    follow(log, application)
    log["12"].append(AssistantMessage(agent="email_writer", task="mail-1", text="two", replaces=3))
    follow(log, application)
    turns, before = log["12"].settings().turns, log["12"].position
    inserted = "INSERT INTO conversation_messages (workflowId, role, content, agent) VALUES "
    application.run(inserted + "(12, 'user', 'Shorter.', NULL), (12, 'assistant', 'two', 'reviewer')")

    for _ in range(2):
        with closing(application.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute("SELECT * FROM conversation_messages")
            import_rows(log, cursor)
        follow(log, application)

    new = [getattr(entry.event, "text", "") for entry in log["12"].entries(after=before)]
    assert new == ["Shorter.", "two"]
    assert log["12"].settings().turns == turns
    assert application.run("SELECT count(*) FROM conversation_messages") == [(6,)]


def test_a_workflow_that_the_follower_made_and_that_comes_in_by_its_number_holds_up_no_other(
    log: Log, application: Application
) -> None:
    log["october"].append(UserMessage(text="Write."))
    follow(log, application)
    with closing(application.connect()) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT * FROM conversation_messages")
        import_rows(log, cursor)
    log["october"].append(UserMessage(text="Shorter."))
    follow(log, application)

    assert application.messages() == [("user", None, "Write."), ("user", None, "Shorter.")]


@pytest.mark.parametrize("in_place", [True, False])
def test_a_mail_made_anew_needs_no_workflow_that_the_application_does_not_know(
    log: Log, application: Application, in_place: bool
) -> None:
    application.run(*DDL[application.kind].split(";"))
    application.run("ALTER TABLE workflows ADD COLUMN userId INT")
    application.run("INSERT INTO workflows (id, userId) VALUES (12, 7)")
    writer = Agent("email_writer", llm=Scripted("Dear Ann.", "Ann!", "Ann!!"))

    async def write() -> None:
        await Team([writer]).ask(log["12"], "Write to Ann.")
        once = await regenerate(log["12"], log["12"].position, writer, "Shorter.", in_place=in_place)
        await regenerate(log[once.conversation], once.position, writer, "Shorter!", in_place=in_place)

    asyncio.run(write())
    follow(log, application)

    assert len(log.names()) > 1
    assert application.run("SELECT id, userId FROM workflows") == [(12, 7)]
    mails = [content for role, _, content in application.messages() if role == "assistant"]
    assert mails == (["Ann!!"] if in_place else ["Dear Ann."])


def test_a_conversation_for_which_no_workflow_can_be_made_is_named_with_the_way_out(
    log: Log, application: Application
) -> None:
    required = DDL[application.kind].replace(");", ", title VARCHAR(9) NOT NULL);", 1)
    application.run(*required.split(";"))
    log["chat"].append(UserMessage(text="Hello."))
    with closing(application.connect()) as connection:
        if application.kind == "mysql":  # MariaDB's default, which the driver does not change
            connection.cursor().execute("SET SESSION sql_mode = 'STRICT_ALL_TABLES'")
        with pytest.raises(CallerError, match=r"'chat': no workflow can be made for it \(.*title"):
            WorkflowFollower(log, connection).catch_up()
        WorkflowFollower(log, connection, workflow=lambda name: None).catch_up()


def mail_of(entry: Entry) -> dict[str, Any]:
    """Return the columns that the application has for a mail: whose it is, and how good."""
    match entry.event:
        case AssistantMessage(task=task, meta={"quality": float(quality)}):
            return {"mail": task, "quality": quality}
        case _:
            return {}


def test_columns_of_the_application_say_whose_mail_a_row_is_and_how_good(
    log: Log, application: Application
) -> None:
    application.run(*DDL[application.kind].split(";"))
    for column in ("mail VARCHAR(20)", "quality REAL"):
        application.run(f"ALTER TABLE conversation_messages ADD COLUMN {column}")
    mails = [
        AssistantMessage(agent="email_writer", task=f"mail-{n}", text="Dear!", meta={"quality": n / 2})
        for n in (1, 2)
    ]
    log["12"].extend([UserMessage(text="Write."), *mails])
    again = AssistantMessage(
        agent="email_writer", task="mail-1", text="Ann!", replaces=3, meta={"quality": 0.75}
    )
    log["12"].append(again)
    with closing(application.connect()) as connection:
        WorkflowFollower(log, connection, columns=mail_of).catch_up()
        log["12"].append(UserMessage(text="More."))
        follower = WorkflowFollower(log, connection, columns=lambda entry: {"score": 1})
        with pytest.raises(CallerError, match=r"expected a column of conversation_messages.*; found 'score'"):
            follower.catch_up()

    rows = application.run("SELECT content, mail, quality FROM conversation_messages ORDER BY id")
    assert rows == [("Write.", None, None), ("Ann!", "mail-1", 0.75), ("Dear!", "mail-2", 1.0)]


def test_a_conversation_that_the_database_refuses_is_named_and_holds_up_no_other(
    log: Log, application: Application
) -> None:
    short = DDL[application.kind].replace(
        "content TEXT NOT NULL", "content VARCHAR(9) CHECK (content <> 'No!')"
    )
    application.run(*short.split(";"))
    for name, text in (("1", "One."), ("2", "No!"), ("3", "Three.")):
        log[name].append(UserMessage(text=text))

    with closing(application.connect()) as connection:
        follower = WorkflowFollower(log, connection)
        for _ in range(2):
            with pytest.raises(TableError, match=r"'2': .*(?i:check|constraint)"):
                follower.catch_up()

    assert sorted(content for *_, content in application.messages()) == ["One.", "Three."]
