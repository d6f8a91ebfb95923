"""Where things are printed: pages for what is tall, a bar for what takes long, blanks nowhere."""

from __future__ import annotations

import io
import json
import os
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stenolog.adapters.conversation.log import open as open_log
from stenolog.apps.cli import terminal as terminal_module
from stenolog.apps.cli.chat.terminal import TerminalWriter
from stenolog.apps.cli.draw.layout import table, wrapped
from stenolog.apps.cli.lines import line
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.parts import ToolCall
from stenolog.projections.terminal_text import one_line, safe, safe_json


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make standard output and input a terminal of ten lines."""
    out = Terminal()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stdin", Terminal())
    for name, value in {"COLUMNS": "40", "LINES": "10", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    return out


@pytest.fixture
def paged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the pages that went through the pager."""
    pages: list[str] = []

    def page(text: Iterable[str], color: bool | None = None) -> None:
        pages.append("".join(text))

    monkeypatch.setattr(click, "echo_via_pager", page)
    return pages


def test_what_is_taller_than_the_terminal_is_paged(monkeypatch: pytest.MonkeyPatch, paged: list[str]) -> None:
    out = terminal(monkeypatch)
    terminal_module.draw((line(str(number)) for number in range(50)), "never", page=True)

    assert paged == ["".join(f"{line}\n" for line in range(50))]
    assert out.getvalue() == ""


def test_what_is_shown_in_a_conversation_is_not_paged(
    monkeypatch: pytest.MonkeyPatch, paged: list[str]
) -> None:
    out = terminal(monkeypatch)
    TerminalWriter("never").drawn(line(str(number)) for number in range(50))

    assert (paged, out.getvalue().count("\n")) == ([], 50)


@pytest.mark.parametrize(("given", "told"), [(None, "-FRX"), ("-S", "-S")])
def test_a_pager_is_told_to_obey_colours_unless_a_person_has_told_it_otherwise(
    monkeypatch: pytest.MonkeyPatch, paged: list[str], given: str | None, told: str
) -> None:
    terminal(monkeypatch)
    monkeypatch.setenv("LESS", given or "")
    if given is None:
        monkeypatch.delenv("LESS")
    terminal_module.draw((line(str(number)) for number in range(50)), "always", page=True)

    assert os.environ["LESS"] == told


def test_what_fits_is_printed(monkeypatch: pytest.MonkeyPatch, paged: list[str]) -> None:
    out = terminal(monkeypatch)
    terminal_module.draw((line(str(number)) for number in range(9)), "never", page=True)

    assert paged == []
    assert out.getvalue() == "".join(f"{line}\n" for line in range(9))


def test_no_pager_is_heard(monkeypatch: pytest.MonkeyPatch, paged: list[str]) -> None:
    out = terminal(monkeypatch)
    terminal_module.draw((line(str(number)) for number in range(50)), "never", page=False)

    assert paged == []
    assert out.getvalue().count("\n") == 50


