"""A check of many conversations, or of a damaged file, says what failed, and no line for each."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

import stenolog
from stenolog import ToolResult, UserMessage
from tests.cli.conftest import Ran

CLI = Callable[..., Ran]
MANY = 8
PAGE = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "talks.db"
    noise = Random(1)  # so long that the database has many pages
    with stenolog.open(path) as log:
        for number in range(MANY):
            log[f"talk {number}"].append(
                UserMessage(text=f"Tell me. {number} {noise.randbytes(4_000).hex()}")
            )
            log[f"talk {number}"].append(ToolResult(call_id="nobody's", text="ok"))
    return path


@pytest.mark.parametrize("command", [("check", "log"), ("check", "requests"), ("check",)])
def test_of_many_conversations_only_those_that_failed_have_a_line_and_notes_of_a_kind_are_counted(
    cli: CLI, path: Path, command: tuple[str, ...]
) -> None:
    short, whole = cli(*command), cli(*command, "-v")
    assert "talk 0" not in short.out
    assert short.out.splitlines()[-1] == whole.out.splitlines()[-1]
    assert all(f"talk {number}" in whole.out for number in range(MANY))
    if command != ("check", "requests"):
        assert short.err.count("which is no open call") == 1
        assert "7 more of this kind: -v shows each" in short.err
        assert whole.err.count("which is no open call") == MANY
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE stored_events SET state = x'00' WHERE rowid = 2")
    failed = cli("check", "log")
    assert failed.status == 1
    assert "✗ talk 0" in failed.out
    assert "talk 1" not in failed.out


@pytest.fixture
def damaged(path: Path) -> Path:
    """Overwrite the pages of the database behind the first ones."""
    with path.open("r+b") as file:
        size = path.stat().st_size
        for page in range(size // PAGE // 2, size // PAGE):
            file.seek(page * PAGE)
            file.write(b"\xff" * PAGE)
    return path


def test_the_damage_of_a_file_is_told_once_with_what_helps(cli: CLI, damaged: Path) -> None:
    told = cli("check", "log")
    assert told.status == 1
    assert told.err.count("the database: ") == 1
    assert "more lines of this: -v shows them" in told.err
    assert told.err.count("`stenolog db restore BACKUP`") == 1
    assert cli("check", "log", "-v").err.count("btreeInitPage") > 1


def test_a_command_that_meets_a_damaged_file_names_restore_and_salvage(cli: CLI, damaged: Path) -> None:
    told = cli("search", "tell")
    assert told.status == 4
    assert "`stenolog db restore BACKUP`" in told.err
    assert "`stenolog db salvage FILE NEW`" in told.err


def test_salvage_takes_the_new_file_as_backup_does(cli: CLI, path: Path) -> None:
    assert cli("db", "salvage", "talks.db", "new.db").status == 0
    assert cli("db", "salvage", "talks.db", "-o", "newer.db").status == 0
    for wrong in ((), ("a.db", "-o", "b.db")):
        told = cli("db", "salvage", "talks.db", *wrong)
        assert told.status == 2
        assert "say once where the new database goes: stenolog db salvage talks.db NEW" in told.err


def test_a_restore_says_which_files_may_still_hold_erased_words_and_how_long_they_are(
    cli: CLI, path: Path
) -> None:
    assert cli("db", "backup", "copy.db").status == 0
    size = path.stat().st_size
    told = cli("db", "restore", "copy.db").out
    assert f".before-20{told.split('.before-20')[1].splitlines()[0]}" in told
    assert f", {size:,} bytes" in told
    assert "and copy.db may still hold erased words" in told.replace("\n", " ")
