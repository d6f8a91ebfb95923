"""Conversations moved into other programs, as sessions that these resume."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, UserMessage
from tests.cli.teams import team

SESSION = str(Path(__file__).parents[2] / "docs" / "examples" / "session.jsonl")


@pytest.mark.parametrize(
    ("form", "home", "place", "resume"),
    [
        ("claude-code", ".claude", "projects/*/*.jsonl", "claude --resume"),
        ("codex", ".codex", "sessions/2026/11/20/rollout-*.jsonl", "codex resume"),
        ("pi", ".pi/agent", "sessions/*/*.jsonl", "pi --session"),
    ],
)
def test_a_moved_conversation_is_a_new_file_in_the_program_s_folder(
    cli: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    home: str,
    place: str,
    resume: str,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    cli("import", SESSION, "--name", "bakery")

    ran = cli("move", "bakery", "--to", form)
    (file,) = (tmp_path / "user" / home).glob(place)
    id = cli("move", "bakery", "--to", form, "--json").data["session"]

    assert ran.status == 0
    assert f"{resume} {id}" in ran.out
    assert id in file.name
    assert file.stat().st_mode & 0o077 == 0
    assert [each.name for each in file.parent.iterdir()] == [file.name]
    assert "was already" in cli("move", "bakery", "--to", form).out
    file.write_text("{}\n")
    again = cli("move", "bakery", "--to", form)
    assert again.status == 2
    assert "its program has gone on with it" in again.err
    assert file.read_text() == "{}\n"
    assert cli("move", "bakery", "--to", form, "--home", str(tmp_path / "other")).status == 0
    assert len([*(tmp_path / "other").glob(place)]) == 1


def test_an_export_as_a_session_is_one_file_with_notes(cli: Callable[..., Any], tmp_path: Path) -> None:
    cli("import", SESSION, "--name", "bakery")

    cli("export", "bakery", "--as", "codex", "-o", str(tmp_path))
    (file,) = tmp_path.glob("rollout-*.jsonl")
    ran = cli("export", "bakery", "--as", "codex", "--agent", "nobody")

    assert file.read_text() == cli("export", "bakery", "--as", "codex").out
    assert cli("export", "bakery", "--as", "codex", "-o", str(tmp_path)).status == 0
    assert cli("import", str(file), "--name", "again").status == 0
    assert ran.status == 2
    assert "no agent 'nobody'" in ran.err
    file.write_text("{}\n")
    again = cli("export", "bakery", "--as", "codex", "-o", str(tmp_path))
    assert again.status == 2
    assert "its program has gone on with it" in again.err
    assert file.read_text() == "{}\n"


def test_a_move_says_what_it_cannot_do(cli: Callable[..., Any]) -> None:
    cli("import", SESSION, "--name", "bakery")
    unknown = cli("move", "bakery", "--to", "cdoex")
    unchecked = cli("move", "bakery", "--to", "codex", "--check")
    unasked = cli("move", "bakery", "--to", "codex", "--sent", "bakery")

    assert unknown.status == unasked.status == 2
    assert "expected one of claude-code, codex, pi, found 'cdoex'; did you mean 'codex'?" in unknown.err
    assert unchecked.status == 3
    assert "no conversation 'codex-" in unchecked.err


def test_a_check_names_what_the_first_request_lacks_and_adds(cli: Callable[..., Any], tmp_path: Path) -> None:
    with stenolog.open("talks.db") as log:
        talk = log["talk"]
        talk.append(UserMessage(text="What is it?", to=["coder"]))
        whole = talk.fork(name="whole")
        talk.append(AssistantMessage(agent="coder", text="A dog."))
    file = '[agents.coder]\nmodel = "scripted:script.json"\npersona = "You are coder."\n'
    cli("run", team(tmp_path, "A cat.", file=file), "What  is it?")

    checked = cli("move", "talk", "--to", "pi", "--check", "--sent", "team")
    passed = cli("move", whole.name, "--to", "pi", "--check", "--sent", "team", "--json")

    assert checked.status == 1
    assert "the first request of team has 1 of 2 parts of talk" in checked.out
    assert [line.split()[0] for line in checked.out.splitlines() if "dog" in line] == ["-"]
    assert "pi's own: a system prompt of 14 characters and 0 tools" in checked.out
    assert (passed.status, passed.data["found"], passed.data["differences"]) == (0, 1, [])
