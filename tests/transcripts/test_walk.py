"""What a folder is gone through for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from stenolog.adapters.importers.detection.folders import found_sessions
from stenolog.importers import files_in, size_of
from stenolog.plugins import load_plugins
from tests.transcripts.crewagent_given import folder, message


def made(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")


def found(path: Path) -> list[str]:
    root = next(each for each in (path, *path.parents) if each.is_dir())
    return [file.relative_to(root).as_posix() for file in files_in(path)]


def test_files_come_before_folders_and_both_by_their_names(tmp_path: Path) -> None:
    made(tmp_path, "b/2.jsonl", "b/1/x.jsonl", "c.jsonl", "a/1.json", "B.CSV", "d.ndjson")

    assert found(tmp_path) == ["B.CSV", "c.jsonl", "d.ndjson", "a/1.json", "b/2.jsonl", "b/1/x.jsonl"]


def test_hidden_files_and_what_has_another_suffix_are_passed_over(tmp_path: Path) -> None:
    made(tmp_path, ".a.jsonl", ".git/a.jsonl", "note.txt", "jsonl", "talk.jsonl.gz", "talk.jsonl")

    passed: list[Path] = []

    assert [path.name for path in files_in(tmp_path, passed_over=passed.append)] == ["talk.jsonl"]
    assert [path.name for path in passed] == ["jsonl", "note.txt", "talk.jsonl.gz"]


def test_no_folder_is_entered_twice_whatever_links_lead_to_it(tmp_path: Path) -> None:
    made(tmp_path, "a/talk.jsonl")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (tmp_path / "c.jsonl").symlink_to(tmp_path / "nowhere")

    assert found(tmp_path) == ["a/talk.jsonl"]


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")

    assert found(tmp_path) == []


def test_a_folder_of_conversations_is_one(tmp_path: Path) -> None:
    made(tmp_path, "talk.jsonl")
    folder(tmp_path / "app", conversation=[message("m1", "user", "Hi")])

    assert found(tmp_path) == ["talk.jsonl", "app/conversations"]


def test_an_index_of_something_else_makes_no_folder_of_conversations(tmp_path: Path) -> None:
    made(tmp_path, "index.json", "talk.jsonl")

    assert found(tmp_path) == ["index.json", "talk.jsonl"]


@pytest.fixture
def nobody() -> Iterator[Path]:
    """Yield a folder of a user whom the system refuses things, whoever runs the tests."""
    load_plugins()
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        found(folder)  # what is imported late may lie where nobody may read
        was_root = os.geteuid() == 0
        if was_root:
            os.seteuid(65534)
        try:
            yield folder
        finally:
            for each in folder.iterdir():
                each.chmod(0o777)
            if was_root:
                os.seteuid(0)


@pytest.mark.parametrize("mode", [0o000, 0o444], ids=["not-listed", "listed"])
def test_a_folder_that_cannot_be_entered_stands_for_itself(mode: int, nobody: Path) -> None:
    made(nobody, "closed/talk.jsonl", "talk.jsonl")
    (nobody / "closed").chmod(mode)

    assert found(nobody) == ["talk.jsonl", "closed"]


def test_a_file_is_itself_whatever_it_is_called(tmp_path: Path) -> None:
    made(tmp_path, ".talk")

    assert list(files_in(tmp_path / ".talk")) == [tmp_path / ".talk"]
    assert (size_of(tmp_path / ".talk"), size_of(tmp_path / "nowhere")) == (2, 0)


def test_sub_agents_of_a_session_come_behind_the_sessions(tmp_path: Path) -> None:
    for name in ("agent-1.jsonl", "0000.jsonl", "ffff.jsonl"):
        (tmp_path / name).write_text("{}\n")

    assert [file.name for file in files_in(tmp_path)] == ["0000.jsonl", "ffff.jsonl", "agent-1.jsonl"]


def test_a_pattern_stands_for_what_it_matches(tmp_path: Path) -> None:
    made(tmp_path, "a/1.jsonl", "b/2.jsonl", "b/3.json", "[c].jsonl")

    assert found(tmp_path / "*") == ["[c].jsonl", "a/1.jsonl", "b/2.jsonl", "b/3.json"]
    assert found(tmp_path / "**" / "*.jsonl") == ["[c].jsonl", "a/1.jsonl", "b/2.jsonl"]
    assert found(tmp_path / "[c].jsonl") == ["[c].jsonl"]


def test_each_program_names_its_folders_and_those_on_this_machine_are_found(tmp_path: Path) -> None:
    agent = "config/projects/shop/one/subagents/agent-1.jsonl"
    made(tmp_path, "config/projects/shop/one.jsonl", agent, ".pi/agent/sessions/x/two.jsonl")
    (tmp_path / ".codex" / "sessions").mkdir(parents=True)  # it has none

    given = {"CLAUDE_CONFIG_DIR": str(tmp_path / "config"), "CLINE_DATA_DIR": "~nobody-of-this-name/x"}
    assert sorted(found_sessions({"HOME": str(tmp_path), **given})) == [
        ("claude-code", tmp_path / "config" / "projects", 1),
        ("pi", tmp_path / ".pi" / "agent" / "sessions", 1),
    ]
