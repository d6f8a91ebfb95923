"""The lines of `stenolog log`: words and calls first, in columns, and nothing is hidden unsaid."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

import stenolog
from stenolog import (
    AssistantMessage,
    Event,
    LlmError,
    ModeSwitch,
    TextPart,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.apps.cli.lines import shortened
from stenolog.events import AuthorKind, ErrorCategory, PositionRange
from stenolog.parts import AssistantPart, ReasoningPart
from tests.cli.conftest import Ran

Cli = Callable[..., Ran]
LONG = "mcp__private-journal__process_thoughts"


@pytest.fixture
def thread(cli: Cli, tmp_path: Path) -> Cli:
    """Make a thread whose program notes its settings before each entry, with a tool of a long name."""
    noted = ModeSwitch(meta={"langgraph": {"checkpoint": "1"}})
    call = ToolCall(id="c1", name=LONG, arguments="{}")
    parts: list[AssistantPart] = [ReasoningPart(text="Hm."), TextPart(text="Let me note it."), call]
    with stenolog.open(tmp_path / "talks.db") as log:
        answer = AssistantMessage(agent="claude", parts=parts, to=["user"])
        said = UserMessage(text="Go on.", to=["claude"])
        result = ToolResult(call_id="c1", text="noted")
        log["x"].extend([noted, said, noted, answer, noted, result], expected=0)
    return cli


def rows(ran: Ran) -> list[str]:
    return [row for row in ran.out.splitlines() if row[:1].isdigit()]


def test_mode_switches_with_mere_settings_of_a_program_are_counted_and_not_shown(thread: Cli) -> None:
    shown = thread("log", "x")

    assert [row.split()[2] for row in rows(shown)] == ["user", "assistant", "tool"]
    assert "not shown: 3 mode switches with settings of langgraph alone; --all shows them" in shown.out
    assert len(rows(thread("log", "x", "--all"))) == len(rows(thread("log", "x", "--kind", "mode"))) + 3
    assert len(thread("log", "x", "--json").data["entries"]) == 6


def test_tail_and_steps_leave_mere_settings_out_too(thread: Cli) -> None:
    followed = thread("tail", "x", "-n", "2", "--timeout", "0.05")
    steps = thread("state", "x", "--steps")

    assert [row.split()[2] for row in followed.out.splitlines()] == ["assistant", "tool"]
    assert len(thread("tail", "x", "-n", "2", "--timeout", "0.05", "--all").out.splitlines()) == 2
    assert len(thread("tail", "x", "-n", "6", "--timeout", "0.05", "--json").out.splitlines()) == 6
    assert [row.split()[0] for row in steps.out.splitlines()[2:-1]] == ["2", "4", "6"]
    assert "not shown: 3 mode switches with settings of langgraph alone; --json has them" in steps.out
    assert len(thread("state", "x", "--steps", "--json").data["transitions"]) == 6


def test_a_result_has_the_name_of_the_tool_that_its_call_names(thread: Cli) -> None:
    assert "  tool       mcp__pri…houghts  ✓ noted" in thread("log", "x").out
    assert "  tool       mcp__pri…houghts  ✓ noted" in thread("log", "x", "--after", "5").out


@pytest.mark.parametrize("columns", ["80", "100", "160"])
def test_the_words_begin_in_the_same_column_on_each_line(
    thread: Cli, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    shown = rows(thread("log", "x"))
    words = ("Go on.", "Let me note it.", "✓ noted")

    assert len({row.index(said) for row, said in zip(shown, words, strict=True)}) == 1
    assert max(map(len, shown)) <= int(columns)


def test_in_a_pipe_names_are_whole(thread: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS")

    assert f"tool       {LONG}  ✓ noted" in thread("log", "x").out


def test_the_person_is_not_named_as_the_one_whom_an_agent_speaks_to(thread: Cli) -> None:
    (answer,) = (row for row in rows(thread("log", "x")) if "assistant" in row)

    assert "assistant  claude            Let me note it. → mcp__private" in answer


@pytest.mark.parametrize(
    ("words", "cells", "shown"),
    [
        ("short", 5, "short"),
        ("claude → Explore-a2dca60", 16, "claude →…a2dca60"),
        ("干草干草干草", 7, "干…干草"[:2] + "草"),
    ],
)
def test_a_long_name_loses_its_middle(words: str, cells: int, shown: str) -> None:
    assert shortened(words, cells) == shown


def test_show_without_a_position_shows_the_last_entry(thread: Cli) -> None:
    assert thread("show", "x").out.splitlines()[0].startswith("x@6")
    assert thread("show", "x", "--raw").out == "noted\n"
    assert thread("show", "x", "4", "--raw").out == "Let me note it.\n{}\n"


def test_show_breaks_the_lines_of_an_argument_where_it_has_line_breaks(cli: Cli, tmp_path: Path) -> None:
    given = json.dumps({"description": "look", "prompt": "First line.\nSecond line.", "depth": [1, 2]})
    calls = [
        ToolCall(id="1", name="Task", arguments=given),
        ToolCall(id="2", name="x", arguments='{"a": 1, "a": 2}'),
    ]
    with stenolog.open(tmp_path / "talks.db") as log:
        log["x"].append(AssistantMessage(agent="a", tool_calls=calls))
    shown = cli("show", "x").out

    assert "  prompt       First line.\n               Second line.\n" in shown
    assert "  depth        [1, 2]\n" in shown
    assert 'arguments  {"a": 1, "a": 2}' in shown
    assert given in cli("show", "x", "--raw").out


def test_a_rule_of_the_timeline_fills_the_terminal_and_is_mere_words_in_a_pipe(
    demo: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "mode agent ─────" in demo("timeline").out
    monkeypatch.delenv("COLUMNS")
    assert "mode agent\n" in demo("timeline").out


def test_the_steps_of_agents_with_long_names_stand_in_columns(cli: Cli, tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        for agent in ("a", "the-agent-with-a-long-name"):
            log["x"].append(UserMessage(text="Go on.", to=[agent]))
            log["x"].append(AssistantMessage(agent=agent, text="Done."))
    titles, _, *steps = cli("state", "--steps", "x").out.splitlines()

    assert {step.index("awaiting_llm") for step in steps if "asked" in step} == {titles.index("THEN")}
    assert {step.index("idle") for step in steps if "answered" in step} == {titles.index("THEN")}


def test_bisect_marks_the_words_that_were_looked_for(cli: Cli, tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        said = "word " * 60 + "the needle in it"
        yes = AssistantMessage(agent="a", model="m", text="Yes.")
        log["x"].extend(
            [UserMessage(text=said), yes, ModeSwitch(context_from=3), UserMessage(text="Go on.")], expected=0
        )
    out = cli("explain", "text", "x", "needle", "--agent", "a", "--color", "always").out

    assert "said at" in out
    assert "word the \x1b[1;33mneedle\x1b[0m in it" in out


def test_entries_that_were_imported_without_times_have_none_in_the_log(cli: Cli, tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    old.write_text(json.dumps([{"role": "user", "content": "Hello"}, {"role": "tool", "content": "a.rs"}]))
    cli("import", str(old), "--name", "old")

    shown = cli("log", "old")
    assert "no times" in shown.out
    assert "1970" not in shown.out
    assert "00:00" not in shown.out


def test_the_log_accepts_every_kind_that_its_column_prints(demo: Cli) -> None:
    demo("demo", "--no-open")
    demo("erase", "demo", "2", "--yes")
    printed = {row.split()[2] for row in demo("log", "demo", "--all").out.splitlines() if "  09:" in row}

    assert {"summary", "erased", "mode"} <= printed
    for kind in printed:
        kinds = {
            row.split()[2] for row in demo("log", "demo", "--kind", kind).out.splitlines() if "  09:" in row
        }
        assert kind in kinds
    assert demo("log", "demo", "--kind", "summary", "--json").data == (
        demo("log", "demo", "--after", "@{summary}~1", "--at", "@{summary}", "--json").data
    )


# `timeline`: short at first, whole with --full.


SETTINGS = "Settings at the start: mode chat"
LINES = "\n".join(f"line {number}" for number in range(1, 31))
SOON = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)


def test_the_whole_timeline_has_every_line_of_an_output_and_all_of_a_call(cli: Cli, tmp_path: Path) -> None:
    call = ToolCall(id="c", name="write", arguments='{"text": "' + "word " * 60 + 'THE END"}')
    with stenolog.open(tmp_path / "talks.db") as log:
        log["x"].append(AssistantMessage(agent="coder", tool_calls=[call]))
        log["x"].append(ToolResult(call_id="c", text=LINES))
    short, full = cli("timeline", "x").out, cli("timeline", "x", "--full").out

    assert "… 22 more lines" in short
    assert "line 30" not in short
    assert "THE END" not in short
    assert "line 30" in full
    assert "THE END" in full
    assert "more lines" not in full
    assert max(map(len, full.splitlines())) <= 100


def test_the_timeline_draws_calls_as_the_pages_do_and_sums_the_files(cli: Cli, tmp_path: Path) -> None:
    given = (
        {"file_path": "a.py", "old_string": "one", "new_string": "two"},
        {"command": "ls -l", "timeout": 9},
    )
    calls = [ToolCall(id=str(nth), name="do", arguments=json.dumps(each)) for nth, each in enumerate(given)]
    with stenolog.open(tmp_path / "talks.db") as log:
        log["x"].append(AssistantMessage(agent="coder", tool_calls=calls))
        log["x"].append(ToolResult(call_id="0", text="Done."))
        log["x"].append(ToolResult(call_id="1", text="\x1b[31mred\x1b[0m"))
    shown = cli("timeline", "x").out

    for line in ("✓ do a.py  2, 3", "    - one", "    + two", "✓ do ls -l  2, 4", "    red"):
        assert line in shown
    assert shown.endswith("\nFiles: 1 changed, +1 -1: a.py +1 -1\n")


@pytest.mark.parametrize(("kind", "shown"), [("system", False), ("person", True)])
def test_a_long_note_of_the_system_is_cut_and_the_words_of_a_person_are_not(
    cli: Cli, tmp_path: Path, kind: AuthorKind, shown: bool
) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        log["x"].append(UserMessage(text=LINES, author_kind=kind, to=["coder"]))
    short, full = cli("timeline", "x").out, cli("timeline", "x", "--full").out

    assert ("line 30" in short, "… 29 more lines" in short) == (shown, not shown)
    assert "line 30" in full


@pytest.mark.parametrize(
    ("categories", "told"),
    [
        (["rate_limited"] * 3, "coder  3 retries: rate limited  3-5"),
        (["rate_limited", "overloaded", "rate_limited"], "3 retries: 2 rate limited, 1 overloaded  3-5"),
    ],
)
def test_several_retries_of_a_call_are_one_line_of_the_timeline(
    cli: Cli, tmp_path: Path, categories: list[ErrorCategory], told: str
) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        log["x"].append(UserMessage(text="Go.", to=["coder"]))
        for category in categories:
            log["x"].append(LlmError(agent="coder", category=category, message="slow down", retry_at=SOON))
        log["x"].append(LlmError(agent="coder", category="unauthorized", message="no key"))
    short, full = cli("timeline", "x").out, cli("timeline", "x", "--full").out

    assert told in short
    assert "slow down" not in short
    assert "coder  unauthorized: no key  6" in short
    assert full.count("slow down") == 3


def spans(*pairs: tuple[int, int]) -> ModeSwitch:
    """Return a rewind, or another switch that takes these positions out of context."""
    return ModeSwitch(hides=[PositionRange(first=first, last=last) for first, last in pairs])


def questions(count: int) -> list[Event]:
    return [UserMessage(f"question {number}") for number in range(1, count + 1)]


def test_the_entries_that_a_rewind_has_hidden_are_one_line(cli: Cli, tmp_path: Path) -> None:
    again: list[Event] = [UserMessage("another 1"), UserMessage("another 2"), spans((3, 6), (8, 9))]
    with stenolog.open(tmp_path / "talks.db") as log:
        log["x"].extend([*questions(5), spans((3, 6))], expected=0)
        log["x"].extend([*again, UserMessage("the last")], expected=7)
    short, full = cli("timeline", "x").out.splitlines(), cli("timeline", "x", "--full").out

    assert short == [
        "user  2",
        "  question 1",
        "4 entries hidden: rewound to 2  3-6",
        "2 entries hidden: rewound to 2  8-9",
        "user  11",
        "  the last",
        SETTINGS,
    ]
    assert [row for row in full.splitlines() if "not sent" in row] == [
        "not sent to the model now: entries 3 to 6",
        "not sent to the model now: entries 8 to 9",
    ]


def test_entries_that_were_trimmed_are_no_rewind_and_a_single_one_is_shown(cli: Cli, tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        log["x"].extend([*questions(6), spans((2, 4), (6, 6))], expected=0)
    short = cli("timeline", "x").out.splitlines()

    assert short == [
        "3 entries hidden  2-4",
        "user  5",
        "  question 4",
        "user  6 (not sent to the model now)",
        "  question 5",
        "user  7",
        "  question 6",
        "system  hides 2-4, 6  8",
        SETTINGS,
    ]


def test_what_a_compaction_took_from_the_model_is_shown_to_the_reader(cli: Cli, tmp_path: Path) -> None:
    summary = AssistantMessage(
        agent="coder", text="Three questions.", purpose="summary", covers=[PositionRange(first=2, last=4)]
    )
    with stenolog.open(tmp_path / "talks.db") as log:
        log["x"].extend([*questions(3), summary, spans((2, 4))], expected=0)
    short = cli("timeline", "x").out

    assert "question 2" in short
    assert "entries hidden" not in short


def test_a_rewind_of_everything_leads_back_to_the_beginning(cli: Cli, tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        log["x"].extend([*questions(2), spans((2, 3))], expected=0)

    assert cli("timeline", "x").out.startswith("2 entries hidden: rewound to the beginning  2-3\n")
