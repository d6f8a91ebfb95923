"""System 1, on the day it moves: roles that are gone, sessions begun in the middle, a person who looks."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AgentCard, AssistantMessage, ModeSwitch, Settings, UserMessage
from stenolog.analysis import usage
from stenolog.chats import render_entry
from stenolog.context import (
    Budget,
    FullHistory,
    LastN,
    MemoriesAndRecent,
    Pins,
    Policy,
    Prompt,
    Reminder,
    SinceLastTurn,
    SinceLastTurnOrRecent,
    SummaryAndRecent,
    policy,
)
from stenolog.engine import Agent, AutoSummary, RoundRobin, Team, load_team
from stenolog.models import Scripted
from tests.chats.given import until
from tests.chats.standin import TOKEN, StandIn
from tests.command_line import run
from tests.systems.given import Room
from tests.systems.test_neurocrew_crew import talked

ROOT = Path(__file__).parents[2]

FILE = """
[turns]
rule = "round_robin"
pass_token = "....."

[agents."Backend Dev"]
model = "cli:echo By a link in a mail."

[agents.Moderator]
model = "cli:echo ....."
"""


def imported(db: Path) -> None:
    """Write a chat whose next role, the frontend, is in the log and not in the file."""
    names = ["Backend Dev", "Frontend Dev", "Moderator"]
    with stenolog.open(db) as log:
        log["chat"].extend(
            [
                ModeSwitch(joins=names, turns=RoundRobin(pass_token=".....")),
                UserMessage("Build a login."),
                AssistantMessage(agent="Backend Dev", text="Sessions."),
            ],
            expected=0,
        )


def said(db: Path) -> list[tuple[str, str]]:
    with stenolog.open(db) as log:
        return [(e.event.agent, e.event.text) for e in log["chat"] if isinstance(e.event, AssistantMessage)]


def test_a_role_that_was_taken_out_of_the_file_stops_nobody(tmp_path: Path) -> None:
    db, file = tmp_path / "talks.db", tmp_path / "crew.toml"
    imported(db)
    file.write_text("exclusive = true\n" + FILE)

    assert run(["run", str(file), "And a lost password?", "--conversation", "chat", "--db", str(db)]) == 0

    assert said(db)[1:] == [
        ("Moderator", "....."),
        ("Backend Dev", "By a link in a mail."),
        ("Moderator", "....."),
    ]
    with stenolog.open(db) as log:
        assert log["chat"].settings().members == ("Backend Dev", "Moderator")


def test_a_turn_that_nobody_here_can_take_is_a_warning_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    db, file = tmp_path / "talks.db", tmp_path / "crew.toml"
    imported(db)
    file.write_text(FILE)

    with caplog.at_level(logging.WARNING, "stenolog"):
        run(["run", str(file), "And a lost password?", "--conversation", "chat", "--db", str(db)])

    told = [record.getMessage() for record in caplog.records if "it is the turn of" in record.getMessage()]
    assert len(told) == 1
    assert "'Frontend Dev', which this team does not have" in told[0]


RECENT = """
[agents."Backend Dev"]
model = { use = "cli:python3 role.py", mode = "long-lived" }
policy = "delta:4"
summary = "scribe"

[helpers.scribe]
model = "cli:echo They chose sessions."
"""
ROLE = """
import sys

lines = []
for line in sys.stdin:
    if line.strip() != "<<<end>>>":
        lines.append(line)
        continue
    with open("told.txt", "a") as told:
        told.write("".join(lines) + "\\n=====\\n")
    lines = []
    print("Yes.\\n<<<end>>>", flush=True)
"""


def room_of_one(folder: Path) -> Callable[..., list[str]]:
    """Return a program: it starts, says these texts (of several the last at work), gives the prompts."""
    file, told = folder / "crew.toml", folder / "told.txt"
    file.write_text(RECENT.replace("python3 role.py", f"{sys.executable} {folder / 'role.py'}"))
    (folder / "role.py").write_text(ROLE.replace("told.txt", str(told)))

    async def start(*texts: str | tuple[str, ...]) -> list[str]:
        told.write_text("")
        async with load_team(file).team as team:
            with stenolog.open(folder / "talks.db") as log:
                for text in texts:
                    *before, last = [text] if isinstance(text, str) else text
                    log["chat"].extend([UserMessage(each) for each in before])
                    async for _ in team.run(log["chat"], last):
                        pass
        return told.read_text().replace("\n\n", "\n").split("\n=====\n")[:-1]

    return lambda *texts: asyncio.run(start(*texts))


QUESTIONS = [f"Question {n}" for n in range(6)]


def test_a_session_that_begins_late_is_told_a_summary_and_the_last_and_one_that_lives_what_is_new(
    tmp_path: Path,
) -> None:
    start = room_of_one(tmp_path)

    living = start(*QUESTIONS)
    begun, then = start("And now?", "And then?")

    # No summary, and nothing twice, for who has heard it all.
    assert living == [f"User: {text}" for text in QUESTIONS]
    assert begun.startswith("User: <summary>\nThey chose sessions.\n</summary>\n")
    assert begun.endswith("Question 5\nAssistant (Backend Dev): Yes.\nUser: And now?")
    assert "Question 1" not in begun
    assert then == "User: And then?"


def test_what_a_living_session_was_not_told_yet_is_told_in_its_own_words(tmp_path: Path) -> None:
    told = room_of_one(tmp_path)(*QUESTIONS, ("One.", "Two.", "Three."))

    assert told[-1] == "User: One.\nUser: Two.\nUser: Three."


def test_a_program_that_is_started_anew_is_no_error_at_the_terminal_and_no_failed_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    room_of_one(tmp_path)
    db, file = tmp_path / "talks.db", tmp_path / "crew.toml"

    for text in ("One.", "Two."):
        assert run(["run", str(file), text, "--conversation", "chat", "--db", str(db)]) == 0

    told = capsys.readouterr().err
    assert "· Backend Dev begins a new session: no process that remembers its session runs here\n" in told
    assert ("✗" in told, "retrying" in told) == (False, False)
    with stenolog.open(db) as log:
        used = log["chat"].fold(usage).total
        assert (used.calls, used.errors) == (2, {})


def test_the_room_of_the_page_goes_on_in_the_chat_that_was_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "systems" / "from-neurocrew.md").read_text()
    team, room = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STENOLOG_DB", str(tmp_path / "home.db"))
    monkeypatch.setenv("TELEGRAM_TOKEN", TOKEN)
    assert run(["import", str(ROOT / "docs" / "examples" / "neurocrew.json")]) == 0
    exec(compile(team, "team.py", "exec"), {})
    names: dict[str, Any] = {"__name__": "room"}
    exec(compile(room, "room.py", "exec"), names)

    async def main() -> None:
        with StandIn() as api:
            names["Telegram"] = partial(names["Telegram"], base_url=api.url)
            serving = asyncio.create_task(names["serve"]())
            api.say("And the cookie?", chat=42)
            await until(lambda: api.texts(42))
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(main())
    with stenolog.open() as log:
        said = [entry.event.text for entry in log["chat_42"] if isinstance(entry.event, UserMessage)]
    assert said == ["Build a login for the bakery.", "And a lost password?", "And the cookie?"]
    assert [path.name for path in tmp_path.glob("*.db")] == ["home.db"]


ROLES = """
roles:
  - role_name: backend_dev
    display_name: 'Backend "B" Dev'
    system_prompt: |
      You write
      the server.
    cli_command: python agent.py be
  - role_name: moderator
    cli_command: /usr/bin/qwen --yolo
    is_moderator: true
