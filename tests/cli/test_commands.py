"""What the commands do, on the demo."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from stenolog.adapters.conversation.log import open as open_log
from stenolog.apps.cli.app import MODULES, app
from stenolog.apps.cli.commands.see.inspect import has_browser
from stenolog.domain.events import ModeSwitch, UserMessage
from tests.cli.terminal import Terminal
from tests.forked import python

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "STENOLOG_DB": "talks.db"}
KINDS = {"user_message", "assistant_message", "tool_result", "llm_error", "mode_switch"}


def test_the_demo_needs_no_file_and_can_be_looked_around_in_afterwards(cli: Callable[..., Any]) -> None:
    assert cli("demo").status == 0
    assert cli("show", "demo", "@{error}").status == 0


def test_the_demo_leaves_a_conversation_of_that_name_alone(cli: Callable[..., Any]) -> None:
    with open_log("talks.db") as log:
        log["demo"].append(UserMessage(text="my own"))

    ran = cli("demo")

    assert (ran.status, ran.err) == (
        2,
        "✗ 'demo' is a conversation of yours; name another database for the demo: --db FILE\n",
    )
    assert cli("show", "demo", "@", "--raw").out == "my own\n"


def test_the_example_files_of_the_documentation_are_written_where_its_pages_expect_them(
    cli: Callable[..., Any],
) -> None:
    here = Path("docs", "examples")
    there = Path(__file__).parents[2] / here

    assert cli("demo", "--files").out == "✓ docs/examples has the example files\n"
    assert {path.relative_to(here): path.read_bytes() for path in here.rglob("*") if path.is_file()} == {
        path.relative_to(there): path.read_bytes()
        for path in there.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert not Path("talks.db").exists()


def test_example_files_that_are_there_already_stay_as_they_are(cli: Callable[..., Any]) -> None:
    mine = Path("docs", "examples", "session.jsonl")
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")

    ran = cli("demo", "--files")

    assert (ran.status, ran.out) == (0, "✓ docs/examples exists, so nothing was written\n")
    assert [mine.read_text(), *mine.parent.iterdir()] == ["mine", mine]


def test_the_demo_has_all_five_kinds_and_three_agents_and_fits_on_two_screens(
    cli: Callable[..., Any],
) -> None:
    shown = cli("demo").out
    entries = cli("log", "demo", "--json").data["entries"]
    events = [entry["event"] for entry in entries]

    assert {entry["kind"] for entry in entries} == KINDS
    assert {event.get("agent") for event in events} >= {"coder", "reviewer", "planner"}
    assert {event["category"] for event in events if "category" in event} == {"timeout", "rate_limited"}
    assert [event["covers"] for event in events if event.get("purpose") == "summary"] == [
        [{"first": 2, "last": 21}]
    ]
    assert len(shown.splitlines()) <= 90


def test_the_budget_of_the_demo_cuts_and_one_tool_output_is_shown_in_part(cli: Callable[..., Any]) -> None:
    cli("demo")

    cut = cli("request", "demo", "--agent", "coder", "--at", "24", "--json").data
    assert [(each["first"], each["last"], each["rule"]) for each in cut["omissions"]] == [
        (2, 11, "over-budget"),
        (13, 19, "over-budget"),
        (20, 20, "other-lanes-error"),
        (21, 21, "no-room"),
    ]
    planned = cli("request", "demo", "--agent", "planner", "--at", "19", "--api", "gemini", "--json")
    (shown,) = [each for each in planned.data["parts"] if each["positions"] == [19]]
    assert shown["tokens_out"] < shown["tokens_in"]


def test_the_fork_of_the_demo_goes_another_way_from_the_plan(cli: Callable[..., Any]) -> None:
    cli("demo")

    entries = cli("log", "demo~1", "--after", "21", "--json").data["entries"]
    assert [entry["id"] for entry in entries] == [f"demo~1-{position}" for position in range(22, 27)]
    assert entries[0]["event"]["parent"]["position"] == 21


def test_nothing_of_the_demo_fails_a_check_and_each_receipt_is_proved(cli: Callable[..., Any]) -> None:
    cli("demo")

    checked = cli("check", "log", "--requests")
    assert checked.status == 0
    assert "✓ 19 requests: 19 same, 0 differs, 0 not provable" in checked.out
    assert cli("check", "requests", "--all-prefixes").status == 0


def test_an_older_demo_to_which_somebody_has_added_stays_as_it_is(demo: Callable[..., Any]) -> None:
    demo("append", "demo", "--user", "And now?")
    before = demo("log", "demo", "--json").out

    assert demo("demo").status == 0
    assert (demo("log", "demo", "--json").out, demo("log", "demo~1").status) == (before, 3)


def test_the_demo_says_its_sentences_whole_at_a_narrow_terminal(
    cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")

    lines = cli("demo").out.splitlines()

    assert lines[:2] == [
        "Three agents mend a parser, with a timeout, a rate limit, a",
        "budget that cuts, a summary and a fork. All of it is in one",
    ]
    said = " ".join(lines)
    assert "in the middle of an answer, and its words are kept." in said
    assert "what reviewer said is quoted." in said


def test_the_demo_is_the_same_for_everybody(cli: Callable[..., Any]) -> None:
    assert cli("demo").out == cli("demo").out
    assert cli("demo", "--json").out == cli("demo", "--json").out


def test_recording_the_demo_again_writes_nothing(cli: Callable[..., Any]) -> None:
    cli("demo")
    before = [cli("log", name, "--json").out for name in ("demo", "demo~1")]

    assert cli("demo", "--db", "talks.db").status == 0
    assert [cli("log", name, "--json").out for name in ("demo", "demo~1")] == before


SCREEN = {"DISPLAY": ":0", "SSH_CONNECTION": ""}


@pytest.mark.parametrize(
    ("more", "opens"),
    [({}, True), ({"SSH_CONNECTION": "10.0.0.2 50000 10.0.0.1 22"}, False)],
)
def test_the_page_opens_by_itself_only_for_a_person_at_this_machine(
    monkeypatch: pytest.MonkeyPatch, more: dict[str, str], opens: bool
) -> None:
    for name, value in {**SCREEN, **more}.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("webbrowser.get", lambda: None)

    assert has_browser() is opens


def test_the_demo_does_not_page_and_its_last_line_is_an_address_to_click(tmp_path: Path) -> None:
    with Terminal("demo", cwd=tmp_path) as terminal:
        before = terminal.expect("Open http://127.0.0.1:")
        terminal.expect("/read/demo?token=")
        terminal.expect("  (Ctrl-C ends it)")

    assert "stenolog timeline demo" in before


def none_found() -> None:
    raise webbrowser.Error("could not locate runnable browser")


@pytest.mark.parametrize("found", [none_found, lambda: webbrowser.GenericBrowser("w3m")])
def test_the_page_does_not_open_by_itself_without_a_browser_of_its_own_window(
    monkeypatch: pytest.MonkeyPatch, found: Callable[[], object]
) -> None:
    for name, value in SCREEN.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("webbrowser.get", found)

    assert has_browser() is False


def test_log_shows_the_last_ones_those_of_a_kind_and_those_after(demo: Callable[..., Any]) -> None:
    def positions(*options: str) -> list[int]:
        entries = demo("log", "demo", "--json", *options).data["entries"]
        return [entry["position"] for entry in entries]

    assert positions() == [*range(1, 13)]
    assert positions("-n", "2") == [11, 12]
    assert positions("--kind", "error", "--kind", "mode") == [1, 5, 10]
    assert positions("--kind", "user", "-n", "1", "--at", "@{error}~1") == [2]
    assert positions("--after", "@{error}", "--at", "@~3") == [6, 7, 8, 9]
    assert positions("--at", "2026-11-20T09:00:40Z") == [1, 2, 3]


def test_an_entry_is_one_line_however_long_or_manifold_it_is(cli: Callable[..., Any]) -> None:
    with open_log("talks.db") as log:
        log["talk"].append(UserMessage(text="word " * 1000 + "\n" * 50 + "end"))

    lines = cli("log", "talk").out.splitlines()

    assert [len(line) <= 100 for line in lines] == [True] * 3


def test_a_name_may_be_abbreviated_and_left_out_where_there_is_only_one(demo: Callable[..., Any]) -> None:
    whole = demo("log", "demo").out

    assert demo("log", "de").out == whole
    assert demo("log") == (0, whole, "")


def test_what_goes_into_a_pipe_is_the_exact_body(demo: Callable[..., Any]) -> None:
    told = demo("request", "demo", "--agent", "coder", "--json").data
    raw = demo("request", "demo", "--agent", "coder", "--raw").out

    assert json.loads(raw) == told["body"]
    assert hashlib.sha256(raw.encode()).hexdigest() == told["sha256"]


def test_show_raw_is_the_text_alone(demo: Callable[..., Any]) -> None:
    assert demo("show", "demo", "@{error}", "--raw").out == "test_dates fails: the parser reads\n"


def test_tail_begins_a_few_back_and_stops_when_nothing_comes(demo: Callable[..., Any]) -> None:
    ran = demo("tail", "demo", "-n", "2", "--timeout", "0.05")

    assert [line.split()[0] for line in ran.out.splitlines()] == ["11", "12"]


def test_tail_prints_an_envelope_a_line(demo: Callable[..., Any]) -> None:
    ran = demo("tail", "demo", "-n", "3", "--timeout", "0.05", "--json")

    assert [json.loads(line)["data"]["position"] for line in ran.out.splitlines()] == [10, 11, 12]


def test_a_backup_is_a_database_with_the_same_digests(demo: Callable[..., Any]) -> None:
    assert demo("db", "backup", "copy.db").status == 0
    assert demo("log", "demo", "--db", "copy.db", "--json").out == demo("log", "demo", "--json").out
    assert demo("db", "backup", "copy.db").status == 2


def test_a_fork_says_where_it_begins_and_copies_nothing(demo: Callable[..., Any]) -> None:
    made = demo("fork", "demo", "--before", "5", "--name", "again", "--json").data

    assert (made["conversation"], made["fork_of"], made["after"]) == ("again", "demo", 4)
    listed = {row["name"]: row for row in demo("ls", "--json").data}
    assert listed["again"]["fork_of"] == {"conversation": "demo", "short_name": "demo", "position": 4}
    assert demo("show", "again", "5", "--json").data["event"]["fork"] is True


def test_what_is_archived_is_not_listed_and_still_found(demo: Callable[..., Any]) -> None:
    demo("archive", "demo")

    assert demo("ls", "--json").data == []
    assert demo("log", "demo").status == 0
    demo("archive", "demo", "--undo")
    assert len(demo("ls", "--json").data) == 1


def test_a_conversation_is_deleted_by_its_whole_name_only(demo: Callable[..., Any]) -> None:
    assert demo("delete", "de", "--yes").status == 2
    assert demo("delete", "demo", "--yes").status == 0
    assert demo("log", "demo").status == 3


def test_a_fork_is_deleted_with_the_entries_of_its_own_and_the_shared_ones_stay(
    demo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    demo("fork", "demo", "--after", "2", "--name", "short")
    demo("export", "short", "-o", "short.jsonl")
    asked: list[str] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)

    def confirmed(words: str, **_: Any) -> bool:
        asked.append(words)
        return True

    monkeypatch.setattr("click.confirm", confirmed)

    ran = demo("delete", "short")

    assert asked == ["Delete 'short' and its 1 entry of its own for good?"]
    assert ran.out == "✓ short is deleted, with 1 entry of its own\n"
    assert demo("log", "demo", "--json").data["entries"][1]["position"] == 2
    demo("import", "short.jsonl")
    assert demo("delete", "short", "--yes").out == "✓ short is deleted, with 3 entries\n"


def test_no_command_but_demo_and_import_makes_a_database(cli: Callable[..., Any], tmp_path: Path) -> None:
    for command in (("ls",), ("log",), ("check",), ("cost",), ("tail",), ("db", "backup", "copy.db")):
        assert cli(*command).status == 3
    assert list(tmp_path.iterdir()) == []


def test_the_database_may_be_named_by_the_environment(
    demo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    demo("demo", "--db", "elsewhere.db")
    with open_log("elsewhere.db") as log:
        log["demo"].rename("moved")
    monkeypatch.setenv("STENOLOG_DB", "elsewhere.db")

    assert demo("log", "moved").status == 0


def test_colour_is_a_choice_and_no_color_is_heard(
    demo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\x1b[" in demo("log", "demo", "--color", "always").out
    assert "\x1b[" not in demo("log", "demo", "--color", "never").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in demo("log", "demo").out


def test_every_command_is_summed_up_in_a_line_of_sixty_characters() -> None:
    ctx = click.Context(app)
    made = {name: app.get_command(ctx, name) for name in MODULES}
    summaries = {name: one.get_short_help_str(200) for name, one in made.items() if one}

    assert len(summaries) == len(MODULES)
    assert [name for name, words in summaries.items() if not 0 < len(words) <= 58] == []


def test_the_schema_of_an_event_describes_its_fields(cli: Callable[..., Any]) -> None:
    schema = cli("db", "schema", "tool_result@1", "--json").data

    assert {"call_id", "parts", "is_error"} <= set(schema["properties"])
    assert json.loads(cli("db", "schema", "tool_result@1").out) == schema


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_for_the_shell(cli: Callable[..., Any], shell: str) -> None:
    assert "_STENOLOG_COMPLETE" in cli("completion", shell).out


def test_the_shell_completes_the_names_of_conversations(demo: Callable[..., Any]) -> None:
    with open_log("talks.db") as log:
        log["deck"].append(ModeSwitch(mode="chat"))
        log["other"].append(ModeSwitch(mode="chat"))
    words = {"COMP_WORDS": "stenolog log de", "COMP_CWORD": "2", "_STENOLOG_COMPLETE": "bash_complete"}

    done = _stenolog("", env=words)

    assert done.stdout.split() == ["plain,deck", "plain,demo"]


def test_the_request_of_an_agent_is_shown_from_the_first_message_on(cli: Callable[..., Any]) -> None:
    with open_log("talks.db") as log:
        log["new"].append(UserMessage(text="Hello"))

    shown = cli("request", "new", "--agent", "coder")

    assert (shown.status, "no model is named" in " ".join(shown.out.split())) == (0, True)


def test_python_m_stenolog_is_the_command_line_too(demo: Callable[..., Any]) -> None:
    done = _stenolog("show", "demo", "2", "--raw")

    assert (done.returncode, done.stdout, done.stderr) == (0, "Which test fails, and why?\n", "")


def test_nobody_reading_on_is_no_error(demo: Callable[..., Any]) -> None:
    with open_log("talks.db") as log:
        log["demo"].extend(UserMessage(text="x" * 200) for _ in range(2000))
    script = f"{sys.executable} -m stenolog log demo | head -2; echo ${{PIPESTATUS[0]}}"

    done = subprocess.run(["bash", "-c", script], env=ENVIRONMENT, capture_output=True, text=True, check=True)

    assert (done.stdout.splitlines()[-1], done.stderr) == ("0", "")


def _stenolog(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = python("-m", "stenolog", *filter(None, arguments))
    return subprocess.run(
        command, env={**ENVIRONMENT, **(env or {})}, capture_output=True, text=True, check=False
    )
