"""A log in PostgreSQL, opened by its address: by Python, the command line and other processes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import psycopg
import pytest

import stenolog
from stenolog.adapters.conversation.log import open_existing
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.engine.model_calls.dispatch import rebuilt
from stenolog.adapters.store.contract.values import Claim
from stenolog.adapters.store.postgres.connection.address import parse
from stenolog.apps.inspect.pages.proof import checked_anew
from stenolog.apps.views.checks import log_check
from stenolog.errors import CallerError, StenologError, StoreError
from stenolog.events import UserMessage
from stenolog.tables import Follower, attach_table
from tests.forked import python
from tests.postgres.server import Server
from tests.tables.given import lines

SECRET = "hunter2"


@pytest.fixture
def address(postgres: Callable[[str], Server]) -> Iterator[str]:
    """Return the address of a log that is not there yet, with a password that the server does not ask for."""
    with postgres("postgres 15").schema() as found:
        yield found.replace("tests@", f"tests:{SECRET}@")


@pytest.fixture
def log(address: str) -> Iterator[stenolog.Log]:
    with stenolog.open(address) as log:
        log["demo"].append(UserMessage(text="Which test fails?"))
        yield log


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = python("-m", "stenolog", *arguments)
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_what_only_reads_makes_no_log(address: str) -> None:
    with pytest.raises(StoreError, match="expected a log, found no schema"):
        open_existing(address)
    with pytest.raises(StoreError, match="expected a log, found no schema"):
        open_existing(address)


def test_another_process_opens_the_same_log_by_its_address(log: stenolog.Log) -> None:
    found = run("show", "demo", "2", "--raw", "--db", log.recorder.address)

    assert (found.returncode, found.stdout) == (0, "Which test fails?\n")


def test_the_page_of_the_proof_and_the_check_of_a_request_open_it_anew(log: stenolog.Log) -> None:
    log["demo"].join("coder", model="m")
    request = log["demo"].request("coder", api="openai-chat")

    assert rebuilt(log["demo"], request, "openai-chat").sha256 == request.sha256
    assert not checked_anew(log, "demo").failed


@pytest.mark.slow
def test_other_processes_check_it_together(log: stenolog.Log) -> None:
    for number in range(20):
        log[f"talk {number}"].append(UserMessage(text="Hi."))

    assert not log_check(log, jobs=2).failed


def test_nothing_that_is_shown_has_the_password(log: stenolog.Log, address: str) -> None:
    application = log.application
    shown = [log, log["demo"], log.path, application, application.env, application.factory, log.recorder]

    assert log.recorder.address == address
    assert SECRET not in "".join(f"{each!r} {each}" for each in shown)
    assert log.path in repr(log)


def test_a_claim_of_another_process_is_shown_as_a_living_ones(log: stenolog.Log, address: str) -> None:
    recorder, stream = log.recorder, log.stream("demo")
    presence = recorder.claims.presence("one")
    recorder.claims.take(stream, [Claim(0, "coder", "model", 2, 1, "key", presence.owner, 0)], 2)

    found = run("claims", "--db", address)
    presence.close(keep=True)

    assert found.returncode == 0
    assert "coder" in found.stdout
    assert SECRET not in found.stdout + found.stderr


def test_a_table_is_kept_up_to_date_by_a_follower_and_not_in_the_log(log: stenolog.Log, address: str) -> None:
    with pytest.raises(CallerError, match=r"expected a log in an SQLite file, .*`Follower`"):
        attach_table(log, lines)
    schema = address.rpartition("=")[2]
    with Follower(log, f"{address}&options=-csearch_path%3D{schema}", lines) as follower:
        follower.catch_up()
        log["demo"].append(UserMessage(text="The parser's."))
        follower.catch_up()

    with psycopg.connect(parse(address).conninfo) as connection:
        rows = connection.execute(f'SELECT at, line FROM "{schema}".lines ORDER BY at'.encode()).fetchall()
    assert rows == [(2, "Which test fails?"), (3, "The parser's.")]


@pytest.mark.parametrize("place", ["127.0.0.1:1/talks", "127.0.0.1:all/talks"])
def test_a_follower_without_a_server_does_not_tell_the_password(log: stenolog.Log, place: str) -> None:
    with pytest.raises(StenologError) as told:
        Follower(log, f"postgresql://me:a/{SECRET}@{place}", lines)

    assert SECRET not in str(told.value)


def test_no_trigger_runs_at_an_append_and_an_earlier_releases_foreign_key_is_no_fault(
    log: stenolog.Log, address: str
) -> None:
    tables = parse(address).schema
    with psycopg.connect(parse(address).conninfo, autocommit=True) as connection:
        triggers = "SELECT tgname FROM pg_trigger JOIN pg_class AS c ON c.oid = tgrelid WHERE relnamespace = "
        assert connection.execute(f"{triggers} '{tables}'::regnamespace".encode()).fetchall() == []
        added = f"ADD FOREIGN KEY (parent) REFERENCES {tables}.conversations"
        connection.execute(f"ALTER TABLE {tables}.conversations {added}".encode())

    assert verify(log).ok


def test_what_an_earlier_release_noted_of_imports_is_a_record_of_the_history(
    log: stenolog.Log, address: str
) -> None:
    key = log["demo"].stream.key
    with psycopg.connect(parse(address).conninfo, autocommit=True) as connection:
        tables = parse(address).schema
        connection.execute(f"INSERT INTO {tables}.tracking VALUES ('imported', {key}, 2, 1)".encode())
        connection.execute(f"UPDATE {tables}.meta SET version = 1".encode())
        for _ in range(2):
            with stenolog.open(address) as again:
                assert [(found.first, found.last) for found in again["demo"].imported_ranges()] == [(1, 2)]
                assert verify(again).ok
        records = f"SELECT count(*) FROM {tables}.history WHERE what = 'imported'"

        assert connection.execute(records.encode()).fetchone() == (1,)
