"""System 1: summaries and memories as configuration of a team file, over the command line and in a chat."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stenolog
from stenolog import AssistantMessage
from stenolog.adapters.engine.team_file import load
from stenolog.errors import CallerError
from tests.command_line import run

FILE = """
[turns]
rule = "round_robin"
pass_token = "....."

[agents."Backend Dev"]
model = "cli:echo Sessions."
policy = "summary:4"
summary = "scribe"

[agents.Tester]
model = "cli:echo ....."
policy = "memory:4"
memory = { by = "scribe", every = 1 }

[helpers.scribe]
model = "cli:echo They chose sessions."
persona = "You write minutes."
"""


def written(tmp_path: Path, text: str = FILE) -> Path:
    path = tmp_path / "crew.toml"
    path.write_text(text)
    return path


def kept(db: Path, purpose: str) -> list[tuple[str, str]]:
    with stenolog.open(db) as log:
        events = [entry.event for entry in log["crew"].entries()]
    return [(e.agent, e.text) for e in events if isinstance(e, AssistantMessage) and e.purpose == purpose]


def test_a_team_file_has_its_summaries_made_without_any_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, db = written(tmp_path), tmp_path / "talks.db"

    for n in range(6):
        assert run(["run", str(file), f"Question {n}", "--db", str(db)]) == 0

    capsys.readouterr()
    assert run(["request", "crew", "--agent", "Backend Dev", "--api", "plain", "--raw", "--db", str(db)]) == 0
    prompt = json.loads(capsys.readouterr().out)["prompt"]
    assert kept(db, "summary")[0] == ("Backend Dev", "They chose sessions.")
    assert ("They chose sessions." in prompt, "Question 0" in prompt) == (True, False)
    # The helper takes no turn, and is no member.
    with stenolog.open(db) as log:
        assert log["crew"].settings().members == ("Backend Dev", "Tester")


def test_a_team_file_has_facts_kept_and_passes_are_nothing_to_remember(tmp_path: Path) -> None:
    file, db = written(tmp_path, FILE.replace("echo .....", "echo It breaks.")), tmp_path / "talks.db"

    assert run(["run", str(file), "Question", "--db", str(db)]) == 1  # they say the same without end
    assert kept(db, "memory")[-1] == ("Tester", "They chose sessions.")

    file, db = written(tmp_path), tmp_path / "passes.db"
    assert run(["run", str(file), "Question", "--db", str(db)]) == 0
    assert kept(db, "memory") == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (
            'summary = "scribe"\n',
            "",
            r"agents.Backend Dev.policy: it shows summaries, but none is ever made",
        ),
        (
            'memory = { by = "scribe", every = 1 }\n',
            "",
            "agents.Tester.policy: it shows memories, but none is ever kept",
        ),
        (
            'summary = "scribe"',
            'summary = "bob"',
            r"agents.Backend Dev.summary: by: expected a helper",
        ),
        (
            'policy = "summary:4"\n',
            "",
            r"agents.Backend Dev.summary: its policy cuts nothing, so none would be made",
        ),
        (
            "every = 1",
            "often = 1",
            "agents.Tester.memory.often: no such key; expected one of by",
        ),
        ("every = 1", "every = 0", "agents.Tester.memory.every: expected"),
    ],
)
def test_what_nobody_would_do_is_refused_with_its_place(
    tmp_path: Path, old: str, new: str, fault: str
) -> None:
    assert old in FILE
    with pytest.raises(CallerError, match=fault):
        load(written(tmp_path, FILE.replace(old, new)))


def test_an_agent_with_the_tool_remember_needs_no_other_that_writes(tmp_path: Path) -> None:
    with_tool = FILE.replace('memory = { by = "scribe", every = 1 }', 'tools = ["stenolog.tools:remember"]')
    assert load(written(tmp_path, with_tool)).team.agents["Tester"].memory is None


def test_a_chat_with_a_team_has_its_summaries_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    file, db = written(tmp_path), tmp_path / "talks.db"
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"Question {n}\n" for n in range(6))))

    assert run(["chat", "--team", str(file), "crew", "--db", str(db)]) == 0

    assert ("Backend Dev", "They chose sessions.") in kept(db, "summary")
