"""The room of NeuroCrew Lab with real command-line agents from npm: Claude Code, Codex and Gemini CLI.

A local provider records what each agent sends on. Twenty turns with a death, a session loss, a restart of the
program and a reset: no backend that remembers is sent anything twice, and none misses anything.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, Conversation, LlmError, ModeSwitch, Team
from stenolog.adapters.agents import groups
from stenolog.engine import load_team
from tests.agents import real
from tests.agents.provider import Provider, texts_of_users

pytestmark = pytest.mark.slow
PASS = "....."
NAMES = ("Backend Dev", "Frontend Dev", "Tester")
CREW = """
[turns]
rule = "round_robin"
pass_token = "....."

[agents."Backend Dev"]
persona = "You are the Backend Dev."
policy.reminder = {{ every = 5, text = "Stay the Backend Dev." }}
retries = {{ base = 0.1 }}
model = {{ use = "cli:{bin}/claude -p --dangerously-skip-permissions", format = "claude-code", \
mode = "long-lived", cwd = "{work}", env = {env} }}

[agents."Frontend Dev"]
persona = "You are the Frontend Dev."
retries = {{ base = 0.1 }}
model = {{ use = "cli:{bin}/codex exec --skip-git-repo-check", format = "codex", \
cwd = "{work}", env = {env} }}

[agents.Tester]
persona = "You are the Tester."
retries = {{ base = 0.1 }}
model = {{ use = "cli:{bin}/gemini --yolo --skip-trust -m gemini-2.5-pro", format = "gemini-cli", \
cwd = "{work}", env = {env} }}
"""


class Room(Provider):
    """A provider whose model answers a user's question with a number, and passes the turn otherwise."""

    def words(self, body: dict[str, Any]) -> str:
        last = list(texts_of_users(body))[-1]
        return f"Answer {len(self.bodies)}." if "User: " in last else PASS


@pytest.fixture
def provider() -> Iterator[Room]:
    with Room() as made:
        yield made
        made.shutdown()


def crew(home: Path, url: str) -> Team:
    """Return a new crew, from its file, as after a restart of the program."""
    env = real.settled(home, url)
    (home / "work").mkdir(exist_ok=True)
    told = "{ " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in env.items()) + " }"
    file = home / "crew.toml"
    file.write_text(CREW.format(bin=real.installed(), work=home / "work", env=told))
    return load_team(file).team


def said(home: Path, url: str, *texts: str, killed: bool = False) -> None:
    """Let the crew of a new program answer some texts; `killed`: its running process dies before the last."""

    async def work(conversation: Conversation) -> None:
        async with crew(home, url) as team:
            for text in texts:
                if killed and text is texts[-1]:
                    for group in groups.WATCHER.watched:
                        os.killpg(int(str(group).partition(":")[0]), signal.SIGKILL)
                    await asyncio.sleep(0.2)
                async for _ in team.run(conversation, text):
                    pass

    with stenolog.open(home / "talks.db") as log:
        asyncio.run(work(log["room"]))


def questions(body: dict[str, Any]) -> list[str]:
    """Return the questions that stand in a request to a provider, as often as they stand there."""
    return re.findall(r"User: (Question \d)", "\n".join(texts_of_users(body)))


def agent_of(body: dict[str, Any]) -> str:
    found = re.findall("You are the (Backend Dev|Frontend Dev|Tester)", "\n".join(texts_of_users(body)))
    assert len(set(found)) == 1, found
    return str(found[0])


def test_twenty_turns_with_a_death_a_lost_session_a_restart_and_a_reset(
    provider: Room, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    said(home, provider.url, "Question 1", "Question 2", "Question 3", killed=True)  # Claude Code dies
    shutil.rmtree(home / ".codex" / "sessions")
    for file in (home / ".codex").glob("*.sqlite*"):
        file.unlink()
    said(home, provider.url, "Question 4", "Question 5")  # a restart, and Codex has lost its session
    before = len(provider.bodies)
    with stenolog.open(home / "talks.db") as log:
        at = log["room"].position
        log["room"].append(ModeSwitch(context_from=at + 1), expected=at)
    said(home, provider.url, "Question 6", "Question 7")

    with stenolog.open(home / "talks.db") as log:
        events = [entry.event for entry in log["room"].entries()]
    answers = [e for e in events if isinstance(e, AssistantMessage) and e.text != PASS]
    lost = [e.agent for e in events if isinstance(e, LlmError)]
    assert {name: sum(e.agent == name for e in answers) for name in NAMES} == dict.fromkeys(NAMES, 7)
    # Claude Code takes its session up again; what Codex has lost, it is told anew.
    assert lost == ["Frontend Dev"]
    for body in provider.bodies:
        found = questions(body)
        assert len(found) == len(set(found)), found
        told = "\n".join(texts_of_users(body))
        reminders = told.count("[a reminder of what you were told]")
        assert told.count(f"You are the {agent_of(body)}.") == 1 + reminders
        assert reminders <= (agent_of(body) == "Backend Dev")  # after its fifth answer
    assert any("Stay the Backend Dev." in "".join(texts_of_users(body)) for body in provider.bodies)
    for name in NAMES:
        own = [questions(body) for body in provider.bodies if agent_of(body) == name]
        whole = [found for found in own if found and found[-1] == "Question 5"]
        assert whole[-1] == [f"Question {n}" for n in range(1, 6)], (name, whole)
    after = [questions(body) for body in provider.bodies[before:]]
    assert {tuple(found) for found in after} == {("Question 6",), ("Question 6", "Question 7")}
