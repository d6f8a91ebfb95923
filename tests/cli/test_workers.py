"""`worker`, `submit` and `workers`: a worker in another process answers what a shell submits."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import stenolog
from stenolog import UserMessage
from stenolog.adapters.store.claims import Claims
from stenolog.adapters.store.contract.roles import Presence
from stenolog.adapters.store.contract.values import Claim
from tests.cli.conftest import Ran
from tests.cli.teams import LOOKS, SELLS, call, events, team
from tests.cli.terminal import ROOT
from tests.postgres.server import Server
from tests.workers.given import answering, jobs_dropped

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
    said = ("submit", "--db", db, "--conversation", "user-7", "What is it?", "--id", "m-1")
    with worker(tmp_path, team(tmp_path, *LOOKS), db):
        waited = cli(*said, "--wait")
        again = cli(*said)

    assert (waited.status, waited.out) == (0, "coder\n  Let me look.\ncoder\n  It is a cat.\n")
    assert (again.status, again.out) == (0, "✓ user-7: submitted at 2\n")
    with stenolog.open(tmp_path / db if db == "talks.db" else db) as log:
        assert len(log["user-7"]) == 6


def test_a_call_is_approved_by_the_line_that_a_submit_that_waits_names(
    cli: Cli, tmp_path: Path, db: str
) -> None:
    at = ("submit", "--db", db, "--conversation", "user-7")
    with worker(tmp_path, team(tmp_path, *SELLS), db):
        stopped = cli(*at, "Sell 3.", "--wait")
        words = shlex.split(stopped.err.splitlines()[-1].partition("approval: stenolog ")[2])
        approved = cli(*words, "--wait", "--json")

    assert (stopped.status, stopped.out) == (0, "")
    assert "user-7, coder: sell(" in stopped.err
    assert words[:5] == ["submit", "--conversation", "user-7", "--approve", "4"]
    assert approved.status == 0
    assert approved.data == {
        "conversation": "user-7",
        "position": 5,
        "answers": [{"agent": "coder", "text": "Done."}],
    }


def test_a_submit_that_no_worker_will_hear_of_says_so(cli: Cli, postgres: Callable[[str], Server]) -> None:
    server = postgres("postgres 15")
    with server.schema() as address:
        ran = cli("submit", "--db", address, "--conversation", "a", "Hi", "--team", "another")
        jobs_dropped(server, address)

    assert (ran.status, ran.out) == (0, "✓ a: submitted at 2\n")
    assert ran.err == "· no worker of 'another' is running; the message waits for one (`stenolog workers`)\n"


def asked(cli: Cli, folder: Path, *calls: int) -> None:
    """Record a conversation whose coder wants to sell, and waits for a person."""
    team(folder, [call("sell", loaves=loaves) for loaves in calls])
    assert cli("run", "team.toml", "Sell.", "--conversation", "user-7").status == 0


@pytest.mark.parametrize("refusal", [("--refuse",), ("--refuse", "3")])
def test_the_only_call_that_waits_is_refused_with_and_without_its_position(
    cli: Cli, tmp_path: Path, refusal: tuple[str, ...]
) -> None:
    asked(cli, tmp_path, 3)
    ran = cli("submit", "--conversation", "user-7", *refusal, "--json")

    assert ran.data == {"conversation": "user-7", "position": 4}
    assert events("user-7")[3].control.action == "refuse"


def test_of_several_calls_that_wait_one_is_named_by_its_code(cli: Cli, tmp_path: Path) -> None:
    asked(cli, tmp_path, 3, 4)
    unclear = cli("submit", "--conversation", "user-7", "--approve")
    none = cli("submit", "--conversation", "user-7", "--approve", "2")
    code = unclear.err.splitlines()[-1].split()[2].rstrip(":")
    ran = cli("submit", "--conversation", "user-7", "--approve", code)

    assert (unclear.status, none.status, ran.status) == (2, 2, 0)
    assert [row.split(": ")[-1] for row in unclear.err.splitlines()[1:]] == [
        'sell({"loaves":3})',
        'sell({"loaves":4})',
    ]
    assert "expected a call at 2" in none.err
    assert events("user-7")[3].control.call.index == 1


def test_what_is_at_work_is_cancelled(cli: Cli, tmp_path: Path, db: str) -> None:
    at = ("submit", "--db", db, "--conversation", "user-7")
    with stenolog.open(tmp_path / db if db == "talks.db" else db) as log:
        asyncio.run(answering("A cat.").send(log["user-7"], "What is it?"))
    nobody = cli("submit", "--db", db, "--conversation", "another-one", "--cancel")
    ran = cli(*at, "--cancel", "--wait")
    again = cli(*at, "--cancel")

    assert (ran.status, again.status, nobody.status) == (0, 2, 3)


@pytest.mark.parametrize(
    "words", [(), ("Hi", "--cancel"), ("--cancel", "--approve"), ("--approve", "3", "--refuse", "3")]
)
def test_exactly_one_thing_is_submitted(cli: Cli, words: tuple[str, ...]) -> None:
    ran = cli("submit", "--conversation", "user-7", *words)

    assert ran.status == 2
    assert "expected one of MESSAGE, --cancel, --approve, --refuse and --answer" in ran.err


def test_an_id_goes_with_a_message(cli: Cli) -> None:
    ran = cli("submit", "--conversation", "user-7", "--cancel", "--id", "m-1")

    assert (ran.status, "--to and --id go with a message" in ran.err) == (2, True)


@pytest.mark.slow
def test_submit_gives_the_answers_as_json(cli: Cli, tmp_path: Path) -> None:
    with worker(tmp_path, team(tmp_path, *LOOKS), "talks.db"):
        ran = cli("submit", "--conversation", "user-7", "What is it?", "--wait", "--json")

    assert ran.data == {
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
        cli("submit", "--db", address, "--conversation", "a", "Hi", "--team", "another")
        none = cli("workers", "--db", address, "--json")
        with worker(tmp_path, team(tmp_path, *LOOKS), address) as process:
            cli("submit", "--db", address, "--conversation", "b", "What is it?", "--wait")
            ran = cli("workers", "--db", address, "--json")
            drawn = cli("workers", "--db", address)
        jobs_dropped(server, address)

    assert none.data["workers"] == []
    assert [queue["waiting"] for queue in none.data["queues"]] == [1]
    (found,) = ran.data["workers"]
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


# `claims`: what is under way, and taking it over.


@pytest.fixture(params=["talks.db", "postgres 15"])
def address(
    request: pytest.FixtureRequest, postgres: Callable[[str], Server], monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Yield a file, and an address on a server, which the command line uses."""
    if request.param == "talks.db":
        yield request.param
        return
    with postgres(request.param).schema() as address:
        monkeypatch.setenv("STENOLOG_DB", address)
        yield address


