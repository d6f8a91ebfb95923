"""What a store promises while sessions of its server are killed, or the server: nothing is lost or doubled.

Writers append with ids of their own, as one does who repeats what failed; here none of it may fail.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import psycopg
import pytest

from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import Stream
from stenolog.domain.errors import OperationalError
from tests.postgres.server import DURABLE, EACH_VERSION, VERSIONS, Server, running

from .given import item, positions
from .inspecting import faults
from .stores import Postgres, Servers

WRITERS = 8
KILL = """SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE application_name = 'stenolog' AND pid <> pg_backend_pid() AND random() < 0.5"""


@pytest.fixture(params=EACH_VERSION)
def server(request: pytest.FixtureRequest, postgres: Servers) -> Server:
    return postgres(request.param)


@pytest.fixture(params=EACH_VERSION)
def durable(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Return a server that keeps what it has acknowledged, whatever becomes of it."""
    found, reason = VERSIONS[request.param]
    bin = found()
    if bin is None:
        pytest.skip(reason)
    with running(bin, DURABLE) as ready:
        yield ready


def written_through(
    recorder: LogRecorder, harm: Callable[[], object], times: int, pause: float
) -> dict[str, list[str]]:
    """Append in many threads until harm was done so often; the ids that were acknowledged."""
    ended, told = threading.Event(), dict[str, list[str]]()

    def write(number: int) -> None:
        # Half of them share a conversation; of these some know its head, and some look.
        name = "shared" if number % 2 else f"own {number}"
        stream, ids = Stream(name), told.setdefault(f"{name} {number}", [])
        while not ended.is_set():
            stream = stream if number % 4 else Stream(name)
            id = f"{number}.{len(ids)}"
            recorder.append([item(id, id)], stream, None)
            ids.append(id)

    with ThreadPoolExecutor(WRITERS) as pool:
        writing = [pool.submit(write, number) for number in range(WRITERS)]
        chance = Random(7)
        try:
            for _ in range(times):
                time.sleep(chance.uniform(0, 2 * pause))
                harm()
        finally:
            ended.set()
        for each in writing:
            each.result()
    return told


def check(recorder: LogRecorder, told: dict[str, list[str]]) -> None:
    """Check that what was told stands in the log, once and in the order in which it was told."""
    stored: dict[str, list[str]] = {}
    after = 0
    while rows := recorder.committed(after, limit=1000):
        after = rows[-1].notification
        for row in rows:
            if row.topic == "user_message@1":
                stored.setdefault(row.id.partition(".")[0], []).append(row.id)

    assert stored == {name.rpartition(" ")[2]: ids for name, ids in told.items()}
    assert all(ids for ids in told.values())
    for name in {name.rpartition(" ")[0] for name in told}:
        found = positions(recorder, name)
        assert found == [*range(1, len(found) + 1)]
    assert faults(recorder) == []


@pytest.mark.parametrize("times", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_sessions_that_are_killed_at_random_lose_no_append_and_tell_no_error(
    server: Server, times: int
) -> None:
    killed: list[Any] = []

    def kill() -> None:
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            killed.extend(connection.execute(KILL).fetchone() or ())

    with server.schema() as address:
        store = Postgres(address)
        recorder = store.open()
        check(recorder, written_through(recorder, kill, times, 0.05))
        store.close()
    assert sum(killed) > times


@pytest.mark.slow
def test_a_server_that_crashes_loses_no_append_and_no_error_is_told(durable: Server) -> None:
    store = Postgres(durable.address(schema="log"))
    recorder = store.open(deadline=30)
    check(recorder, written_through(recorder, durable.crash, 3, 0.5))
    store.close()


@pytest.mark.slow
def test_a_server_that_is_away_longer_than_the_deadline_is_told_and_found_again(durable: Server) -> None:
    store = Postgres(durable.address(schema="log"))
    recorder = store.open(deadline=1)
    stream = Stream("demo")
    recorder.append([item("a", "m-1")], stream, None)
    durable.stop()
    begun = time.monotonic()
    with pytest.raises(OperationalError):
        recorder.append([item("b", "m-2")], stream, None)
    assert time.monotonic() - begun < 5
    durable.start()

    assert recorder.append([item("b", "m-2")], stream, None)[0].position == 3
    assert faults(recorder) == []
    store.close()
