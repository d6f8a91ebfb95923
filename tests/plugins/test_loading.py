"""An API of a plugin, defined anew as in a notebook, takes the place of its former self with its laws."""

from __future__ import annotations

import json
import sqlite3
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from stenolog.adapters import plugins
from stenolog.errors import CallerError
from stenolog.requests import Format, Message, Preamble, Rendered, law, register_api, validate

from .conftest import Stenolog


def render(messages: Sequence[Message], preamble: Preamble, blobs: Mapping[str, bytes]) -> Rendered:
    return Rendered({}, ())


def another(messages: Sequence[Message], preamble: Preamble, blobs: Mapping[str, bytes]) -> Rendered:
    return Rendered({}, ())


@law
def says_something(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Say something in a body."""
    if not body:
        yield "", "is empty"


def test_its_laws_are_those_it_was_registered_with_last() -> None:
    register_api(Format("telegraph", 1, render))
    assert validate("telegraph", {}) == []

    register_api(Format("telegraph", 2, render, laws=(says_something,)))
    assert [violation.law for violation in validate("telegraph", {})] == ["says-something"]


def test_another_api_does_not_get_its_name() -> None:
    register_api(Format("telegraph", 1, render))
    with pytest.raises(CallerError, match="'telegraph' is registered already"):
        register_api(Format("telegraph", 1, another))


# How plugins are found: installed, named by a variable, named on the command line; and what goes wrong.


RULE = """
from typing import ClassVar
from stenolog.engine import NextTurn, TurnRule, register_turn_rule, rule

@register_turn_rule
@rule
class LastOnly(TurnRule):
    name: ClassVar[str] = "last-only"
    version: ClassVar[int] = {version}

    def begin(self, state):
        return NextTurn(state.members[{which}:][:1], "only one")
"""
TEAM = """
turns = { rule = "last-only" }
[agents.a]
model = "scripted:says.json"
[agents.b]
model = "scripted:says.json"
"""
DIARY = """
from stenolog.importers import IMPORTERS, Importer

def is_diary(first):
    return True

IMPORTERS.add("diary", Importer("diary", is_start=is_diary))
"""
API = """
from stenolog.requests import Format, BodyBuilder, register_api, texts

def render(messages, preamble, blobs):
    body = BodyBuilder(blobs, preamble.counter)
    for message in messages:
        body.messages.append({"text": " ".join(texts(message))})
        body.explain(message, body.messages[-1]["text"])
    return body.rendered({"model": preamble.model, "messages": body.messages})

register_api(Format("telegraph", 1, render))
"""


def broken_package(folder: Path) -> Path:
    """Install a package whose plugin raises when it is imported."""
    info = folder / "broken-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[stenolog.plugins]\nbroken = broken_plugin\n")
    (folder / "broken_plugin.py").write_text("raise RuntimeError('no licence')\n")
    return folder


def test_an_installed_plugin_that_cannot_be_loaded_is_told_and_stops_nobody(
    stenolog: Stenolog, tmp_path: Path
) -> None:
    ran = stenolog("demo", "--db", "demo.db", paths=[broken_package(tmp_path / "site")])

    assert ran.returncode == 0
    fault = "the plugin broken cannot be loaded: broken_plugin: RuntimeError: no licence"
    assert fault in " ".join(ran.stderr.split())


def test_the_installed_plugins_are_those_that_importlib_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = "[console_scripts]\nx = x:main\n[stenolog.plugins]\n# none\n{0} = {0}.plugin : add [extra]\n"
    folders = [tmp_path / name for name in ("new", "old", "none", "zipped.zip")]
    for folder, info in [(0, "Two-2.dist-info"), (0, "one.egg-info"), (1, "two-1.dist-info")]:
        (folders[folder] / info).mkdir(parents=True)
        (folders[folder] / info / "METADATA").write_text("Name: any\n")
        (folders[folder] / info / "entry_points.txt").write_text(points.format(f"p{folder}"))
    with zipfile.ZipFile(folders[3], "w") as archive:
        archive.writestr("three-1.dist-info/METADATA", "Name: three\n")
        archive.writestr("three-1.dist-info/entry_points.txt", points.format("p3"))
    monkeypatch.setattr(sys, "path", [*map(str, folders), *sys.path])
    found = {(point.name, point.value) for point in entry_points(group=plugins.GROUP)}

    listed = [*plugins._installed()]

    assert {name for name, _ in listed} == {name for name, _ in found} >= {"p0", "p3"}
    assert [name for name, _ in listed].count("p0") == 2
    assert ("p3", "p3.plugin : add") in listed


def test_what_cannot_be_read_on_the_path_hides_no_other_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "odd-1.dist-info" / "entry_points.txt").mkdir(parents=True)
    (tmp_path / "worse-1.dist-info").mkdir()
    (tmp_path / "worse-1.dist-info" / "entry_points.txt").write_bytes(b"\xff")
    for info in ("my.plugin-2.dist-info", "~y.plugin-1.dist-info", "my_plugin-1.egg-info"):
        (tmp_path / info).mkdir()
        (tmp_path / info / "entry_points.txt").write_text("[stenolog.plugins]\nmine = mine\n")
    monkeypatch.setattr(sys, "path", ["x" * 5_000, str(tmp_path)])

    assert [*plugins._installed()] == [("mine", "mine")]


def test_a_plugin_that_is_named_has_to_load(stenolog: Stenolog) -> None:
    by_option = stenolog("ls", "--plugin", "no_such_module")
    by_variable = stenolog("ls", STENOLOG_PLUGINS="no_such_module")

    fault = "plugin 'no_such_module': ModuleNotFoundError: No module named 'no_such_module'"
    assert (by_option.returncode, fault in by_option.stderr) == (2, True)
    assert (by_variable.returncode, fault in by_variable.stderr) == (2, True)


def test_a_plugin_is_named_as_a_module_here_a_function_in_it_or_a_file(
    stenolog: Stenolog, tmp_path: Path
) -> None:
    (tmp_path / "telegraphs.py").write_text(API)
    (tmp_path / "later.py").write_text("def register():\n    import telegraphs\n")
    stenolog("demo", "--db", "demo.db")
    request = ("request", "demo", "--agent", "coder", "--db", "demo.db", "--api", "telegraph", "--raw")

    bodies = {
        stenolog(*request, "--plugin", "telegraphs").stdout,
        stenolog(*request, "--plugin", "telegraphs.py").stdout,
        stenolog(*request, "--plugin", "later:register").stdout,
        stenolog(*request, STENOLOG_PLUGINS="telegraphs, later").stdout,
    }

    assert len(bodies) == 1
    assert [*json.loads(bodies.pop())] == ["model", "messages"]
    assert ", found 'telegraph': a plugin may add it" in stenolog(*request).stderr


def test_processes_that_verify_beside_each_other_load_the_same_plugins(
    stenolog: Stenolog, tmp_path: Path
) -> None:
    (tmp_path / "telegraphs.py").write_text(API)
    (tmp_path / "said.py").write_text(
        "import asyncio, stenolog, telegraphs\n"
        "from stenolog import Agent, Team\n"
        "from stenolog.models import Scripted\n"
        "async def main():\n"
        "    with stenolog.open('talks.db') as log:\n"
        "        for name in ('one', 'two', 'three'):\n"
        "            async with Team([Agent('a', llm=Scripted('Yes.', api='telegraph'))]) as team:\n"
        "                async for _ in team.run(log[name], 'Well?'):\n"
        "                    pass\n"
        "asyncio.run(main())\n"
    )
    stenolog("ls", "--plugin", "said.py")

    seeing = stenolog("check", "log", "--requests", "--jobs", "2", "--plugin", "telegraphs", "--json")
    blind = stenolog("check", "log", "--requests", "--jobs", "2", "--json")

    assert seeing.returncode == 0, seeing.stdout
    assert "telegraph" not in json.dumps(json.loads(seeing.stdout)["diagnostics"])
    assert "telegraph" in blind.stdout


def test_a_state_that_was_read_without_a_rule_is_not_kept(stenolog: Stenolog, tmp_path: Path) -> None:
    (tmp_path / "says.json").write_text(json.dumps(["One."]))
    (tmp_path / "team.toml").write_text(TEAM)
    (tmp_path / "rules.py").write_text(RULE.format(version=1, which=-1))
    stenolog("run", "team.toml", "Well?", "--plugin", "rules")
    (tmp_path / "many.py").write_text(
        "import rules, stenolog\n"
        "with stenolog.open('talks.db') as log:\n"
        "    for number in range(200):\n"
        "        log['team'].append(stenolog.UserMessage(text=f'{number}', author_kind='system'))\n"
        "    print(log['team'].position)\n"
    )
    stenolog("ls", "--plugin", "many")
    for file in tmp_path.glob("talks.db-checkpoints*"):
        file.unlink()

    blind = stenolog("state", "team")
    of_the_blind = states_kept(tmp_path)
    seeing = stenolog("state", "team", "--plugin", "rules")

    assert "not registered here" in blind.stdout
    assert "not registered here" not in seeing.stdout
    assert of_the_blind == 0
    assert states_kept(tmp_path) > 0


def states_kept(folder: Path) -> int:
    """Return the number of states that stand beside the log."""
    with closing(sqlite3.connect(folder / "talks.db-checkpoints")) as connection:
        (count,) = connection.execute("SELECT count(*) FROM checkpoints WHERE fold = 'state'").fetchone()
    return int(count)


def test_an_error_in_a_plugin_names_the_plugin_and_is_no_defect_of_stenolog(
    stenolog: Stenolog, tmp_path: Path
) -> None:
    (tmp_path / "telegraph.py").write_text(API.replace("texts(message)", "message.words"))
    stenolog("demo", "--db", "d.db")
    ran = stenolog(
        "request", "demo", "--agent", "coder", "--api", "telegraph", "--db", "d.db", "--plugin", "telegraph"
    )

    assert ran.returncode == 6
    assert "AttributeError: 'Message' object has no attribute 'words'" in ran.stderr
    assert "in the plugin telegraph (telegraph.py, line 7); --traceback shows more" in ran.stderr
    assert "defect" not in ran.stderr


def test_a_plugins_function_that_refuses_its_arguments_is_the_plugins_fault(
    stenolog: Stenolog, tmp_path: Path
) -> None:
    (tmp_path / "diary.py").write_text(DIARY)
    (tmp_path / "talk.txt").write_text("Dear diary")
    ran = stenolog("import", "talk.txt", "--plugin", "diary")

    assert ran.returncode == 6
    assert "in the plugin diary (is_diary)" in ran.stderr
    assert "defect" not in ran.stderr


def test_an_api_whose_messages_cannot_be_found_is_refused_at_its_first_body(
    stenolog: Stenolog, tmp_path: Path
) -> None:
    (tmp_path / "telegraph.py").write_text(API.replace('"messages"', '"lines"'))
    stenolog("demo", "--db", "d.db")
    ran = stenolog(
        "request", "demo", "--agent", "coder", "--api", "telegraph", "--db", "d.db", "--plugin", "telegraph"
    )

    assert ran.returncode == 2
    assert (
        "the API telegraph: expected its messages under 'messages', found the keys model, lines" in ran.stderr
    )
