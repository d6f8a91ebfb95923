"""The claims of a page, each with the command that proves it."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from stenolog.apps.cli.app import MEANT, MODULES, Commands, app, commands_in

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "prove-what-was-sent.md").read_text()
CLAIMS = re.findall(r"^\| [A-Z][^|]+\| `stenolog ([^`]+)` \|$", PAGE, flags=re.MULTILINE)


def test_there_are_five_claims() -> None:
    assert len(CLAIMS) == 5


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_is_proved_by_its_command(demo: Callable[..., Any], claim: str) -> None:
    head = demo("check", "log", "--json").data["head"]

    ran = demo(*shlex.split(claim.replace("HEAD", head)))

    assert (ran.status, ran.err) == (0, "")


def test_the_demo_ends_on_what_a_missed_cache_cost_and_why(cli: Callable[..., Any]) -> None:
    shown = " ".join(cli("demo", "--no-open").out.split())
    calls = cli("cost", "demo", "--cache", "--verbose", "--json").data["calls"]
    dearest = max(calls, key=lambda call: call["cost_micro_usd"])

    assert f"The dearest were {dearest['missed']} at {dearest['position']}, $" in shown
    assert f"{dearest['cause']['kind']}: 373 s since the call before, kept for 300 s." in shown


def test_verify_finds_a_tail_that_was_cut_off_by_a_head_kept_elsewhere(demo: Callable[..., Any]) -> None:
    demo("fork", "demo", "--after", "6", "--name", "cut")
    head = demo("show", "demo", "@", "--json").data["digest"]

    ran = demo("check", "log", "cut", "--head", head)

    assert ran.status == 1
    assert head in ran.err


# The tree of commands: names, helps, and options that have one spelling.


Cli = Callable[..., Any]
WIDE: Any = {"terminal_width": 80, "max_content_width": 80}
ROOT = click.Context(app, info_name="stenolog", **WIDE, **app.context_settings)


def walk(group: click.Group, ctx: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Yield every command below a group, with its whole name."""
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=ctx, terminal_width=80, max_content_width=80)
        yield inner.command_path, command, inner
        if isinstance(command, click.Group):
            yield from walk(command, inner)


COMMANDS = {path: (command, ctx) for path, command, ctx in walk(app, ROOT)}
GROUPS = {group.name: group for group, _ in COMMANDS.values() if isinstance(group, Commands)}


def test_a_new_command_is_one_file_and_no_list_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vars(sys.modules[Commands.__module__]), "COMMANDS", tmp_path)
    for name in ("see/hello.py", "see/import_.py", "see/_shared.py", "see/group/inner.py", "see/data.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    assert commands_in("see") == {"group": "see.group", "hello": "see.hello", "import": "see.import_"}
    assert commands_in("see/group") == {"inner": "see.group.inner"}


def test_the_help_shows_every_command_on_one_screen(cli: Cli) -> None:
    lines = cli("--help").out.splitlines()

    assert len(lines) <= 45, "a screen has 45 rows: put a command into a group, as `explain text` is"
    assert [line for line in lines if len(line) > 80 or line.endswith("...")] == []


@pytest.mark.parametrize("path", COMMANDS)
def test_the_help_of_a_command_is_short_and_has_an_example(path: str) -> None:
    lines = COMMANDS[path][0].get_help(COMMANDS[path][1]).splitlines()

    assert len(lines) <= 25
    assert [line for line in lines if len(line) > 80] == []
    assert lines[-1].startswith(f"  Example: {path}") or path in (
        "stenolog explain entry",
        "stenolog check all",
    )


@pytest.mark.parametrize("path", COMMANDS)
def test_a_help_names_a_default_as_such_and_not_in_a_fragment_with_else(path: str) -> None:
    assert not re.search(r"\b[Ee]lse\b", COMMANDS[path][0].get_help(COMMANDS[path][1]))


@pytest.mark.parametrize("path", COMMANDS)
def test_the_example_of_a_command_is_one_that_it_takes(path: str) -> None:
    command, _ = COMMANDS[path]
    _, _, example = (command.epilog or "").partition("Example: stenolog ")

    words = shlex.split(example)
    taken = words.pop(0)
    if taken in GROUPS:
        group = GROUPS[taken]
        taken += f" {words.pop(0) if words and words[0] in group.modules else group.default}"

    assert path in (f"stenolog {taken}", f"stenolog {taken.split()[0]}")
    COMMANDS[f"stenolog {taken}"][0].make_context(taken, words)


def test_what_is_asked_for_wrongly_is_answered_in_a_line_and_where_to_look(cli: Cli) -> None:
    wrong, where = cli("log", "--limit", "many").err.splitlines()

    assert wrong == "✗ Invalid value for '-n' / '--limit': 'many' is not a valid integer range."
    assert where == "  see stenolog log --help"


def test_a_slip_within_a_group_is_answered_with_the_nearest(cli: Cli) -> None:
    assert "no command 'pth' of db; did you mean 'path'?" in cli("db", "pth").err


def test_a_slip_in_a_command_of_a_group_with_a_default_is_answered_with_it_too(demo: Cli) -> None:
    assert "or is it the command: stenolog explain text?" in demo("explain", "tex", "3").err
    assert "or is it the command: stenolog check requests?" in demo("check", "request").err


def test_words_that_are_no_command_of_a_group_are_those_of_its_default(demo: Cli) -> None:
    assert demo("explain", "demo", "5").out == demo("explain", "entry", "demo", "5").out
    assert demo("explain", "5").out == demo("explain", "demo", "5").out
    assert demo("explain").out == demo("explain", "demo", "@").out
    assert demo("check", "demo").out == demo("check", "all", "demo").out


SPELLINGS = {
    "--at": "ENTRY",
    "--output": None,
    "--limit": "N",
    "--since": "TIME",
    "--until": "TIME",
    "--db": "FILE",
    "--api": "API",
}
ALSO = {"--output": "-o", "--limit": "-n"}
GONE = ("--out", "--task", "--in", "--before-name", "--tokens", "--contains", "--cost", "--other-policy")


def test_an_option_is_spelt_and_shown_in_one_way() -> None:
    wrong = []
    for path, (command, _) in COMMANDS.items():
        for option in command.params:
            if not isinstance(option, click.Option):
                continue
            for name in option.opts:
                if SPELLINGS.get(name) not in (None, option.metavar):
                    wrong.append((path, name, option.metavar))
                if name in ALSO and ALSO[name] not in option.opts:
                    wrong.append((path, name, ALSO[name]))
                if name in GONE:
                    wrong.append((path, name, "gone"))

    assert wrong == []


def test_options_that_all_commands_take_stand_in_the_help_once(cli: Cli) -> None:
    told = cli("--help").out

    for name in ("--json", "--color", "--pager", "--plugin", "--traceback"):
        assert name.replace("--pager", "--no-pager") in told
        listed = re.compile(rf"^  {name}\b", re.MULTILINE)
        assert [
            path for path in COMMANDS if listed.search(COMMANDS[path][0].get_help(COMMANDS[path][1]))
        ] == []


@pytest.mark.parametrize("word", MEANT)
def test_a_word_of_another_program_is_answered_with_the_command_that_is_meant(cli: Cli, word: str) -> None:
    first = MEANT[word][0]

    assert cli(word, "x").err.startswith(f"✗ no command {word!r}; did you mean: stenolog {first}")
    assert first.startswith("-") or first.split()[0] in MODULES
