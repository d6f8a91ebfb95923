"""Connections of a process: wrong addresses, Ctrl-C, forks, and the end, which leaves nothing over."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from stenolog.adapters.store.contract.values import Stream
from stenolog.adapters.store.postgres import appends
from stenolog.adapters.store.postgres.application import PostgresLogApplication
from stenolog.adapters.store.postgres.recorder import PostgresLogRecorder
from stenolog.domain.errors import StenologError, StoreError
from tests.postgres.load import PATIENCE, Writers, all_ended, chained, opened, said
from tests.postgres.server import Server


@pytest.fixture
def server(postgres: Callable[[str], Server]) -> Server:
    return postgres("postgres 15")


@pytest.fixture
def address(server: Server) -> Iterator[str]:
    with server.schema() as address:
        yield address


CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'stenolog'"
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'stenolog'"


def left_over(server: Server) -> tuple[int, list[str]]:
    """Return the sessions and the threads of logs that are still there, once they have had time to go."""
    give_up = time.monotonic() + 5
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        while True:
            (sessions,) = connection.execute(SESSIONS).fetchone() or (0,)
            threads = [each.name for each in threading.enumerate() if each.name.startswith("stenolog")]
            if (not sessions and not threads) or time.monotonic() > give_up:
                return sessions, threads
            time.sleep(0.01)


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("postgresql://me:sesame@/db?host=/nowhere", "No such file or directory"),
        ("postgresql://me:sesame@127.0.0.1:1/db", "Connection refused"),
        ("postgresql://me:sesame@127.0.0.1:1:2/db", "cannot be read"),
        ("postgresql://me:sesame@[::1/db", "cannot be read"),
        ("postgresql://me:sesame@127.0.0.1/db?nosuch=1", "nosuch"),
        ("postgresql://me:sesame@%zz/db", "%zz"),
        ("postgresql://127.0.0.1:1/db?user=me&password=sesame", "Connection refused"),
    ],
)
def test_a_wrong_address_is_told_at_once_and_without_its_password(address: str, found: str) -> None:
    started = time.monotonic()
    with pytest.raises(StenologError, match=found) as caught, opened(address, deadline=PATIENCE):
        pass

    assert time.monotonic() - started < 2
    assert "sesame" not in "".join(traceback.format_exception(caught.value))
    assert "sesame" not in repr(caught.value)


def test_a_database_that_is_not_there_is_told(server: Server) -> None:
    with pytest.raises(StoreError, match='database "nosuch" does not exist'):
        PostgresLogApplication({"POSTGRES_ADDRESS": server.address().replace("/postgres", "/nosuch")})


def test_a_call_on_a_server_that_is_away_says_so_when_the_deadline_has_passed(server: Server) -> None:
    socket = Path(server.folder, ".s.PGSQL.5432")
    with server.schema() as address, opened(address, deadline=0.5) as recorder:
        recorder.append([said("first")], Stream("talk"), None)
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            hidden = socket.rename(socket.with_suffix(".hidden"))
            connection.execute(CUT)
        try:
            started = time.monotonic()
            with pytest.raises(StoreError, match="No such file or directory"):
                recorder.append([said("second")], Stream("talk"), None)
            waited = time.monotonic() - started
        finally:
            hidden.rename(socket)

        recorder.append([said("third")], Stream("talk"), None)
        assert [record.id for record in chained(recorder)["talk"]][1:] == ["first", "third"]
    assert 0.1 < waited < 2


@contextmanager
def interrupted(after: float) -> Iterator[None]:
    """Press Ctrl-C after so many seconds."""
    before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, after)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_ctrl_c_ends_an_append_that_waits_and_leaves_nothing_behind(server: Server, address: str) -> None:
    with opened(address) as recorder, opened(address) as other:
        stream = Stream("talk")
        recorder.append([said("first")], stream, None)
        assert stream.key is not None
        key, waits, ends = stream.key, threading.Event(), threading.Event()

        def hold() -> None:
            other.datastore.repeat(lambda *_: waits.set() or ends.wait(PATIENCE), [key])  # type: ignore[func-returns-value]

        holder = threading.Thread(target=hold)
        holder.start()
        assert waits.wait(PATIENCE)
        try:
            with pytest.raises(KeyboardInterrupt), interrupted(0.2):
                recorder.append([said("second")], stream, None)
        finally:
            ends.set()
            all_ended(holder)
        recorder.append([said("third")], stream, None)

        assert [record.id for record in chained(recorder)["talk"]][1:] == ["first", "third"]
    assert left_over(server) == (0, [])


def test_ctrl_c_between_the_statements_of_a_transaction_rolls_it_back(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rows = appends.write_rows

    def interrupts(*given: Any) -> None:
        write_rows(*given)
        raise KeyboardInterrupt

    with opened(address) as recorder:
        recorder.append([said("first")], Stream("talk"), None)
        monkeypatch.setattr(appends, "write_rows", interrupts)
        with pytest.raises(KeyboardInterrupt):
            recorder.append([said("second")], Stream("talk"), None)
        monkeypatch.undo()
        recorder.append([said("third")], Stream("talk"), None)

        assert [record.id for record in chained(recorder)["talk"]][1:] == ["first", "third"]


def test_a_forked_child_is_told_to_open_the_log_again_and_its_parent_goes_on(address: str) -> None:
    with opened(address) as recorder:
        recorder.append([said("first")], Stream("talk"), None)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                recorder.append([said("child")], Stream("talk"), None)
            except StoreError as error:
                code = 0 if "opened before a fork" in str(error) else 2
                recorder.datastore.close()
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        recorder.append([said("second")], Stream("talk"), None)

        assert os.waitstatus_to_exitcode(status) == 0
        assert [record.id for record in chained(recorder)["talk"]][1:] == ["first", "second"]


def test_a_log_that_is_closed_while_threads_append_ends_them_and_leaves_nothing_over(
    server: Server, address: str
) -> None:
    ended: list[str] = []

    def append(recorder: PostgresLogRecorder, number: int) -> Callable[[], None]:
        stream = Stream(f"talk{number}")

        def call() -> None:
            try:
                recorder.append([said(os.urandom(8).hex())], stream, None)
            except StoreError as error:
                ended.append(str(error))
                raise

        return call

    with (
        opened(address) as recorder,
        recorder.listening(lambda: None),
        Writers(append(recorder, number) for number in range(8)) as writers,
    ):
        time.sleep(0.3)
        recorder.close()
        recorder.datastore.close()
        time.sleep(0.3)
    assert len(writers.failed) == len(ended) == 8
    assert all("the log was closed" in each for each in ended)
    assert left_over(server) == (0, [])


def test_a_log_that_nobody_closed_leaves_nothing_over(server: Server, address: str) -> None:
    application = PostgresLogApplication({"POSTGRES_ADDRESS": f"{address}&notify=off"})
    application.recorder.append([said("first")], Stream("talk"), None)
    del application
    gc.collect()

    assert left_over(server) == (0, [])


def test_an_append_that_stands_is_told_as_such_where_no_thread_can_tell_others_of_it(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with opened(address) as recorder:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", no_thread)
            recorder.append([said("first")], Stream("talk"), None)
        recorder.append([said("second")], Stream("talk"), None)

        assert [record.id for record in chained(recorder)["talk"]][1:] == ["first", "second"]


FROZEN = "SELECT pid FROM pg_stat_activity WHERE application_name = 'stenolog' AND state = 'idle'"


@pytest.mark.slow
def test_a_session_that_says_nothing_holds_up_no_call_for_ever(server: Server, address: str) -> None:
    with opened(f"{address}&notify=off", deadline=1) as recorder:
        recorder.append([said("first")], Stream("talk"), None)
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            pids = [pid for (pid,) in connection.execute(FROZEN).fetchall()]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        started = time.monotonic()
        try:
            recorder.append([said("second")], Stream("talk"), None)
        finally:
            waited = time.monotonic() - started
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

        assert pids
        assert 1 < waited < 6
        assert [record.id for record in chained(recorder)["talk"]][1:] == ["first", "second"]
