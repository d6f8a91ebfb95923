"""`export --at`: one request of an agent as a test, as a call, as JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stenolog.apps.cli.commands.see import demo as demo_command
from stenolog.importers import EXPORTERS, Exporter, Moment
from tests.cli.conftest import Ran
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
            "--at is for --as json, curl, python, pytest; --as jsonl is of the whole conversation",
        ),
        (
            ("--as", "markdown", "--policy", "full"),
            "--policy is for --as json, curl, python, pytest; --as markdown is of the whole conversation",
        ),
        (
            ("--as", "openai", "--agent", "coder", "--at", "3"),
            "--at is for --as json, curl, python, pytest; --as openai is of the whole conversation",
        ),
        (
            ("--agent", "coder"),
            "--agent is for --as openai, json, curl, python, pytest; --as jsonl is of all agents",
        ),
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
