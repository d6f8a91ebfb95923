"""`run`, `run --record`, `retry`: a team from a file, from wherever the log stands."""

from __future__ import annotations

import io
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import LlmError, ModeSwitch, UserMessage
from tests.cli.conftest import Ran
from tests.cli.teams import ASKS, LONG, LOOKS, SELLS, TEAM, call, script, team
from tests.cli.terminal import ROOT
from tests.forked import python

Cli = Callable[..., Ran]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder, nobody at the keyboard, and imports that are forgotten."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.delitem(sys.modules, "shop_tools", raising=False)
    return tmp_path


def kinds(folder: Path, name: str = "team", db: str = "talks.db") -> list[str]:
    """Return the kinds of a conversation's entries."""
    with stenolog.open(folder / db) as log:
        return [entry.event.kind for entry in log[name].entries()]


def last(folder: Path, name: str = "team") -> Any:
    """Return the last event of a conversation."""
    with stenolog.open(folder / "talks.db") as log:
        return list(log[name].entries())[-1].event


def test_a_run_says_what_agents_say_on_stdout_and_all_else_on_stderr(cli: Cli, folder: Path) -> None:
    ran = cli("run", team(folder, *LOOKS), "What is it?")

    assert ran.status == 0
    assert ran.out == "Let me look.\nIt is a cat.\n"
    assert "✓ look where=box" in ran.err
    assert kinds(folder) == [
        "mode_switch", "user_message", "assistant_message", "tool_result", "assistant_message",
    ]  # fmt: skip


def test_what_a_tool_gives_back_is_not_obeyed_by_the_terminal(cli: Cli, folder: Path) -> None:
    ran = cli("run", team(folder, *LOOKS), "What is it?", "--color", "never")

    assert "a cat \\x1b[31min box" in ran.err
    assert "\x1b" not in ran.out + ran.err


@pytest.mark.parametrize(
    "options", [(), ("--conversation", "new"), ("--conversation", "two words", "--db", "x.db")]
)
def test_a_run_with_nothing_due_says_so_and_how_to_say_something(
    cli: Cli, folder: Path, options: tuple[str, ...]
) -> None:
    file = team(folder, *LOOKS)
    cli("run", file, "What is it?")
    ran = cli("run", file, *options)

    assert (ran.status, ran.out) == (0, "")
    assert ran.err.splitlines()[-1] == (
        "nothing is due: everybody waits for a message; to say something: "
        f"{shlex.join(['stenolog', 'run', file, *options])} MESSAGE"
    )


def test_a_call_waits_for_its_approval_and_a_later_run_goes_on_from_there(cli: Cli, folder: Path) -> None:
    file = team(folder, *SELLS)
    first = cli("run", file, "Sell three.")
    second = cli("run", file)
    third = cli("run", file, "--yes")

    assert (first.status, second.status, third.status) == (0, 0, 0)
    assert '? coder: sell({"loaves":3}): it waits for your approval (--yes approves)' in first.err
    assert "coder awaits your approval of sell since " in second.err
    assert third.out == "Done.\n"
    assert "3 sold" in third.err
    assert "user              approve sell\n" in cli("log", "team").out


def test_a_lane_that_has_failed_is_exit_1_and_goes_on_with_retry(cli: Cli, folder: Path) -> None:
    file = team(folder, {"error": "unauthorized", "message": "no such key"})
    first = cli("run", file, "Hello")
    second = cli("run", file)
    script(folder, "Hello.")
    third = cli("run", file, "--retry")

    assert [ran.status for ran in (first, second, third)] == [1, 1, 0]
    way = "set the key and start again; --retry tries again then"
    assert f"✗ coder: unauthorized: no such key\n  {way}\n" in first.err
    assert "coder has failed (unauthorized: no such key): set the key and start again; --retry" in second.err
    assert third.out == "Hello.\n"


def test_an_error_that_is_tried_again_says_so(cli: Cli, folder: Path) -> None:
    ran = cli("run", team(folder, {"error": "overloaded"}, "Hello."), "Hello")

    assert ran.status == 0
    assert "✗ coder: overloaded\n  retrying …\n" in ran.err


def test_json_prints_each_entry_and_at_the_end_where_it_stands(cli: Cli, folder: Path) -> None:
    ran = cli("run", team(folder, *SELLS), "Sell three.", "--json")
    *entries, end = (json.loads(line) for line in ran.out.splitlines())

    assert [each["data"]["kind"] for each in entries] == kinds(folder)
    assert end == {
        "version": 1,
        "status": "ok",
        "data": {"conversation": "team", "position": 3, "lanes": {"coder": "awaiting_approval"}},
        "diagnostics": [],
    }


