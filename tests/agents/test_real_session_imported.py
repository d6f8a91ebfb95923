"""A session of the real Claude Code as it is imported, beside what its provider was sent in that run."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import Conversation, ToolResult
from stenolog.importers import files_in, import_files
from tests.agents import real
from tests.agents.provider import Provider
from tests.transcripts.given import Json

pytestmark = pytest.mark.slow
SECONDS = 120
NOT_IN_THE_FILE = (
    # The folder's instructions and the date: later versions write them, as `rendered`.
    "As you answer the user's questions",
    "# claudeMd",
    "Codebase and user instructions",
    "Contents of ",
    "Mind the oven.",
    "# currentDate",
    "Today's date is",
    "IMPORTANT: this context may or may not",
    "<system-reminder>",
    "</system-reminder>",
    # Advice below a list, which is the program's own.
    "When you launch multiple agents",
)
"""How the lines begin that are sent and that no session has."""


@pytest.fixture(scope="module")
def programs() -> Path:
    return real.installed()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home with a folder of work, which has instructions, a skill, an agent and hooks."""
    work = tmp_path / "home" / "work"
    for folder in ("agents", "skills/deploy"):
        (work / ".claude" / folder).mkdir(parents=True)
    about = "---\nname: {}\ndescription: {}\n---\nDo it.\n"
    (work / "CLAUDE.md").write_text("Mind the oven.\n")
    (work / ".claude" / "agents" / "reviewer.md").write_text(about.format("reviewer", "Reviews the bread"))
    (work / ".claude" / "skills" / "deploy" / "SKILL.md").write_text(about.format("deploy", "Ships it"))
    hooks = {event: [{"hooks": [{"type": "command", "command": f"echo of {event}"}]}] for event in EVENTS}
    (work / ".claude" / "settings.json").write_text(json.dumps({"hooks": hooks}))
    return tmp_path / "home"


EVENTS = ("SessionStart", "UserPromptSubmit", "PostToolUse")


def run(programs: Path, home: Path, provider: Provider, prompt: str) -> None:
    """Let Claude Code answer a prompt in the folder of work."""
    command = [str(programs / "claude"), "-p", "--dangerously-skip-permissions", prompt]
    env = {**os.environ, **real.settled(home, provider.url)}
    subprocess.run(
        command,
        cwd=home / "work",
        env=env,
        check=True,
        capture_output=True,
        timeout=SECONDS,
        stdin=subprocess.DEVNULL,
    )


def blocks(body: Any, kind: str) -> list[Json]:
    """Return the blocks of a kind in the messages of a request."""
    found = []
    for message in body["messages"]:
        content = message["content"]
        each = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found += [block for block in each if block["type"] == kind]
    return found


def lines(body: Any) -> set[str]:
    return {line.strip() for block in blocks(body, "text") for line in block["text"].splitlines()} - {""}


def imported(log: stenolog.Log, home: Path) -> Conversation:
    """Import the sessions of a home, and return the one that there is."""
    for report in import_files(log, files_in(home / ".claude" / "projects")):
        assert [one.failed for one in getattr(report, "conversations", [])] == [""]
    (name,) = log.names()
    return log[name]


def test_the_imported_request_has_all_that_was_sent_and_is_in_the_file(
    programs: Path, home: Path, provider: Provider
) -> None:
    run(programs, home, provider, "RUN «echo baked» RUN «ls nowhere»")
    sent = provider.bodies[-1]
    with stenolog.open(":memory:") as log:
        conversation = imported(log, home)
        body = conversation.request("claude", at=conversation.position - 1, api="anthropic").body
        results = [
            (each.event.call_id, each.event.is_error, each.event.meta)
            for each in conversation.entries()
            if isinstance(each.event, ToolResult)
        ]
        bill = conversation.bill("claude", conversation.position - 1)

    assert [(call["id"], call["input"]) for call in blocks(sent, "tool_use")] == [
        (call["id"], call["input"]) for call in blocks(body, "tool_use")
    ]
    assert [(block["tool_use_id"], block["is_error"]) for block in blocks(sent, "tool_result")] == [
        (call, is_error) for call, is_error, _ in results
    ]
    assert [meta for _, is_error, meta in results if not is_error] == [{"claude-code": {"is_error": False}}]
    lacking = {line for line in lines(sent) - lines(body) if not line.startswith(NOT_IN_THE_FILE)}
    assert lacking == set()
    added = {line for line in lines(body) - lines(sent) if line not in ("<note>", "</note>")}
    assert added == set()
    assert "of PostToolUse" not in str(sent)
    assert bill.unexplained is not None
    assert bill.unexplained.parts == ("system prompt", "tools")
