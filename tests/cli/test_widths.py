"""Every command that shows a log fits the terminal, marks what it cuts, and cuts nothing in a pipe."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

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
from stenolog.apps.cli import terminal
from stenolog.apps.cli.draw.layout import table, wrapped
from stenolog.apps.cli.lines import CODES, line, paragraph
from stenolog.events import Origin, Usage
from stenolog.parts import AssistantPart, ReasoningPart
from tests.cli.conftest import Ran
from tests.command_line import run

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
    ("explain", NAME, "6"),
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
    assert "not sent to the model now: entries 2 to 6" in rows
    assert f"overloaded: {WHOLE} again" in shown
    assert "only entries from 7 on are sent" in shown


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


# Nothing is left out where a person asks for it whole: of an entry, in a pipe, in a message of megabytes.


PROMPT = "Eliminate double work. " + "Read each of the files with care. " * 30 + "THE END"
CALL = ToolCall(id="c1", name="Task", arguments=f'{{"description":"x","prompt":"{PROMPT}"}}')


@pytest.fixture
def told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return a function that gives a command's output on a conversation with a tool call."""
    path = tmp_path / "talks.db"
    with stenolog.open(path) as log:
        log["x"].append(UserMessage(text="Go on."))
        log["x"].append(
            AssistantMessage(agent="coder", parts=[ReasoningPart(text="hm"), CALL], finish_reason="x")
        )
        log["x"].append(ToolResult(call_id="c1", text="word " * 60 + "LAST"))

    def said(*arguments: str) -> str:
        assert run([*arguments, "--db", str(path)]) == 0
        return capsys.readouterr().out

    return said


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_show_leaves_nothing_of_a_field_out(
    told: Callable[..., str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    shown = told("show", "x", "3")

    assert PROMPT.replace(" ", "") in "".join(shown.split())
    assert max(map(len, shown.splitlines())) <= int(columns)


def test_show_puts_a_blank_between_a_name_and_its_value(told: Callable[..., str]) -> None:
    names = [row.split() for row in told("show", "x", "3").splitlines()]

    assert ["finish_reason", "x"] in names
    assert ["name", "Task"] in names


def test_show_raw_of_a_call_is_its_arguments_as_they_came(told: Callable[..., str]) -> None:
    assert "".join(told("show", "x", "3", "--raw").split()) == CALL.arguments.replace(" ", "")


def test_show_raw_of_an_entry_without_words_is_its_fields(told: Callable[..., str]) -> None:
    assert told("show", "x", "1", "--raw").startswith("{")


@pytest.mark.parametrize("command", [["log", "x"], ["timeline", "x"], ["show", "x", "3"]])
def test_no_line_is_cut_or_broken_in_a_pipe(
    told: Callable[..., str], monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    shown = told(*command)

    assert any(PROMPT in row for row in shown.splitlines())


def test_a_table_in_a_pipe_has_whole_cells_and_no_rule_and_fills_no_row_up_to_the_widest(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    rows = [("1", "x" * 5_000), ("2", "short")]
    terminal.draw([table((">N", "*TEXT"), rows), wrapped("y " * 900, hang=2, indent=1)], "never", page=False)

    titles, *shown, last = capsys.readouterr().out.splitlines()
    assert titles == "N\tTEXT"
    assert shown == ["1\t" + "x" * 5_000, "2\tshort"]
    assert last == (" " + "y " * 900).rstrip()


@pytest.mark.parametrize(
    ("text", "room", "rows"),
    [
        ("one two three", 7, ["one two", "three"]),
        ("one two three", 8, ["one two", "three"]),
        ("  deep and far", 9, ["  deep", "and far"]),
        ("abcdefghij klm", 4, ["abcd", "efgh", "ij", "klm"]),
        ("a\n\nb   \n  c", 9, ["a", "", "b", "  c"]),
        ("干草干草 针", 5, ["干草", "干草", "针"]),
        ("\tx", 9, ["    x"]),
        ("        x", 4, ["", "x"]),
    ],
)
def test_a_paragraph_breaks_between_words_and_a_word_that_is_too_long_within(
    text: str, room: int, rows: list[str]
) -> None:
    shown = [*paragraph(text).rendered(room, coloured=False)]

    assert shown == rows
    assert all(cell_len(row) <= room for row in shown)


def calls_of(draw: Callable[[], object]) -> int:
    """Return how many functions are called, those of C too."""
    calls = 0

    def count(_: Any, event: str, __: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        draw()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("text", ["lorem ipsum dolor\n", "lorem ipsum dolor ", "żółć ipsum dolor\n"])
@pytest.mark.parametrize("command", ["show", "timeline"])
def test_the_work_for_a_long_message_grows_with_its_lines_and_no_faster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, text: str
) -> None:
    path, short, long = tmp_path / "talks.db", 100, 2_000
    with stenolog.open(path) as log:
        log["x"].extend([UserMessage(text=text * short), UserMessage(text="ok")])
        log["y"].extend([UserMessage(text=text * long), UserMessage(text="ok")])

    def shown(conversation: str) -> Callable[[], object]:
        return lambda: run([command, conversation, *(["2"] if command == "show" else []), "--db", str(path)])

    shown("x")()
    few, many = calls_of(shown("x")), calls_of(shown("y"))
    assert (many - few) / (long - short) < 60


def test_the_first_page_of_a_long_message_is_made_without_the_rest() -> None:
    drawing = paragraph("lorem ipsum dolor " * 100_000)

    assert calls_of(lambda: [*islice(drawing.rendered(80, coloured=False), 10)]) < 200


def test_a_line_is_cut_without_a_look_at_all_that_is_not_shown() -> None:
    words = line("é" * 100_000)
    cells = calls_of(lambda: words.rendered(80, coloured=False))

    assert words.rendered(80, coloured=False) == "é" * 79 + "…"
    assert cells < 2_000
