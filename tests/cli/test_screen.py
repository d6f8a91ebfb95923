"""Where things are printed: pages for what is tall, a bar for what takes long, blanks nowhere."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable

import click
import pytest

from stenolog.apps.cli import terminal as terminal_module
from stenolog.apps.cli.chat.terminal import TerminalWriter
from stenolog.apps.cli.draw.layout import table, wrapped
from stenolog.apps.cli.lines import line


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