"""


def test_the_file_of_roles_becomes_the_file_of_a_team_and_overwrites_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("roles.yaml").write_text(ROLES)
    codes = [run(["import", "roles.yaml", "--db", "t.db"]) for _ in range(2)]
    told, team = capsys.readouterr(), load_team(tmp_path / "roles.toml").team

    assert (codes, "roles.toml  a team" in told.out) == ([0, 2], True)
    assert "roles.toml is here already" in told.err
    assert [*team.agents] == ['Backend "B" Dev', "moderator"]
    assert team.agents['Backend "B" Dev'].persona == "You write\nthe server.\n"
    assert [agent.llm.remembers for agent in team.agents.values() if agent.llm] == [True, True]


# System 1: what agents, the operator and people are told of what an agent is shown.


DEV = "Backend Dev"
PERSONA = "You write the server."


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        (policy(FullHistory()), "this conversation"),
        (policy(SinceLastTurn()), "what is new since your last turn; what was before is in your session"),
        (
            policy(SinceLastTurnOrRecent(20)),
            "where your session begins, each summary and each memory and the last 20 messages; "
            "then what is new since your last turn",
        ),
        (LastN(50) | Budget(tokens=16_000), "the last 50 messages; at most 16,000 tokens"),
        (policy(SummaryAndRecent(20)), "each summary and the last 20 messages"),
        (
            MemoriesAndRecent(20) | Pins(tags=["intent"]),
            "each memory and the last 20 messages; pinned messages",
        ),
    ],
)
def test_a_role_is_told_in_its_system_prompt_what_it_is_shown_where_its_policy_says_so(
    room: Room, chosen: Policy, told: str
) -> None:
    room.write(ModeSwitch(joins=[DEV], cards={DEV: AgentCard(persona=PERSONA)}), UserMessage(text="Hello"))

    request = room.request(DEV, policy=chosen | Prompt(scope_note=True))

    assert request.body["messages"][0]["content"] == f"{PERSONA}\n\n[what you are shown: {told}]"
    assert "what you are shown" not in str(room.request(DEV, policy=chosen).body)


def test_after_a_reset_the_answers_are_counted_anew_for_the_next_reminder(room: Room) -> None:
    chosen = FullHistory() | Reminder(2, text="Stay in role.")
    room.write(ModeSwitch(joins=[DEV], cards={DEV: AgentCard(persona=PERSONA)}))
    reminded = []
    for n in range(6):
        if n == 3:
            room.write(ModeSwitch(context_from=len(room.entries()) + 1))
        room.write(UserMessage(text=f"Question {n}"))
        reminded.append("Stay in role." in str(room.answer(DEV, "Yes.", policy=chosen).body))

    assert reminded == [False, False, True, False, False, True]


def test_what_a_summary_has_in_its_words_is_no_loss_to_warn_of(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    scribe = Agent("scribe", llm=Scripted("They talked.", endless=True))
    dev = Agent(
        DEV,
        llm=Scripted("Yes.", endless=True),
        policy=SummaryAndRecent(4),
        summary=AutoSummary(by=scribe),
    )
    with caplog.at_level(logging.WARNING, "stenolog.engine"):
        talked(room, lambda: Team([dev]), *"abcde")

    assert [record.getMessage() for record in caplog.records if "not shown" in record.getMessage()] == []


def test_a_person_in_a_chat_sees_what_an_answer_was_given_without_where_that_is_wanted(room: Room) -> None:
    dev = Agent(DEV, llm=Scripted("Yes.", endless=True), policy=LastN(2))
    talked(room, lambda: Team([dev]), "one", "two")

    last = room.entries()[-1]
    shown = [render_entry(cuts=wanted)(last, Settings()) for wanted in (False, True)]

    assert isinstance(last.event, AssistantMessage)
    assert shown == [["Yes."], ["Yes.\n\n(answered without 2)"]]