def test_the_talk_its_title_and_whom_the_message_is_for_may_be_given(cli: Cli, folder: Path) -> None:
    file = team(folder, "Hello.", "Again.", file=f'title = "the shop"\nconversation = "shop"\n{TEAM}')
    cli("run", file, "Hello", "--to", "coder")
    cli("run", file, "Hello", "--conversation", "other")
    with stenolog.open(folder / "talks.db") as log:
        said = [entry.event for entry in log["shop"].entries() if isinstance(entry.event, UserMessage)]

        assert list(log) == ["shop", "other"]
        assert log["shop"].settings().title == "the shop"
        assert log["shop"].settings().mode == "agent"
        assert said[0].to == ("coder",)


def test_several_agents_are_introduced_by_their_names_and_each_speaks_in_one_piece(
    cli: Cli, folder: Path
) -> None:
    words = {name: f"{name} " * 50 for name in ("one", "two", "three")}
    for name, text in words.items():
        script(folder, text.strip(), name=f"{name}.json", pause=0.001)
    agents = "".join(f'[agents.{name}]\nmodel = "scripted:{name}.json"\n' for name in words)
    ran = cli("run", team(folder, file=f'turns = {{ rule = "parallel" }}\n{agents}'), "Go")

    assert sorted(ran.out.split("\n")) == sorted(["", *words, *(text.strip() for text in words.values())])
    assert all(f"{name}\n{text.strip()}\n" in ran.out for name, text in words.items())


def test_a_database_is_not_made_for_a_file_that_is_wrong(cli: Cli, folder: Path) -> None:
    ran = cli("run", team(folder, file="[agents.a]\nmodel = 'x'"), "Hello")

    assert ran.status == 2
    assert "team.toml: agents.a.model: expected a model as " in ran.err
    assert not (folder / "talks.db").exists()
    assert cli("run", "none.toml", "Hello").status == 3


