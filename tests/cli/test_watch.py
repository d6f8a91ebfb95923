"""`watch`: what changes in a folder comes in, round by round."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog.adapters.importers.importer import import_files
from stenolog.adapters.importers.intake.report import Refused, Report
from stenolog.adapters.importers.watching import rounds
from stenolog.apps.cli.commands.change import watch as watch_command
from tests.forked import python

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0
Cli = Callable[..., Any]


def said(*words: str) -> str:
    """Return a file of messages, one a line."""
    return "".join(json.dumps({"role": "user", "content": word}) + "\n" for word in words)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with one transcript in it."""
    made = tmp_path / "sessions"
    made.mkdir()
    (made / "one.jsonl").write_text(said("Hi"))
    return made


class Rounds:
    """The rounds over a folder: a step is done while it waits for the next one; the last ends it."""

    def __init__(self, folder: Path, *steps: Callable[[], object]) -> None:
        self.steps: Iterator[Callable[[], object]] = iter(steps)
        self.folder = folder

    def _wait(self) -> None:
        step = next(self.steps, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    def all(self) -> list[list[Report | Refused]]:
        made: list[list[Report | Refused]] = []
        with stenolog.open("talks.db") as log, suppress(KeyboardInterrupt):
            made.extend(rounds([self.folder], lambda files: import_files(log, files), self._wait))
        return made


def appended(done: list[Report | Refused]) -> dict[str, int]:
    """Return the entries that each conversation got."""
    return {one.name: one.appended for each in done if isinstance(each, Report) for one in each.conversations}


def test_a_round_without_a_change_imports_nothing(cli: Cli, folder: Path) -> None:
    made = Rounds(folder, lambda: None, lambda: None).all()

    assert [appended(done) for done in made] == [{"one": 2}]


def test_a_file_that_grows_and_one_that_is_new_come_in(cli: Cli, folder: Path) -> None:
    made = Rounds(
        folder,
        lambda: (folder / "one.jsonl").write_text(said("Hi", "Still there?")),
        lambda: (folder / "two.jsonl").write_text(said("Hello")),
    ).all()

    assert [appended(done) for done in made] == [{"one": 2}, {"one": 1}, {"two": 2}]


def test_a_line_that_is_half_written_comes_in_once_it_is_whole(cli: Cli, folder: Path) -> None:
    whole = said("Hi", "Still there?")
    made = Rounds(
        folder,
        lambda: (folder / "one.jsonl").write_text(whole[:-10]),
        lambda: (folder / "one.jsonl").write_text(whole),
    ).all()

    assert [appended(done)["one"] for done in made] == [2, 0, 1]


def test_a_file_that_is_deleted_stops_nothing(cli: Cli, folder: Path) -> None:
    made = Rounds(
        folder,
        (folder / "one.jsonl").unlink,
        lambda: (folder / "two.jsonl").write_text(said("Hello")),
    ).all()

    assert [appended(done) for done in made] == [{"one": 2}, {"two": 2}]


def test_a_file_that_is_no_transcript_is_refused_once(cli: Cli, folder: Path) -> None:
    (folder / "note.json").write_text("{}")
    made = Rounds(folder, lambda: None).all()

    assert [[type(each) for each in done] for done in made] == [[Refused, Report]]


def test_the_command_says_each_change_in_a_line(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = iter([lambda: (folder / "one.jsonl").write_text(said("Hi", "Still there?"))])

    def pause(_seconds: float) -> None:
        step = next(steps, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    monkeypatch.setattr(watch_command, "pause", pause)
    ran = cli("watch", "sessions")

    assert ran.status == 130
    assert [line[10:] for line in ran.out.splitlines()] == [
        "✓ 1 file, 2 entries: one",
        "✓ 1 file, 1 entry: one",
    ]
    assert ran.err == "· watching sessions; Ctrl-C ends it\n"


def test_what_was_deleted_is_left_out_and_told_of_once(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("import", "sessions")
    cli("delete", "one", "--yes")
    grown = iter([said("Hi", "Still there?"), said("Hi", "Still there?", "Hello?")])

    def pause(_seconds: float) -> None:
        words = next(grown, None)
        if words is None:
            raise KeyboardInterrupt
        (folder / "one.jsonl").write_text(words)

    monkeypatch.setattr(watch_command, "pause", pause)

    assert [line[10:] for line in cli("watch", "sessions").out.splitlines()] == [
        "· 1 deleted conversation was left out  import --again FILE brings it back"
    ]


def test_a_folder_that_is_not_there_is_not_found(cli: Cli) -> None:
    assert cli("watch", "nowhere") == (3, "", "✗ nowhere: no such file or directory\n")


def test_a_program_that_watches_takes_in_what_another_one_writes_until_it_is_interrupted(
    folder: Path, tmp_path: Path
) -> None:
    command = python("-m", "stenolog", "watch", "sessions", "--interval", "0.05", "--json")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "STENOLOG_DB": "talks.db"}
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        try:
            first = json.loads(watching.stdout.readline())
            with (folder / "one.jsonl").open("a") as stream:
                stream.write(said("Still there?"))
            second = json.loads(watching.stdout.readline())
            watching.send_signal(signal.SIGINT)
            status = watching.wait(PATIENCE)
        finally:
            watching.kill()

    counts = [each["data"]["reports"][0]["conversations"][0]["appended"] for each in (first, second)]
    assert (counts, status) == ([2, 1], 130)
    with stenolog.open(tmp_path / "talks.db") as log:
        assert log["one"].position == 3
