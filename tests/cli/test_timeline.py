"""`timeline`: short at first, whole with --full."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

import stenolog
from stenolog import AssistantMessage, Event, LlmError, ModeSwitch, ToolCall, ToolResult, UserMessage
from stenolog.events import AuthorKind, ErrorCategory, PositionRange
from tests.cli.conftest import Ran

Cli = Callable[..., Ran]
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

    assert short[1:] == [
        "user  2",
        "  question 1",
        "4 entries hidden: rewound to 2  3-6",
        "2 entries hidden: rewound to 2  8-9",
        "user  11",
        "  the last",
    ]
    assert full.count("(out of context)") == 6


def test_entries_that_were_trimmed_are_no_rewind_and_a_single_one_is_shown(cli: Cli, tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        log["x"].extend([*questions(6), spans((2, 4), (6, 6))], expected=0)
    short = cli("timeline", "x").out.splitlines()

    assert short[1:5] == ["3 entries hidden  2-4", "user  5", "  question 4", "user  6 (out of context)"]
    assert short[-1] == "system  hides 2-4, 6  8"


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

    assert cli("timeline", "x").out.endswith("\n2 entries hidden: rewound to the beginning  2-3\n")