def test_a_team_goes_on_without_tools_that_cannot_be_reached_and_says_so(
    cli: Cli, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = "[agents.a]\nmodel = 'scripted:script.json'\nmcp = ['x']\n[mcp.x]\ncommand = ['no-such-program']"
    ran = cli("run", team(folder, "Hello.", file=file), "Hello")

    assert (ran.status, ran.out) == (0, "Hello.\n")
    assert "a goes on without some tools: MCP server no-such-program: " in caplog.text


def begun(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Return the program, once its model has begun to speak."""
    process = subprocess.Popen(
        python("-m", "stenolog", *arguments),
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.read(6) == "a word"
    return process


def test_a_run_that_was_killed_goes_on_from_what_had_been_said(cli: Cli, folder: Path) -> None:
    file = team(folder, LONG, pause=0.02)
    with begun(folder, "run", file, "Speak.") as process:
        process.kill()
        process.communicate()
    script(folder, "And so on.", endless=True)
    ran = cli("run", file)
    with stenolog.open(folder / "talks.db") as log:
        errors = [entry.event for entry in log["team"].entries() if isinstance(entry.event, LlmError)]

    assert (ran.status, ran.out.endswith("And so on.\n")) == (0, True)
    assert [error.category for error in errors] == ["process_exited"]


def test_ctrl_c_stops_a_run_where_it_stands_and_the_next_one_goes_on(cli: Cli, folder: Path) -> None:
    file = team(folder, LONG, pause=0.02)
    with begun(folder, "run", file, "Speak.", "--conversation", "team") as process:
        process.send_signal(signal.SIGINT)
        told, status = process.communicate(timeout=30)[1], process.returncode
    error, position = last(folder), len(kinds(folder))
    script(folder, "And so on.", endless=True)
    ran = cli("run", file)

    assert f"going on from {position}: coder is " in ran.err
    assert status == 130
    assert "stopped; `stenolog run team.toml --conversation team` goes on from here" in told
    assert (error.kind, error.category, error.message) == (
        "llm_error", "cancelled", "the program stopped here",
    )  # fmt: skip
    assert error.text.startswith("a word")
    assert (ran.status, ran.out.endswith("And so on.\n")) == (0, True)


def test_a_recording_is_a_file_of_its_own_and_overwrites_nothing(cli: Cli, folder: Path) -> None:
    file = team(folder, *SELLS)
    first = cli("run", file, "Sell three.", "--yes", "--record", "run.db")
    second = cli("run", file, "Sell three.", "--yes", "--record", "run.db")

    assert (first.status, first.out) == (0, "Done.\n")
    assert "recorded; `stenolog retry --db run.db` builds its requests again" in first.err
    assert (second.status, "run.db exists; a recording overwrites nothing" in second.err) == (2, True)
    assert not (folder / "talks.db").exists()


def test_the_requests_of_a_recording_are_built_again_without_a_model_or_a_tool(
    cli: Cli, folder: Path
) -> None:
    file = team(folder, *LOOKS)
    cli("run", file, "What is it?", "--record", "run.db")
    (folder / "script.json").write_text("[]")
    as_recorded = cli("retry", "--db", "run.db")
    as_it_is_now = cli("retry", "team", "--db", "run.db", "--team", file, "--json").data

    assert (as_recorded.status, as_recorded.out) == (0, "✓ 2 calls: the same requests\n")
    assert (as_it_is_now["calls"], as_it_is_now["same"], as_it_is_now["changed"]) == (2, 2, [])


def test_a_changed_prompt_changes_every_request_at_the_same_place(cli: Cli, folder: Path) -> None:
    file = team(folder, *LOOKS)
    cli("run", file, "What is it?", "--record", "run.db")
    team(folder, *LOOKS, file=TEAM.replace("You are coder", "You are a poet"))
    ran = cli("retry", "--db", "run.db", "--team", file)

    assert ran.status == 1
    assert ran.out.splitlines() == [
        "changed  team at 3  coder  /messages/0/content",
        'recorded  "You are coder."',
        'now       "You are a poet."',
        "changed  team at 5  coder  /messages/0/content",
        "✗ 2 calls: 2 changed",
    ]


def test_no_key_is_needed_to_build_requests_for_another_model(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    file = team(folder, *LOOKS)
    cli("run", file, "What is it?", "--record", "run.db")
    team(folder, file=TEAM.replace("scripted:script.json", "openai:gpt-5.2"))
    ran = cli("retry", "--db", "run.db", "--team", file)

    assert ran.status == 1
    assert ran.out.splitlines()[1:3] == ['recorded  "script"', 'now       "gpt-5.2"']


def test_settings_that_are_set_once_are_not_set_again(cli: Cli, folder: Path) -> None:
    file = team(folder, "One.", "Two.", file=f'title = "x"\n{TEAM}')
    cli("run", file, "Hello")
    cli("run", file, "Hello")
    with stenolog.open(folder / "talks.db") as log:
        switches = [entry for entry in log["team"].entries() if isinstance(entry.event, ModeSwitch)]

    assert len(switches) == 2


@pytest.mark.parametrize(
    ("before", "after", "expected", "found"),
    [
        ("[agents.coder]", "[agents.other]", "agent 'coder'", "only other"),
        ("[agents.coder]", "[agents.poet]\n[agents.coder]", "only coder", "poet besides"),
        ("\n[agents", '\nturns = { rule = "round_robin" }\n[agents', "turns: no rule", "turns: round_robin"),
        (
            '"shop_tools:both"',
            '"shop_tools:look", { use = "shop_tools:sell", approval = false }',
            "approval of: sell",
            "approval of: -",
        ),
    ],
    ids=["missing", "added", "rule", "approval"],
)
def test_a_team_of_others_or_of_other_rules_is_not_the_same_one(
    cli: Cli, folder: Path, before: str, after: str, expected: str, found: str
) -> None:
    file = team(folder, *SELLS)
    cli("run", file, "Sell three.", "--yes", "--record", "run.db")
    team(folder, file=TEAM.replace(before, after, 1))
    ran = cli("retry", "--db", "run.db", "--team", file, "--json")

    assert (ran.status, ran.data["same"]) == (1, 0)
    assert {(one["expected"], one["found"]) for one in ran.data["changed"]} == {(expected, found)}


def test_what_a_log_does_not_tell_of_a_team_is_said(cli: Cli, folder: Path) -> None:
    file = team(folder, *LOOKS)
    cli("run", file, "What is it?", "--record", "run.db")
    team(folder, file=f"{TEAM}limits = {{ max_steps = 1 }}\n")
    ran = cli("retry", "--db", "run.db", "--team", file)

    assert ran.out.splitlines() == [
        "✓ 2 calls: the same requests",
        "  not in a log, so not compared: limits, retries, timeouts, on_unknown, what tools do",
    ]


def test_a_question_of_a_tool_is_shown_and_answered_from_the_command_line(cli: Cli, folder: Path) -> None:
    file = team(folder, call("book", seats=2), "Done.", file=TEAM.replace("both", "book"))
    (folder / "shop_tools.py").write_text(ASKS)
    first = cli("run", file, "Book two seats.")
    assert "? coder: book asks: Which train?\n1. 8:15\n2. 9:40\n  it waits for your answer" in first.err
    assert "coder asks: Which train? (8:15 / 9:40): " in cli("run", file).err
    assert "book@3 asks at 4" in cli("state", "team").out
    assert "a person has to answer its question" in cli("timeline", "team").out
    assert "ask book Which train? (8:15 / 9:40)\n" in cli("log", "team").out
    assert "awaits an answer" in cli("request", "team", "--agent", "coder").out

    wrong = cli("submit", "--conversation", "team", "--answer", "10:00")
    assert "expected one of '8:15', '9:40', found '10:00'" in wrong.err
    assert "waiting for approval: none" in cli("submit", "--conversation", "team", "--approve").err
    assert cli("submit", "--conversation", "team", "--answer", "2").status == 0
    assert "waiting for an answer: none" in cli("submit", "--conversation", "team", "--answer", "2").err
    assert cli("run", file).out == "Done.\n"
    assert "2 in the 9:40" in cli("timeline", "team").out
    assert "answer book 9:40\n" in cli("log", "team").out
