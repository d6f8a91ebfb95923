"""`export --at`: one request of an agent as a test, as a call, as JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stenolog.apps.cli.commands.see import demo as demo_command
from stenolog.importers import EXPORTERS, Exporter, Moment
from tests.cli.conftest import Ran
from tests.cli.terminal import Terminal
from tests.moments.sweep import names_in, ran

Cli = Callable[..., Ran]


def test_a_test_is_written_to_stdout_or_into_a_file(demo: Cli, tmp_path: Path) -> None:
    to_stdout = demo("export", "demo", "--at", "8", "--agent", "coder", "--as", "pytest")
    to_file = demo("export", "demo", "--at", "8", "--agent", "coder", "--as", "pytest", "-o", "test_8.py")

    assert (to_stdout.status, to_stdout.err) == (0, "")
    assert ran(to_stdout.out) == ""
    assert to_file.out == "✓ the request at 8 of demo is exported as test_8.py\n"
    assert (tmp_path / "test_8.py").read_text() == to_stdout.out


def test_json_is_what_request_prints_raw(demo: Cli) -> None:
    exported = demo("export", "demo", "--at", "8", "--agent", "coder", "--as", "json").out

    assert exported == demo("request", "demo", "--at", "8", "--agent", "coder", "--raw").out


def test_the_position_is_written_as_everywhere_and_is_the_last_one_by_default(demo: Cli) -> None:
    def at(*position: str) -> object:
        out = demo("export", "demo", *position, "--agent", "coder", "--as", "pytest").out
        return names_in(out)["MOMENT"]["at"]

    assert at("--at", "@{error}") == 5
    assert at() == at("--at", "@") == demo("log", "demo", "--json").data["entries"][-1]["position"]


def test_another_api_and_another_policy_are_those_of_the_test(demo: Cli) -> None:
    given = ("--at", "8", "--agent", "coder", "--api", "gemini", "--policy", "last:3")
    out = demo("export", "demo", *given, "--as", "pytest").out

    assert ran(out) == ""
    assert names_in(out)["MOMENT"]["api"] == "gemini@1"
    assert names_in(out)["MOMENT"]["policy"] == {"history": {"kind": "last", "n": 3}}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            ("--at", "3"),
            "--at is for --as json, curl, python, pytest, evidence; --as jsonl is of the whole conversation",
        ),
        (
            ("--as", "markdown", "--policy", "full"),
            "--policy is for --as json, curl, python, pytest; --as markdown is of the whole conversation",
        ),
        (
            ("--as", "openai", "--agent", "coder", "--at", "3"),
            "--at is for --as json, curl, python, pytest, evidence; --as openai is of the whole conversation",
        ),
        (
            ("--agent", "coder"),
            "--agent is for --as openai, json, curl, python, pytest, claude-code, codex, pi; --as jsonl is",
        ),
        (("--statement", "July"), "--statement is for --as evidence"),
        (("--as", "evidence", "--by", "Ada"), "--by is for --sign"),
        (("--as", "evidence", "--agent", "coder"), "--as evidence is of all agents"),
        (("--as", "evidence", "--redact", "x"), "--redact and --redact-key are for --as html"),
        (("--as", "evidence", "--at", "9", "--withhold", "2"), "the request of 9 cannot be shown"),
        (("--as", "evidence", "--withhold", "99"), "found 99"),
        (("--as", "evidence", "--statement", "\udcff"), "expected text in UTF-8, found other bytes"),
        (("--as", "pytest", "--at", "3"), "expected --agent, one of: coder, reviewer"),
        (("--as", "pytest", "--agent", "coder", "--at", "99"), "found 99"),
        (("--as", "pytest", "--agent", "coder", "--at", "1"), "nothing has been said to it"),
        (("--as", "pytest", "--agent", "codr", "--at", "8"), "did you mean 'coder'?"),
        (("--as", "curl", "--agent", "coder", "--api", "plain"), "found plain"),
        (("--as", "pytest", "--agent", "coder", "--json"), "with --json, say where the export goes: -o FILE"),
    ],
)
def test_what_cannot_be_is_refused(demo: Cli, options: tuple[str, ...], why: str) -> None:
    found = demo("export", "demo", *options)

    assert found.status != 0
    assert why in f"{found.out} {' '.join(found.err.split())}"


def test_a_plugin_adds_a_form_of_one_request(demo: Cli) -> None:
    def write(moment: Moment) -> str:
        return f"{moment.address} at {moment.request.at} of {demo_command.NAME}\n"

    EXPORTERS.add("line", Exporter("line", "a line", write_moment=write))
    try:
        assert (
            demo("export", "demo", "--at", "8", "--agent", "coder", "--as", "line").out
            == "coder at 8 of demo\n"
        )
    finally:
        EXPORTERS.remove("line")


def test_what_another_program_sent_is_said_to_be_rebuilt(cli: Cli) -> None:
    session = Path(__file__).parents[2] / "docs" / "examples" / "session.jsonl"
    cli("import", str(session), "--name", "bakery")

    found = cli("export", "bakery", "--at", "7", "--as", "pytest")

    assert ran(found.out) == ""
    assert "the answers came from claude-code" in found.err


# `export --as html --redact`: what is taken out is listed before the file is written.


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


def test_a_pack_goes_out_and_comes_in_with_what_to_know_of_it(demo: Cli) -> None:
    pack = ("export", "demo", "--as", "evidence", "--withhold", "8-9", "--at", "all", "--statement", "July")
    found = demo(*pack, "-o", "demo.evidence", "--json")

    assert [found.data["withheld"], found.data["requests"]] == [[8, 9, 11], [3, 5, 7]]
    assert "withheld too, since a short withheld text can be guessed from" in str(
        found.envelope["diagnostics"]
    )
    found = demo(*pack, "--show-guessable", "-o", "demo.evidence", "--json")
    data, notes = found.data, found.envelope["diagnostics"]
    assert (data["withheld"], data["requests"]) == ([8, 9], [3, 5, 7])
    assert {note["code"] for note in notes} == {"request-left-out", "guessable"}
    assert demo("import", "demo.evidence").out.startswith("✓ demo  0 new entries (12 already there)")
    assert demo("import", "demo.evidence", "--name", "copy").status == 0
    assert [line.split() for line in demo("log", "copy").out.splitlines() if "withheld" in line] == [
        ["8", "09:02:20", "withheld", "?", "withheld"],
        ["9", "09:02:40", "withheld", "?", "withheld"],
    ]
    assert demo(*pack).out.splitlines()[0].endswith('"statement":"July","log_head":""}')
