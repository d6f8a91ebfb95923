"""A standby that takes over from its primary: what a failover loses, and how one sees that."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

import stenolog
from stenolog import UserMessage
from tests.command_line import run
from tests.postgres.load import PATIENCE
from tests.postgres.server import DURABLE, Server, programs, running, server_user

pytestmark = pytest.mark.slow


@pytest.fixture
def primary() -> Iterator[Server]:
    bin = programs()
    if bin is None:
        pytest.skip("no PostgreSQL is installed here")
    with running(bin, DURABLE) as server:
        yield server


@contextmanager
def standby_of(primary: Server) -> Iterator[Server]:
    """Yield a running server that streams from another one, and may be promoted."""
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        os.chmod(folder, 0o755)
        if user := server_user():
            shutil.chown(folder, user)
        standby = Server(folder, primary.bin, primary.options)
        control(standby, "pg_basebackup", "-h", primary.folder, "-U", "tests", "-R", "-c", "fast")
        standby.start()
        try:
            yield standby
        finally:
            standby.stop()


def control(server: Server, program: str, *options: str) -> None:
    """Run a program of the server's on its data."""
    command = [str(server.bin / program), "-D", f"{server.folder}/data", *options]
    subprocess.run(command, user=server_user(), cwd="/", check=True, capture_output=True)


def ask(server: Server, question: str) -> Any:
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        row = connection.execute(question.encode()).fetchone()
        return row[0] if row else None


def until(holds: Callable[[], object]) -> None:
    give_up = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def promote(standby: Server) -> None:
    control(standby, "pg_ctl", "-w", "promote")
    until(lambda: not ask(standby, "SELECT pg_is_in_recovery()"))


def synchronous(primary: Server) -> None:
    """Have each commit wait for the standby."""
    with psycopg.connect(primary.conninfo, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        connection.execute("SELECT pg_reload_conf()")
    until(lambda: ask(primary, "SELECT sync_state FROM pg_stat_replication") == "sync")


def say(address: str, *texts: str) -> None:
    with stenolog.open(address) as log:
        for text in texts:
            log["demo"].append(UserMessage(text=text))


def texts(address: str) -> list[str]:
    with stenolog.open(address) as log:
        return [entry.event.text for entry in log["demo"] if isinstance(entry.event, UserMessage)]


def head(address: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the head that the manual has one keep elsewhere."""
    capsys.readouterr()
    assert run(["check", "log", "--json", "--db", address]) == 0
    return str(json.loads(capsys.readouterr().out)["data"]["head"])


def test_an_asynchronous_standby_loses_the_newest_entries_and_a_head_kept_elsewhere_tells(
    primary: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    say(primary.address(), "one", "two")
    early = head(primary.address(), capsys)
    with standby_of(primary) as standby:
        until(lambda: ask(primary, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"))
        standby.stop()
        say(primary.address(), "acknowledged")
        late = head(primary.address(), capsys)
        primary.stop()
        standby.start()
        promote(standby)

        assert texts(standby.address()) == ["one", "two"]
        assert run(["check", "log", "--head", early, "--db", standby.address()]) == 0
        assert run(["check", "log", "--head", late, "--db", standby.address()]) == 1
        say(standby.address(), "three")
        assert texts(standby.address()) == ["one", "two", "three"]
        assert run(["check", "log", "--head", late, "--db", standby.address()]) == 1
    primary.start()  # its fixture stops it


def test_a_synchronous_standby_has_whatever_was_acknowledged_and_writers_go_on_there(
    primary: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    with standby_of(primary) as standby:
        until(lambda: ask(primary, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"))
        synchronous(primary)
        hosts = f"{primary.folder},{standby.folder}"
        both = f"postgresql://tests@/postgres?host={hosts}&target_session_attrs=read-write"
        with stenolog.open(both) as log:
            said = [f"{number}" for number in range(50)]
            for text in said:
                log["demo"].append(UserMessage(text=text))
            late = head(primary.address(), capsys)
            primary.stop()
            promote(standby)
            log["demo"].append(UserMessage(text="after"))

        assert texts(standby.address()) == [*said, "after"]
        assert run(["check", "log", "--head", late, "--db", standby.address()]) == 0
    primary.start()
