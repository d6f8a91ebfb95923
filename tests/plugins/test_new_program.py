"""An agent program is one value: whoever has to do with programs asks it, and names none."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import stenolog
from stenolog.adapters.agents.command import inherited
from stenolog.adapters.agents.output_formats import OUTPUT_FORMATS, split_command
from stenolog.apps.tap.exchanges.exchange import RecordedExchange
from stenolog.apps.tap.exchanges.identity import client_of
from stenolog.apps.tap.launch import launch
from stenolog.apps.tap.recording.message_events import is_by_client
from stenolog.apps.tap.upstreams import upstreams
from stenolog.errors import UnknownFormatError
from stenolog.importers import IMPORTERS, Importer, files_in, recognise
from stenolog.models import JsonLines
from stenolog.plugins import PROGRAMS, FileFormat, Foreign, Program, RequestSigns, Signature, shows
from stenolog.projections.views.acts import is_of_program

PACKAGE = Path(stenolog.__file__).parent
NAMES = re.compile(r"claude(?!-(opus|sonnet|haiku|\d))|codex|gemini.?cli|opencode|qwen.?code", re.IGNORECASE)
ROOMS = ("contrib/", "adapters/programs/", "projections/formats/")
STORY = Importer("story", is_start=lambda first, stream: True)
WRITER = Importer("writer", is_record=lambda value: "chapter" in value)


@pytest.fixture
def writer() -> Iterator[Program]:
    """Register a program, all of whose parts are in this file."""
    program = Program(
        "writer",
        sessions=(FileFormat("writer", "a chapter", f"{__name__}:WRITER", (shows("chapter"),)),),
        foreign=(Foreign("a draft", shows("draft")),),
        executable="writer",
        variables=("WRITER_*",),
        output=lambda: JsonLines(lambda line, turn: None),
        command=lambda words: [*words, "--json"],
        requests=RequestSigns("author", ("writer-cli",)),
        wrapped=(r"<chapter>",),
        launch=lambda: lambda given: [*given.words, f"--url={given.base}"],
    )
    with PROGRAMS.restored(), IMPORTERS.restored(), OUTPUT_FORMATS.restored():
        PROGRAMS.add("writer", program)
        yield program


def test_only_the_room_of_a_program_names_it() -> None:
    modules = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    naming = {name for name, path in modules.items() if not name.startswith(ROOMS) and _names_one(path)}

    assert not naming


def _names_one(path: Path) -> bool:
    text = path.read_text()
    tree = ast.parse(text if NAMES.search(text) else "")
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in prose)
    return any(isinstance(node.value, str) and NAMES.search(node.value) for node in texts)


def test_a_program_of_a_plugin_is_known_wherever_a_built_in_one_is(writer: Program) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    exchange = RecordedExchange("1", at, "POST", "/v1/messages", "x", headers={"user-agent": "writer-cli/2"})

    assert recognise(b'{"chapter": 1}\n{"chapter": 2}\n') == "writer"
    assert split_command("bin/writer -x") == ("bin/writer -x --json", "writer")
    assert inherited({"WRITER_KEY": "k", "OTHER": "o"}, ["writer"]) == {"WRITER_KEY": "k"}
    assert client_of(exchange) == "author"
    assert is_by_client("<chapter> 1")
    assert is_of_program("writer")
    assert not is_of_program("reader")
    assert launch(["writer"], "http://tap", upstreams([], {}), {}).command == ["writer", "--url=http://tap"]


def test_a_file_of_a_program_that_has_no_importer_is_refused_by_its_title(writer: Program) -> None:
    with pytest.raises(UnknownFormatError, match="found a draft, which has no importer"):
        recognise(b'{"draft": 1}\n{"draft": 2}\n')


@pytest.mark.parametrize("word", ["bin/writer", "writer.exe", "@acme/writer@latest", "dist/writer.js"])
def test_a_command_is_known_by_its_name_without_folder_suffix_and_version(writer: Program, word: str) -> None:
    assert writer.is_command(word)
    assert writer.is_named_in(word)


def test_a_name_that_only_contains_a_programs_inherits_nothing_of_it(writer: Program) -> None:
    there = {"WRITER_KEY": "k"}

    assert inherited(there, ["npx", "@acme/writer-acp@2"]) == there
    assert inherited(there, ["ghostwriter"]) == {}
    assert split_command("writer-acp") == ("writer-acp", "text")


def test_files_of_a_suffix_that_a_format_names_are_found_in_a_folder_if_it_takes_them(tmp_path: Path) -> None:
    for name in (".writer.md", "story.MD", "README.md", "diary.txt"):
        (tmp_path / name).write_text("# a diary" if name == "README.md" else "# a story\n")
    story = FileFormat(
        "story", "a story", f"{__name__}:STORY", (Signature(begins=b"# a story"),), suffixes=(".md",)
    )
    passed: list[Path] = []
    with PROGRAMS.restored(), IMPORTERS.restored():
        PROGRAMS.add("story", Program("story", (story,)))
        found = [path.name for path in files_in(tmp_path, passed_over=passed.append)]

    assert found == [".writer.md", "story.MD"]
    assert [path.name for path in passed] == ["README.md", "diary.txt"]
