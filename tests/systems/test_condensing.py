"""System 4: a conversation is condensed by itself, as an option of agent, team, file and command line."""

from __future__ import annotations

from pathlib import Path

import pytest

import stenolog
from stenolog import AssistantMessage
from stenolog.apps.cli import run
from stenolog.engine import load_team
from stenolog.errors import CallerError

FILE = """
[agents.coder]
model = "cli:echo I looked at the oven and at the loaves."
"""
SHARED = "summary = { over = 60, keep = 2 }\n"


def summaries(db: Path, name: str) -> list[str]:
    with stenolog.open(db) as log:
        events = [entry.event for entry in log[name].entries()]
    return [e.agent for e in events if isinstance(e, AssistantMessage) and e.purpose == "summary"]


@pytest.mark.slow
@pytest.mark.parametrize(("text", "options"), [(FILE, ["--summary-over", "60"]), (SHARED + FILE, [])])
def test_a_run_from_a_file_is_condensed_by_an_option_of_the_command_or_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, options: list[str]
) -> None:
    file, db = tmp_path / "crew.toml", tmp_path / "talks.db"
    file.write_text(text)

    for n in range(30):
        assert run(["run", str(file), f"Question {n}", "--db", str(db), *options]) == 0

    capsys.readouterr()
    assert set(summaries(db, "crew")) == {"coder"}
    with stenolog.open(db) as log:
        request = log["crew"].request("coder")
    assert request.size.tokens < 200 < sum(run.tokens for run in request.omissions)


@pytest.mark.slow
def test_a_chat_is_condensed_by_an_option_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import io

    db = tmp_path / "talks.db"
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"Question {n}\n" for n in range(30))))

    code = run(["chat", "talk", "--cli", "echo I looked.", "--summary-over", "60", "--db", str(db)])

    capsys.readouterr()
    assert (code, set(summaries(db, "talk"))) == (0, {"assistant"})


def test_a_summary_of_a_file_by_nobody_there_is_refused_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "crew.toml"
    file.write_text('summary = { by = "scribe" }\n' + FILE)

    with pytest.raises(CallerError, match=r"crew.toml: summary: by: expected a helper or an agent"):
        load_team(file)
