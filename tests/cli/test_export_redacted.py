"""`export --as html --redact`: what is taken out is listed before the file is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cli.terminal import Terminal

EXPORT = ("export", "demo", "--as", "html", "-o", "demo.html", "--redact", "local time")


def test_what_was_taken_out_is_listed_and_is_not_in_the_file(demo: Callable[..., Any]) -> None:
    ran = demo(*EXPORT)

    assert ran.status == 0
    assert "· entry 7: taken out: 1 text by local time, such as lo… (10 characters)" in ran.err
    assert "local time" not in ran.err.replace("by local time", "")
    assert "local time" not in Path("demo.html").read_text()


def test_in_json_the_list_stands_beside_the_result(demo: Callable[..., Any]) -> None:
    told = demo(*EXPORT, "--json").envelope

    first = {"where": "entry 7", "by": "local time", "times": 1, "sample": "lo… (10 characters)"}
    assert told["data"]["taken"][0] == first
    assert told["diagnostics"][0]["code"] == "redacted"


def test_a_pattern_that_takes_nothing_out_is_a_warning(demo: Callable[..., Any]) -> None:
    ran = demo("export", "demo", "--as", "html", "-o", "demo.html", "--redact", "swordfish")

    assert (ran.status, ran.err) == (0, "! nothing was found that is to be taken out\n")


def test_a_form_that_cannot_leave_texts_out_refuses(demo: Callable[..., Any]) -> None:
    ran = demo("export", "demo", "--redact", "swordfish")

    assert ran.status == 2
    assert ran.err.startswith("✗ --redact and --redact-key are for --as html\n")


def test_at_a_terminal_it_asks_first_and_a_no_writes_nothing(
    demo: Callable[..., Any], tmp_path: Path
) -> None:
    assert demo("log", "demo").status == 0
    with Terminal(*EXPORT, cwd=tmp_path) as terminal:
        terminal.expect("taken out: 1 text by local time")
        terminal.expect("[y/N]: ")
        terminal.type("n\n")
        terminal.expect("nothing was written")
        assert terminal.ended() == 130

    assert not Path("demo.html").exists()


def test_with_yes_it_does_not_ask(demo: Callable[..., Any], tmp_path: Path) -> None:
    assert demo("log", "demo").status == 0
    with Terminal(*EXPORT, "--yes", cwd=tmp_path) as terminal:
        terminal.expect("is exported as demo.html")
        assert terminal.ended() == 0

    assert Path("demo.html").exists()
