"""Whole folders of transcripts, brought in with one command."""

from __future__ import annotations

import io
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from stenolog.adapters.importers.intake import sessions
from stenolog.apps.cli import terminal
from stenolog.apps.cli.commands.change import import_ as import_command
from stenolog.apps.cli.commands.change.import_ import summary
from stenolog.apps.cli.lines import Paragraph
from stenolog.apps.cli.terminal import STEP, Bytes
from tests.cli.terminal import Terminal as RealTerminal
from tests.forked import python

ROOT = Path(__file__).parents[2]
SESSION = (ROOT / "docs" / "examples" / "session.jsonl").read_bytes()
CHAT = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]


@pytest.fixture
def projects(tmp_path: Path) -> Path:
    """Return a folder of transcripts, as programs leave them behind."""
    folder = tmp_path / "projects"
    (folder / "bakery" / "old").mkdir(parents=True)
    (folder / "bakery" / "session.jsonl").write_bytes(SESSION)
    (folder / "bakery" / "old" / "chat.json").write_text(json.dumps(CHAT))
    (folder / "bakery" / "note.txt").write_text("Buy bread.")
    return folder


MANY = 20


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_all_transcripts_in_a_folder_come_in(cli: Callable[..., Any], projects: Path) -> None:
    ran = cli("import", "projects")

    assert (ran.status, ran.err) == (0, "")
    assert ran.out.splitlines()[-1] == "2 files: 2 conversations, 18 entries; 1 skipped (-v shows each)"
    assert len(cli("ls", "--json").data) == 2


def test_of_several_files_one_line_is_shown_unless_each_is_asked_for(
    cli: Callable[..., Any], projects: Path
) -> None:
    for number in range(MANY):
        glued = '{"role":"user","content":"Hi"}{"role":"user","content":"Ho"}\n'
        (projects / f"chat-{number:02}.jsonl").write_text(
            glued if number == 3 else json.dumps(CHAT[0]) + "\n"
        )
    (projects / "a.json").write_text("{}")

    ran = cli("import", "projects")
    assert ran.status == 1
    assert ran.out == ("23 files: 22 conversations, 59 entries; 1 refused; 1 skipped (-v shows each)\n")
    assert ran.err.splitlines()[0] == "✗ projects/a.json: found an empty object"
    assert "glued" not in ran.err

    again = cli("import", "projects", "-v")
    assert len(again.out.splitlines()) > MANY
    assert "glued" in again.err
    assert " ".join(again.out.split()).endswith("already there); 1 refused, as before; 1 skipped")


def test_refusals_for_one_reason_are_one_line_and_what_would_be_taken_is_told_once(
    cli: Callable[..., Any], projects: Path
) -> None:
    for number in range(7):
        (projects / f"{number}.json").write_text("{}")
    (projects / "list.json").write_text("[1, 2]")

    lines = cli("import", "projects").err.splitlines()

    assert lines[0].startswith("✗ 7 files, projects/0.json, projects/1.json, ")
    assert lines[0].endswith(" projects/4.json and 2 more (--json names them): found an empty object")
    assert lines[1] == "✗ projects/list.json: found a list of 2 items"
    assert [line[:36] for line in lines[2:]] == [
        "· expected a Claude Code session, a Claude Code stream"[:36]
    ]


def test_programs_are_told_of_each_file_that_is_refused_and_how_many_are_passed_over(
    cli: Callable[..., Any], projects: Path
) -> None:
    for number in range(7):
        (projects / f"{number}.json").write_text("{}")

    notes = cli("import", "projects", "--json").envelope["diagnostics"]

    assert [note["code"] for note in notes] == ["UnknownFormatError"] * 7 + ["passed-over"]
    assert all("expected a Claude Code session" in note["message"] for note in notes[:7])
    assert notes[7]["message"] == "1 file skipped by name"