@pytest.fixture
def runner(cli: Cli, address: str) -> Iterator[Presence]:
    """Yield a runner of this process that is at two effects."""
    with stenolog.open(address) as log:
        conversation = log["demo"]
        conversation.append(UserMessage(text="Go."))
        presence = log.recorder.claims.presence("one")
        claim = Claim(0, "coder", "model", 2, 1, "key", presence.owner, 1_767_225_600_000_000)
        wanted = [claim, claim._replace(lane="judge", effect="tool 2/0")]
        Claims(log.recorder, conversation.stream).take(wanted, 2)
        yield presence
        presence.close()


def test_nothing_is_under_way(demo: Cli) -> None:
    assert demo("claims").out == "no model call or tool is under way\n"
    assert demo("claims", "demo", "--take").status == 2


def test_what_is_under_way_stands_in_a_table_with_its_process(cli: Cli, runner: Presence) -> None:
    _, host, pid, *_ = runner.owner.split()

    ran = cli("claims")

    head, _, *rows = ran.out.splitlines()
    assert [line.split() for line in (head, *rows)] == [
        ["CONVERSATION", "AGENT", "WHAT", "SINCE", "PROCESS", "HOST", "ALIVE"],
        ["demo", "coder", "model", "2026-01-01", "00:00:00", pid, host, "yes"],
        ["demo", "judge", "tool", "2/0", "2026-01-01", "00:00:00", pid, host, "yes"],
    ]
    data = cli("claims", "--json").data
    assert data[0] == {
        "conversation": "demo",
        "lane": "coder",
        "effect": "model",
        "since": "2026-01-01T00:00:00Z",
        "host": host,
        "pid": int(pid),
        "alive": True,
        "owner": "one",
    }


def test_what_is_taken_over_is_owned_by_nobody_who_lives(cli: Cli, runner: Presence) -> None:
    assert cli("claims", "--owner", "one").status == 2
    assert cli("claims", "demo", "--take", "--owner", "two").status == 2
    assert cli("claims", "nowhere", "--take").status == 3

    ran = cli("claims", "demo", "--take", "--owner", runner.owner.split()[2])

    assert ran.status == 0
    assert ran.out.startswith("✓ demo: 2 calls taken over; the next run settles them")
    assert "still runs" in ran.out
    assert [claim["alive"] for claim in cli("claims", "--json").data] == [False, False]


def test_gc_tells_what_it_removed(cli: Cli, demo: Cli) -> None:
    with stenolog.open("talks.db") as log:
        log.blobs.put(b"nothing names it")
    ran = cli("db", "gc", "--json")

    assert ran.data == {"blobs": 1, "bytes": 16, "kept": 0, "is_complete": True}
    assert cli("db", "gc").out == "✓ 0 blobs removed, 0 bytes\n"
