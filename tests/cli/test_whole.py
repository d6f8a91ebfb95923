"""Nothing is left out where a person asks for it whole: of an entry, in a pipe, in a message of megabytes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

import stenolog
from stenolog import AssistantMessage, ToolCall, ToolResult, UserMessage
from stenolog.apps.cli import terminal
from stenolog.apps.cli.draw.layout import table, wrapped
from stenolog.apps.cli.lines import line, paragraph
from stenolog.parts import ReasoningPart
from tests.command_line import run

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
