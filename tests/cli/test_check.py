"""`check`: one line at the end says how much was checked and what failed, as the exit code does."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from stenolog.requests import FORMATS
from tests.cli.conftest import Ran

Cli = Callable[..., Ran]


def last(ran: Ran) -> str:
    return ran.out.splitlines()[-1]


@pytest.mark.parametrize(
    ("command", "counts"),
    [
        (("check",), f"2 conversations, 13 entries, {4 * len(FORMATS)} requests"),
        (("check", "demo"), f"1 conversation, 12 entries, {2 * len(FORMATS)} requests"),
        (("check", "log"), "2 conversations, 13 entries"),
        (("check", "requests"), f"2 conversations, {4 * len(FORMATS)} requests"),
    ],
)
def test_a_check_ends_with_how_much_was_checked_and_that_nothing_failed(
    demo: Cli, command: tuple[str, ...], counts: str
) -> None:
    assert demo("fork", "demo", "--after", "2", "--name", "again").status == 0
    told = demo(*command)

    assert last(told).startswith(f"✓ checked {counts}: nothing failed")
    assert told.status == 0


def test_a_check_that_failed_ends_with_what_failed_and_with_1(demo: Cli, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "talks.db")) as connection:
        connection.execute("UPDATE stored_events SET state = x'00' WHERE originator_version = 4")
        connection.commit()
    told = demo("check")

    words = " ".join(told.out[told.out.rindex("✗ ") :].split())
    assert words.startswith("✗ checked 1 conversation, 12 entries, 0 requests: 2 differences, ")
    assert words.endswith("1 conversation whose requests cannot be built, 1 warning")
    assert told.status == 1


IMPATIENT = """
import sys
from stenolog.apps.cli import run, terminal
terminal.PATIENCE_S = 0
raise SystemExit(run(sys.argv[1:]))
"""


def test_in_a_pipe_no_progress_is_shown(demo: Cli, tmp_path: Path) -> None:
    assert demo("check", "gate", "-o", "old.jsonl").status == 0
    for more in (["--against", "old.jsonl"], ["-o", "new.jsonl"]):
        command = [sys.executable, "-c", IMPATIENT, "check", "gate", *more]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)

        assert ran.stderr == ""
        assert ran.stdout.count("\n") == 1
        assert ran.stdout.startswith("✓ ")