def test_a_pipe_is_never_paged(paged: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    terminal_module.draw((line(str(number)) for number in range(500)), "auto", page=True)

    assert paged == []
    assert capsys.readouterr().out.count("\n") == 500


def test_lines_end_without_blanks_and_strings_stay_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    terminal_module.draw([wrapped("a  "), "b  ", line("")], "never", page=False)

    assert capsys.readouterr().out == "a\nb  \n\n"


def test_progress_hands_the_items_on_and_is_silent_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert [*terminal_module.progress(range(5), "counting")] == [0, 1, 2, 3, 4]
    assert capsys.readouterr().err == ""


def test_progress_shows_a_bar_once_patience_is_at_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    err = Terminal()
    monkeypatch.setattr("sys.stderr", err)
    monkeypatch.setattr(terminal_module, "PATIENCE_S", -1.0)

    assert [*terminal_module.progress(iter(range(5)), "counting", total=5)] == [0, 1, 2, 3, 4]
    assert "counting" in err.getvalue()


def test_progress_is_quiet_while_there_is_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    err = Terminal()
    monkeypatch.setattr("sys.stderr", err)
    monkeypatch.setattr(terminal_module, "PATIENCE_S", 3600.0)

    assert [*terminal_module.progress(range(5), "counting")] == [0, 1, 2, 3, 4]
    assert err.getvalue() == ""


COLUMNS = (">ENTRY", "WHO", "~POLICY", ">TOKENS", "ALIAS", "*TEXT")
ROW = ("12", "coder", "last:50+tokens:16k+pins", "1,234,567", "@state/a.json", "words " * 20)


def shown(width: int, *rows: tuple[str, ...]) -> list[str]:
    """Return a table, as it is printed on so many cells."""
    return [*table(COLUMNS, rows).rendered(width, coloured=False)]


@pytest.mark.parametrize("width", [30, 40, 50, 60, 80, 100, 200])
def test_numbers_and_aliases_are_never_cut_and_no_line_is_too_wide(width: int) -> None:
    lines = shown(width, ROW, ROW)

    assert max(map(len, lines)) <= width
    for whole in ("12", "coder", "1,234,567", "@state/a.json"):
        assert "\n".join(lines).count(whole) == 2


def test_words_are_cut_before_a_policy_is_and_where_nothing_fits_a_row_is_written_as_lines() -> None:
    assert "last:50+tokens:16k+pins" in shown(80, ROW)[2]
    assert "last:5" in shown(60, ROW)[2]
    assert shown(40, ROW) == [
        "ENTRY 12  WHO coder",
        "  POLICY last:50+tokens:16k+pins",
        "  TOKENS 1,234,567  ALIAS @state/a.json",
        "  words words words words words words w…",
    ]


def test_a_table_of_no_rows_has_its_titles() -> None:
    assert shown(80)[0] == "ENTRY  WHO  POLICY  TOKENS  ALIAS  TEXT"


def test_what_is_wrapped_is_whole_and_hangs() -> None:
    told = wrapped("gone by ", ("over-budget: it is older", "red"), hang=4)

    assert [*told.rendered(20, coloured=False)] == ["gone by", "    over-budget: it", "    is older"]


# Nothing that is stored can drive the terminal it is shown on.


HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202egnp.exe\u2066\r\x00\x7f [red]bold[/red] :smile:"
OBEYED = {"Cc", "Cs"}
TURNING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def obeyed(text: str) -> set[str]:
    """Return the characters of a text that a terminal might obey."""
    return {
        char
        for char in text
        if char not in "\n\t"
        if unicodedata.category(char) in OBEYED or unicodedata.bidirectional(char) in TURNING
    }


@given(st.text(st.characters()))
def test_no_character_that_a_terminal_obeys_gets_through(text: str) -> None:
    assert obeyed(safe(text)) == set()
    assert obeyed(one_line(text)) == set()


@given(
    st.recursive(
        st.text() | st.integers() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_json_is_made_safe_without_a_change_to_the_data(data: object) -> None:
    text = safe_json(data)

    assert obeyed(text) == set()
    assert json.loads(text) == data


def test_ordinary_text_stays_what_it_is() -> None:
    text = "Grüße, 世界 👋🏽 שלום\n\tif x < 1:  # é"

    assert safe(text) == text


@pytest.mark.parametrize(
    "command",
    [
        ("ls",),
        ("log", "talk"),
        ("log", "talk", "--json"),
        ("show", "talk", "2"),
        ("show", "talk", "2", "--raw"),
        ("show", "talk", "3"),
        ("timeline", "talk"),
        ("request", "talk", "--agent", "a"),
        ("request", "talk", "--agent", "a", "--api", "anthropic", "--json"),
        ("state", "--steps", "talk"),
        ("state", "talk"),
        ("check", "replay", "talk"),
        ("outputs", "talk"),
        ("outputs", "talk", "@state/logs/tool-results/hostile.json"),
        ("log", HOSTILE.replace("\x00", "")),
    ],
)
def test_a_hostile_conversation_is_shown_unarmed(cli: Callable[..., Any], command: tuple[str, ...]) -> None:
    with open_log("talks.db") as log:
        conversation = log["talk"]
        conversation.append(ModeSwitch(mode="chat", title=HOSTILE, joins=("a",)))
        conversation.append(UserMessage(text=HOSTILE, author=HOSTILE))
        call = ToolCall(id=HOSTILE, name=HOSTILE, arguments=HOSTILE)
        conversation.append(AssistantMessage(agent="a", text=HOSTILE, tool_calls=[call]))
        result = ToolResult(call_id=HOSTILE, name=HOSTILE, text=HOSTILE, is_error=True)
        conversation.append(result, id="hostile")
        conversation.append(LlmError(agent="a", category="other", message=HOSTILE, text=HOSTILE))

    ran = cli(*command, "--color", "never")

    assert obeyed(ran.out + ran.err) == set()


def test_stored_text_is_never_read_as_markup(cli: Callable[..., Any]) -> None:
    with open_log("talks.db") as log:
        log["talk"].append(UserMessage(text="[red]bold[/red] :smile:"))

    assert cli("show", "talk", "2", "--raw").out == "[red]bold[/red] :smile:\n"
    assert "[red]bold[/red] :smile:" in cli("log", "talk").out
