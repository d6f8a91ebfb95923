"""Followers of a log that many write to meet every entry, once, and in order."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

import stenolog
from stenolog import Log, UserMessage
from stenolog.adapters.conversation.log import extend
from stenolog.adapters.store.contract.values import Claim, Stream
from stenolog.adapters.store.postgres import appends, batches
from stenolog.adapters.store.postgres.connection.datastore import LogConnection
from stenolog.adapters.store.postgres.recorder import PostgresLogRecorder
from stenolog.adapters.store.postgres.statements import claim_rows, followed
from tests.postgres.load import faults_of_followers, opened, said
from tests.postgres.server import Server

CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'stenolog'"


@pytest.fixture
def server(postgres: Callable[[str], Server]) -> Server:
    return postgres("postgres 15")


@contextmanager
def foreign_writer(server: Server) -> Iterator[None]:
    """Keep a transaction of others open that has written to another database of the server."""
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        connection.execute("CREATE DATABASE foreigners")
        try:
            with psycopg.connect(f"{server.conninfo} dbname=foreigners") as foreigner:
                foreigner.execute("CREATE TABLE mine AS SELECT 1")
                with psycopg.connect(server.conninfo) as neighbour:
                    neighbour.execute("CREATE TEMP TABLE mine AS SELECT 1")
                    yield
        finally:
            connection.execute("DROP DATABASE foreigners WITH (FORCE)")


@pytest.mark.parametrize("seconds", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_followers_of_thirty_two_writers_miss_nothing_while_others_write_to_the_same_server(
    server: Server, seconds: float
) -> None:
    with server.schema() as address, foreign_writer(server):
        assert faults_of_followers(address, seconds).total == 0


def test_a_follower_that_read_by_id_without_the_bound_would_miss_entries(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    unbounded = followed.BEHIND.replace("e.notification < (SELECT mark FROM bound)", "true")
    assert unbounded != followed.BEHIND
    monkeypatch.setattr(followed, "BEHIND", unbounded)

    with server.schema() as address:
        assert faults_of_followers(address, 10, until_caught=True).total > 0


@pytest.mark.slow
def test_a_transaction_that_took_a_turn_after_its_first_write_would_break_the_order(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each conversation's turn is then taken by its own append, behind the writes of those before it.
    for module in (appends, batches):
        monkeypatch.setattr(module, "take_turns_of", lambda connection, names: None)

    with server.schema() as address:
        assert faults_of_followers(address, 10, until_caught=True).disordered > 0


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["APPEND_ONE", "TOGETHER"])
def test_appends_that_took_no_turn_would_be_missed(
    server: Server, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    text = getattr(appends, statement)
    turnless = text.replace(appends.WITH_TURN, "").replace(appends.WITH_TURNS, "")
    assert turnless != text
    monkeypatch.setattr(appends, statement, turnless)

    with server.schema() as address:
        assert faults_of_followers(address, 10, until_caught=True).total > 0


def age(server: Server, address: str) -> None:
    """Give the entries the numbers of a cluster that is older by millions of transactions."""
    schema = address.rpartition("=")[2]
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        connection.execute(
            f'UPDATE "{schema}".stored_events SET notification = notification + (1::bigint << 45)'.encode()
        )


def test_a_follower_sees_the_next_append_where_a_process_lives_on_and_the_cluster_is_another(
    server: Server,
) -> None:
    with server.schema() as address, opened(address) as recorder:
        recorder.append([said("old")], Stream("talk"), None)
        age(server, address)
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            connection.execute(CUT)
        before = recorder.committed(0)
        recorder.append([said("new")], Stream("talk"), None)
        behind = recorder.committed(before[-1].notification)

    assert [row.id for row in behind] == ["new"]


def test_a_follower_sees_the_next_append_in_a_younger_cluster_where_a_dump_was_restored(
    server: Server,
) -> None:
    bin = server.bin
    with server.schema() as address:
        with opened(address) as recorder:
            for number in range(3):
                recorder.append([said(str(number))], Stream("talk"), None)
        schema = address.rpartition("=")[2]
        age(server, address)
        dump = subprocess.run(
            [bin / "pg_dump", "--schema", schema, "-h", server.folder, "-U", "tests", "postgres"],
            check=True,
            capture_output=True,
        ).stdout
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            connection.execute(f'DROP SCHEMA "{schema}" CASCADE')
        subprocess.run(
            [bin / "psql", "-q", "-v", "ON_ERROR_STOP=1", "-h", server.folder, "-U", "tests", "postgres"],
            input=dump,
            check=True,
            capture_output=True,
        )

        with opened(address) as recorder:
            before = recorder.committed(0)
            recorder.append([said("new")], Stream("talk"), None)
            behind = recorder.committed(before[-1].notification)

    assert [row.id for row in before][1:] == ["0", "1", "2"]
    assert [row.id for row in behind] == ["new"]


# Drafts of many answers, stored together: none is lost, none is stored twice, each in its order.


ANSWERS = 12
PIECES = 20


def answer(log: Log, name: str) -> int:
    """Take the claim on an answer in a new conversation; return its fence."""
    log[name].append(UserMessage(text="Hi"))
    (held,) = log.recorder.claims.take(log[name].stream, [Claim(0, "a", "model", 2, 1, "k", "o", 0)], 2)
    assert held is not None
    return held.fence


def test_pieces_that_come_at_the_same_time_are_all_stored_in_order(
    postgres: Callable[[str], Server],
) -> None:
    with postgres("postgres 18").schema() as address, stenolog.open(address) as log:
        assert isinstance(log.recorder, PostgresLogRecorder)
        writes: list[int] = []
        repeat = log.recorder.datastore.repeat

        def counted(work: Callable[[LogConnection, bool], None]) -> None:
            writes.append(threading.get_ident())
            time.sleep(0.01)  # a server that takes its time: the others ask meanwhile
            repeat(work)

        fences = [answer(log, str(number)) for number in range(ANSWERS)]
        log.recorder.datastore.repeat = counted  # type: ignore[method-assign, assignment]

        def say(fence: int) -> None:
            for number in range(PIECES):
                log.recorder.drafts.add([(fence, b"%d" % number)])

        with ThreadPoolExecutor(ANSWERS) as threads:
            list(threads.map(say, fences))
        log.recorder.datastore.repeat = repeat  # type: ignore[method-assign]
        found = [log.recorder.drafts.of(fence) for fence in fences]

    assert found == [[b"%d" % number for number in range(PIECES)]] * ANSWERS
    assert len(writes) < ANSWERS * PIECES / 2


def test_what_keeps_drafts_from_being_stored_is_told_to_each_who_waits(
    postgres: Callable[[str], Server],
) -> None:
    with postgres("postgres 18").schema() as address:
        log = stenolog.open(address)
        fence = answer(log, "demo")
        log.close()
        with ThreadPoolExecutor(4) as threads:
            told = [threads.submit(log.recorder.drafts.add, [(fence, b"1")]) for _ in range(4)]

        assert [type(each.exception()).__name__ for each in told] == ["StoreError"] * 4


def test_a_write_whose_answer_was_lost_is_not_made_again_where_its_first_answer_has_ended(
    postgres: Callable[[str], Server],
) -> None:
    with postgres("postgres 18").schema() as address, stenolog.open(address) as log:
        assert isinstance(log.recorder, PostgresLogRecorder)
        first, second = answer(log, "one"), answer(log, "two")
        stored: list[tuple[int, int]] = []
        said = [(first, b"1"), (second, b"2")]
        write = log.recorder.datastore.repeat
        write(lambda c, again: claim_rows.add_drafts(c, said, stored, again=again))
        extend(log["one"], [UserMessage(text="settles it")], None, first)
        write(lambda c, again: claim_rows.add_drafts(c, said, stored, again=True))

        assert log.recorder.drafts.of(second) == [b"2"]