def test_the_sum_of_all_stands_below_what_was_refused(projects: Path) -> None:
    (projects / "a.json").write_text("{}")
    command = python("-m", "stenolog", "import", "projects")

    ran = subprocess.run(
        command, cwd=projects.parent, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip

    before, begins, summary = ran.stdout.rpartition("\n3 files: ")
    assert begins
    assert ("a.json" in before, "a.json" in summary) == (True, False)


def test_a_file_in_which_nobody_says_anything_gets_no_tick(cli: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "aside.jsonl").write_text('{"type":"summary","leafUuid":"x","summary":"A title"}\n')

    nothing = "· aside  nothing to import  claude-code"
    assert cli("import", "aside.jsonl").out.splitlines() == [nothing]
    assert cli("import", "aside.jsonl", "-v").out.splitlines() == [nothing, "  not messages: 1 summary"]
    assert cli("ls", "--json").data == []


def test_a_folder_again_brings_what_is_new_alone(cli: Callable[..., Any], projects: Path) -> None:
    cli("import", "projects")
    (projects / "bakery" / "old" / "chat.json").write_text(json.dumps([*CHAT, CHAT[0]]))

    again = cli("import", "projects")

    assert (
        again.out.splitlines()[-1]
        == "2 files: 2 conversations, 1 new entry (18 already there); 1 skipped (-v shows each)"
    )


def test_a_folder_without_transcripts_is_an_error(cli: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    ran = cli("import", "empty")

    assert (ran.status, "in empty, found none" in ran.err) == (2, True)
    assert not (tmp_path / "talks.db").exists()


def test_a_name_is_for_one_file_wherever_it_is(cli: Callable[..., Any], projects: Path) -> None:
    assert "--name is for one file" in cli("import", "projects", "--name", "mine").err
    assert cli("import", "projects/bakery/old", "--name", "mine").status == 0
    assert [conversation["name"] for conversation in cli("ls", "--json").data] == ["mine"]


def test_an_interrupted_import_says_how_to_go_on(
    cli: Callable[..., Any], projects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> Iterator[Any]:
        raise KeyboardInterrupt
        yield

    with monkeypatch.context() as broken:
        broken.setattr(import_command, "import_files", interrupted)
        ran = cli("import", "projects")

    assert (ran.status, ran.out) == (130, "")
    assert ran.err == "! interrupted: 0 of 2 files are imported; the same command goes on from there\n"
    assert cli("import", "projects").status == 0


def test_an_interrupted_import_counts_the_files_that_the_log_has(
    cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "many").mkdir()
    (tmp_path / "many" / "0.json").write_text("{}")
    for number in range(1, 9):
        (tmp_path / "many" / f"{number}.json").write_text(json.dumps([*CHAT, *CHAT]))

    class Pressed(Bytes):
        """Ctrl-C while the seventh file is read."""

        def counting(self, files: Sequence[Path]) -> Iterator[Path]:
            yield from islice(super().counting(files), 6)
            raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(import_command, "Bytes", Pressed)
        broken.setattr(sessions, "BYTES", 7_000)
        ran = cli("import", "many")

    assert ran.err.splitlines()[0] == "✗ many/0.json: found an empty object"
    assert ran.err.splitlines()[-1] == (
        "! interrupted: 5 of 9 files are imported, 1 refused; the same command goes on from there"
    )
    assert len(cli("ls", "--json").data) == 5
    assert " ".join(cli("import", "many").out.split()) == (
        "9 files: 8 conversations, 15 new entries (25 already there); 1 refused, as before (-v shows each)"
    )


# The bar


def drawn(monkeypatch: pytest.MonkeyPatch, **options: Any) -> str:
    """Return the output of a terminal for two files, each of a megabyte."""
    err = Terminal()
    monkeypatch.setattr("sys.stderr", err)
    monkeypatch.setattr(terminal, "PATIENCE_S", -1.0)
    monkeypatch.setenv("COLUMNS", "120")
    with Bytes("importing", 8 * STEP, **options) as bar:
        for number, _ in enumerate(bar.counting([Path("a"), Path("b")])):
            for done in range(0, 4 * STEP, STEP // 8):
                bar(number * 4 * STEP + done)
    return err.getvalue()


def test_a_bar_tells_bytes_and_files(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = drawn(monkeypatch)

    assert "importing" in shown
    assert "/2.1 MB" in shown
    assert "2 of 2 files" in shown


def test_a_quiet_bar_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert drawn(monkeypatch, quiet=True) == ""


def test_no_bar_is_shown_beside_json(
    cli: Callable[..., Any], projects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bool] = []

    class Seen(Bytes):
        def __init__(self, label: str, total: int, *, quiet: bool = False) -> None:
            made.append(quiet)
            super().__init__(label, total, quiet=quiet)

    monkeypatch.setattr(import_command, "Bytes", Seen)
    cli("import", "projects")
    cli("import", "projects", "--json")

    assert made == [False, True]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"hello\n", "found text that begins with 'hello'"),
        (b"\x89PNG\r\n\x1a\n", "found a file that is no text"),
        (b"a,b\rc\x00\xff\n", "found a file that is no text"),
        ("eine Möhre für die Küche".encode(), "found text that begins with 'eine Möhre für die'"),
    ],
)
def test_one_wrong_file_is_named_first_and_no_bytes_are_shown(
    cli: Callable[..., Any], tmp_path: Path, content: bytes, found: str
) -> None:
    (tmp_path / "notes.txt").write_bytes(content)

    ran = cli("import", "notes.txt")

    assert ran.status == 2
    assert cli("ls", "--json").data == []
    assert ran.err.startswith("✗ notes.txt: expected a Claude Code session")
    assert ran.err.endswith(f"{found}\n")


@pytest.mark.parametrize(
    "arguments", [("show", "nobody"), ("import", "nothing.jsonl"), ("state", "--at", "99")]
)
def test_an_error_has_colours_only_where_they_are_wanted(
    cli: Callable[..., Any], arguments: tuple[str, ...]
) -> None:
    cli("demo")

    assert "\x1b" in cli(*arguments, "--color", "always").err
    assert "\x1b" not in cli(*arguments, "--color", "never").err


def test_an_error_at_a_terminal_has_no_colours_where_they_are_refused(tmp_path: Path) -> None:
    with RealTerminal("show", "nobody", "--color", "never", cwd=tmp_path) as terminal:
        assert terminal.ended() == 3
        assert "✗" in terminal.text
        assert "\x1b" not in terminal.text


def test_what_was_deleted_comes_back_only_where_that_is_said_and_what_was_renamed_goes_on(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "chat.jsonl").write_text(json.dumps(CHAT[0]) + "\n")
    cli("import", "chat.jsonl")
    cli("demo")

    assert cli("rename", "chat", "kept").out == "✓ chat is now kept\n"
    assert cli("import", "chat.jsonl").out.startswith("✓ kept  0 new entries (2 already there)")
    assert cli("delete", "demo~1", "--yes").out.endswith("entries of its own\n")
    assert cli("delete", "demo", "--yes").out.endswith("entries\n")
    deleted = "✓ kept is deleted, with 2 entries; import --again FILE brings it back\n"
    cli("fork", "kept", "--after", "2", "--name", "try2")
    # The file knows nothing of a fork that was made here.
    assert cli("delete", "try2", "--yes").out == "✓ try2 is deleted, with 1 entry of its own\n"
    assert cli("delete", "kept", "--yes").out == deleted
    (tmp_path / "other.jsonl").write_text(json.dumps(CHAT[0]) + "\n")
    one, many = cli("import", "chat.jsonl"), cli("import", "chat.jsonl", "other.jsonl")
    assert one.out.splitlines() == [
        "· chat  deleted, left out  chat.jsonl",
        "· 1 deleted conversation was left out  import --again FILE brings it back",
    ]
    assert many.out.splitlines()[1] == one.out.splitlines()[1]
    assert (one.status, many.status, one.err) == (0, 0, "")
    assert cli("import", "chat.jsonl", "--again").out.startswith("✓ chat  2 entries")
    assert cli("import", "chat.jsonl").out.startswith("✓ chat  0 new entries (2 already there)")


def test_a_file_that_was_refused_and_has_not_changed_is_counted_and_named_where_that_is_asked_for(
    cli: Callable[..., Any], projects: Path
) -> None:
    strange = projects / "strange.json"
    strange.write_text('{"x": 1}')
    first, again, named = (cli("import", "projects", *more) for more in ((), (), ("-v",)))
    (projects / "odd.json").write_text('{"y": 1}')
    more = cli("import", "projects")
    strange.write_text('{"x": 2, "z": 3}')
    changed = cli("import", "projects")

    assert "strange.json: found an object with the keys x" in first.err
    assert "; 1 refused; " in first.out
    assert "0 new entries (18 already there); 1 refused, as before; " in again.out
    assert again.err == ""
    assert "strange.json: found an object with the keys x" in named.err
    assert "; 2 refused, 1 as before; " in more.out
    assert ("odd.json" in more.err, "strange.json" in more.err) == (True, False)
    assert "strange.json: found an object with the keys x, z" in changed.err
    assert {each.status for each in (first, again, named, more, changed)} == {1}
    assert "expected a Claude Code session" in cli("import", str(strange)).err


def test_the_last_line_of_an_import_wraps_at_a_narrow_terminal_and_keeps_its_hint() -> None:
    last = summary([], [], 3, "-v shows each")
    assert isinstance(last, Paragraph)
    assert " ".join(last.rendered(24, coloured=False)).endswith("(-v shows each)")
