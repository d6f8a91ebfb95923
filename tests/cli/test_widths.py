"""Every command that shows a log fits the terminal, marks what it cuts, and cuts nothing in a pipe."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue
from rich.cells import cell_len

import stenolog
from stenolog import (
    AgentCard,
    AssistantMessage,
    LlmError,
    ModeSwitch,
    NewEntry,
    TextPart,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.apps.cli.lines import CODES, line
from stenolog.events import Origin, Usage
from stenolog.parts import AssistantPart
from tests.cli.conftest import Ran

Cli = Callable[..., Ran]
NAME = "60b38d1e-f048-428b-89da-e5dca96614d4"
MAIN, SUB = "claude", "Explore-the-whole-codebase-a2dca60"
TOOL = "mcp__private-journal__process_thoughts"
MODEL = "claude-opus-4-5-20251101"
LONG = "Replace the technical warning with a friendlier message, in 干草 and in every other language. " * 3
WHOLE = " ".join(LONG.split())
FILE = Origin(system="claude-code", id="msg_01")
AT = datetime(2026, 2, 3, 4, 28, tzinfo=UTC)
USED = Usage(input=35_261, output=1, cache_read=10_403)
COMMANDS = (
    ("ls",),
    ("log",),
    ("log", "--all"),
    ("show",),
    ("show", NAME, "3"),
    ("search", "friendlier"),
    ("timeline",),
    ("state",),
    ("state", "--steps"),
    ("outputs",),
    ("request", "--agent", MAIN),
    ("request", "--agent", MAIN, "--why"),
    ("request", "--agent", MAIN, "--dropped", "--policy", "last:1"),
    ("request", "--agent", MAIN, "--at", "5", "--diff", "2"),
    ("request", "--agent", MAIN, "--without", "3-4"),
    ("explain", NAME, "3"),
    ("explain", "call", NAME, "6"),
    ("explain", "agent", NAME, MAIN, "--minus", SUB),
    ("explain", "text", NAME, "friendlier", "--agent", MAIN),
    ("cost",),
    ("cost", "--by", "model"),
    ("cost", "--by", "conversation"),
    ("cost", "--plan", "--agent", MAIN, "--budget", "1k,16k"),
    ("check",),
)


DIGEST = re.compile(r"^ *[0-9a-f-]{64,}$")
"""A digest is whole at any width: it is copied, and compared."""
COMMANDS_WITH_WORDS = (("log",), ("timeline",), ("show", NAME, "2"), ("request", "--agent", MAIN))
SHORTENED = ("ls", "search")
"""Commands that show the beginning of a text, or the words around a hit, wherever they print it."""
TITLED = ("cost", "--by", "conversation")
"""This one shows the titles of `ls`."""


@pytest.fixture
def long(cli: Cli, tmp_path: Path) -> Cli:
    """Make a session as Claude Code writes one, in which every name and every text is long."""
    cards: dict[str, AgentCard | None] = {MAIN: AgentCard(model=MODEL, provider="anthropic")}
    place: dict[str, JsonValue] = {
        "cwd": "/home/user/a-project-with-a-long-name",
        "branch": "a-user/a-branch-with-a-long-name",
    }
    parts: list[AssistantPart] = [
        TextPart(text=LONG),
        ToolCall(id="c1", name=TOOL, arguments=f'{{"thoughts":"{WHOLE}"}}'),
    ]
    events = (
        ModeSwitch(cards=cards, joins=[MAIN], meta={"claude-code": place}),
        UserMessage(text=LONG, to=[MAIN], source=FILE),
        AssistantMessage(agent=MAIN, parts=parts, model=MODEL, usage=USED, cause=2, to=["user"], source=FILE),
        ToolResult(call_id="c1", name=TOOL, text=LONG, source=FILE),
        UserMessage(text=LONG, author=MAIN, author_kind="agent", to=[SUB], cause=3, source=FILE),
        AssistantMessage(agent=SUB, text=LONG, model=MODEL, usage=USED, cause=5, to=[SUB], source=FILE),
        ModeSwitch(meta={"claude-code": {"effort": "high"}}),
        LlmError(agent=MAIN, category="overloaded", message=LONG, source=FILE),
    )
    with stenolog.open(tmp_path / "talks.db") as log:
        log[NAME].extend([NewEntry(event, time=AT) for event in events], expected=0)
    return cli


@pytest.mark.parametrize("columns", [80, 100, 160])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_line_is_wider_than_the_terminal(
    long: Cli, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    ran = long(*command)

    assert ran.status == 0
    assert [row for row in ran.out.splitlines() if cell_len(row) > columns] == []


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_narrow_terminal_has_no_line_that_is_too_wide_and_no_column_of_single_letters(
    long: Cli, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    ran = long(*command)
    rows = [row for row in ran.out.splitlines() if not DIGEST.search(row)]

    assert ran.status == 0
    assert [row for row in rows if cell_len(row) > 40] == []
    assert [row for row in rows if cell_len(row) - cell_len(row.lstrip()) > 20] == []
    words = [row.split("  ")[-1] for row in rows if row.endswith("…") and row[:1].isdigit()]
    assert [cut for cut in words if cell_len(cut) < 8] == []


@pytest.mark.parametrize(
    "command", [each for each in COMMANDS if each[0] not in SHORTENED and each != TITLED], ids=" ".join
)
def test_in_a_pipe_nothing_is_cut(
    long: Cli, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.delenv("COLUMNS")
    out = long(*command).out
    marked = [row for row in out.splitlines() if "…" in row]

    assert [row for row in marked if "sha256" not in row] == []
    assert not any(row.endswith(" ") or "──" in row for row in out.splitlines())


@pytest.mark.parametrize("command", COMMANDS_WITH_WORDS)
def test_in_a_pipe_the_words_of_an_entry_are_whole(
    long: Cli, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.delenv("COLUMNS")

    assert WHOLE in " ".join(long(*command).out.split())


@pytest.mark.parametrize("columns", ["80", "100", "160"])
def test_what_is_cut_is_marked(long: Cli, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    rows = [row for row in long("log").out.splitlines() if "Replace" in row]

    assert len(rows) == 6
    assert all(row.endswith("…") for row in rows)


@pytest.mark.parametrize("columns", [80, 100])
def test_the_timeline_cuts_no_position_no_mark_and_no_change_of_settings(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    call = ToolCall(id="c1", name=TOOL, arguments=f'{{"thoughts":"{WHOLE}"}}')
    mode = ModeSwitch(mode="plan", title=LONG, joins=[MAIN, SUB], cards={MAIN: AgentCard(model=MODEL)})
    events = (
        mode,
        UserMessage(text="Go", to=[MAIN]),
        AssistantMessage(agent=MAIN, parts=[call]),
        ToolResult(call_id="c1", text="done"),
        LlmError(agent=MAIN, category="overloaded", message=LONG),
        LlmError(agent=MAIN, category="overloaded", message=f"{WHOLE} again"),
        ModeSwitch(title=LONG, context_from=7),
    )
    with stenolog.open(tmp_path / "talks.db") as log:
        log[NAME].extend(events)
    monkeypatch.setenv("COLUMNS", str(columns))
    rows = cli("timeline").out.splitlines()

    assert [row for row in rows if cell_len(row) > columns] == []
    assert any("…  3, 4" in row for row in rows)
    shown = " ".join(" ".join(rows).split())
    assert [row for row in rows if row.startswith(MAIN) and "(out" in row] == [
        f"{MAIN}  {position} (out of context)" for position in (5, 6)
    ]
    assert f"overloaded: {WHOLE} again" in shown
    assert "context_from 7" in shown


# Lines of a drawing: safe, as wide as the screen at most, and coloured only when asked.


def test_a_line_holds_its_columns_apart_and_its_words_on_one_line() -> None:
    assert line("a  ", "b\n\nc", "  d").rendered(40, coloured=False) == "a  b c  d"


def test_what_does_not_fit_is_cut_with_an_ellipsis() -> None:
    assert line("0123456789").rendered(10, coloured=False) == "0123456789"
    assert line("0123456789").rendered(9, coloured=False) == "01234567…"
    assert line("01234", "56789", "abc").rendered(7, coloured=False) == "012345…"


def test_wide_characters_count_for_two_cells() -> None:
    assert line("世界世界").rendered(8, coloured=False) == "世界世界"
    assert line("世界世界").rendered(7, coloured=False) == "世界世…"


def test_colours_are_for_those_who_asked() -> None:
    drawn = line(("red", "bold red"), " plain")

    assert drawn.rendered(40, coloured=False) == "red plain"
    assert drawn.rendered(40, coloured=True) == "\x1b[1;31mred\x1b[0m plain"


@given(pieces=st.lists(st.tuples(st.text(), st.sampled_from(["", *CODES]))), width=st.integers(1, 60))
def test_no_line_is_wider_than_the_screen_or_more_than_one(pieces: list[tuple[str, str]], width: int) -> None:
    drawn = line(*pieces)

    plain = drawn.rendered(width, coloured=False)
    assert cell_len(plain) <= width
    assert "\n" not in plain
    assert re.sub(r"\x1b\[[\d;]+m", "", drawn.rendered(width, coloured=True)).rstrip() == plain
