"""`worker`, `submit` and `workers`: a worker in another process answers what a shell submits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import stenolog
from tests.cli.conftest import Ran
from tests.cli.teams import LOOKS, team
from tests.cli.terminal import ROOT
from tests.postgres.server import Server
from tests.workers.given import jobs_dropped

Cli = Callable[..., Ran]


@contextmanager
def worker(folder: Path, file: str, db: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `stenolog worker` in a process of its own, and end it by SIGTERM."""
    command = [sys.executable, "-m", "stenolog", "worker", "--team", file, "--db", db]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL, env=environment)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


@pytest.fixture(params=["file", "postgres"])
def db(request: pytest.FixtureRequest, cli: Cli) -> Iterator[str]:
    """Yield the database of the commands, in a file and on a server."""
    if request.param == "file":
        yield "talks.db"
        return
    server: Server = request.getfixturevalue("postgres")("postgres 15")
    with server.schema() as address:
        yield address
        jobs_dropped(server, address)


def test_what_is_submitted_is_answered_by_a_worker_and_printed(cli: Cli, tmp_path: Path, db: str) -> None:
    said = ("submit", "--db", db, "--talk", "user-7", "What is it?", "--id", "m-1")
    with worker(tmp_path, team(tmp_path, *LOOKS), db):
        waited = cli(*said, "--wait")
        again = cli(*said)

    assert (waited.status, waited.out) == (0, "coder\n  Let me look.\ncoder\n  It is a cat.\n")
    assert (again.status, again.out) == (0, "✓ user-7: submitted at 2\n")
    with stenolog.open(tmp_path / db if db == "talks.db" else db) as log:
        assert len(log["user-7"]) == 6


@pytest.mark.slow
def test_submit_gives_the_answers_as_json(cli: Cli, tmp_path: Path) -> None:
    with worker(tmp_path, team(tmp_path, *LOOKS), "talks.db"):
        ran = cli("submit", "--talk", "user-7", "What is it?", "--wait", "--json")

    assert ran.envelope["data"] == {
        "conversation": "user-7",
        "position": 2,
        "answers": [{"agent": "coder", "text": "Let me look."}, {"agent": "coder", "text": "It is a cat."}],
    }


@pytest.mark.slow
def test_workers_says_who_lives_and_what_waits(
    cli: Cli, tmp_path: Path, postgres: Callable[[str], Server]
) -> None:
    server = postgres("postgres 15")
    with server.schema() as address:
        cli("submit", "--db", address, "--talk", "a", "Hi", "--team", "another")
        none = cli("workers", "--db", address, "--json")
        with worker(tmp_path, team(tmp_path, *LOOKS), address) as process:
            cli("submit", "--db", address, "--talk", "b", "What is it?", "--wait")
            ran = cli("workers", "--db", address, "--json")
            drawn = cli("workers", "--db", address)
        jobs_dropped(server, address)

    assert none.envelope["data"]["workers"] == []
    assert [queue["waiting"] for queue in none.envelope["data"]["queues"]] == [1]
    (found,) = ran.envelope["data"]["workers"]
    assert (found["team"], found["pid"], found["current"]) == ("team", process.pid, True)
    assert str(process.pid) in drawn.out


def test_a_log_in_a_file_has_no_list_of_workers(cli: Cli, tmp_path: Path) -> None:
    cli("demo")
    ran = cli("workers")

    assert (ran.status, ran.out) == (0, "a log in a file keeps no list of its workers\n")


def test_a_worker_needs_a_team_that_can_be_read(cli: Cli, tmp_path: Path) -> None:
    ran = cli("worker", "--team", "nothing.toml")

    assert ran.status == 3
    assert "nothing.toml" in ran.err
