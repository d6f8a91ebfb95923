"""What a store in PostgreSQL promises while a transaction stands still in the middle of its writes.

A foreign transaction has a row that the stalled one is about to write, and so decides when it goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from eventsourcing.persistence import StoredEvent

from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import Share, Stream, Written
from tests.postgres.server import EACH_VERSION

from .given import claim, fork, item, key_of, put
from .stores import Postgres

PATIENCE = 20.0
# Far from every id that the store gives.
ENTRY = """INSERT INTO stored_events
    (notification, stream, position, entry_id, at, topic, salt, digest, state)
    VALUES (-7, {key}, {position}, 'foreign', 0, 't', '', '', '')"""
CLAIM = """INSERT INTO claims (stream, lane, effect, cause, attempt, key, owner, at, receipt)
    VALUES ({key}, 'coder', 'model', 2, 1, 'key', 'foreign', 0, '')"""
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"


pytestmark = pytest.mark.parametrize("store", EACH_VERSION, indirect=True)


@contextmanager
def in_the_way(store: Postgres, statement: str) -> Iterator[Callable[[Future[object]], None]]:
    """Have a foreign transaction write a row; yield what waits until a call stands still behind it."""
    with store.transaction() as connection, store.transaction() as beside:
        connection.execute(statement)

        def stalled(call: Future[object]) -> None:
            give_up = time.monotonic() + PATIENCE
            while not beside.execute(WAITING).fetchone()[0]:
                assert time.monotonic() < give_up
                assert not call.done(), call.result()
                time.sleep(0.01)

        yield stalled
        connection.rollback()


def known(recorder: LogRecorder, name: str) -> Stream:
    stream = Stream(name)
    put(recorder, stream, "a")
    return stream


WAYS: dict[str, Callable[[LogRecorder, Stream], object]] = {
    "head known": lambda recorder, one: put(recorder, one, "stalled"),
    "head unknown": lambda recorder, one: put(recorder, Stream("one"), "stalled"),
    "a batch": lambda recorder, one: recorder.insert_batch([Share(Stream("one"), [item("x")], 2)], []),
    "the library's": lambda recorder, one: recorder.insert_events([StoredEvent("one", 3, "odd@1", b"")]),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_follower_passes_an_append_that_stands_still(
    recorder: LogRecorder, other: LogRecorder, store: Postgres, way: str
) -> None:
    one, two = known(recorder, "one"), known(other, "two")
    last = recorder.max_notification_id()
    assert last is not None
    with ThreadPoolExecutor(1) as pool:
        with in_the_way(store, ENTRY.format(key=one.key, position=3)) as stalled:
            appending = pool.submit(WAYS[way], recorder, one)
            stalled(appending)
            assert put(other, two, "overtakes") == [3]
            seen = other.committed(last)
        appending.result(PATIENCE)

    assert seen == []  # a smaller id may still come, and does
    assert [(row.name, row.position) for row in other.committed(last)] == [("one", 3), ("two", 3)]


def test_a_foreign_transaction_that_stays_open_hides_nothing(
    recorder: LogRecorder, other: LogRecorder, store: Postgres
) -> None:
    one = known(recorder, "one")
    with in_the_way(store, ENTRY.format(key=one.key, position=99)):
        put(recorder, one, "b")
        assert [row.position for row in other.committed(0)] == [1, 2, 3]
        assert other.max_notification_id() == other.committed(0)[-1].notification


def test_an_append_waits_for_a_claim_that_is_being_taken(
    recorder: LogRecorder, other: LogRecorder, store: Postgres
) -> None:
    one = known(recorder, "one")
    with ThreadPoolExecutor(2) as pool:
        with in_the_way(store, CLAIM.format(key=one.key)) as stalled:
            taking: Future[object] = pool.submit(recorder.claims.take, one, [claim()], 2)
            stalled(taking)
            appending = pool.submit(put, other, Stream("one"), "b")
            time.sleep(0.3)
            crossed = appending.done()
        (found,) = recorder.claims.of(one) if taking.result(PATIENCE) else [None]
        assert appending.result(PATIENCE) == [3]

    assert not crossed
    assert found is not None


def test_batches_over_the_same_conversations_in_any_order_take_turns(
    recorder: LogRecorder, other: LogRecorder, store: Postgres
) -> None:
    one, two = known(recorder, "one"), known(recorder, "two")

    def batch(log: LogRecorder, *names: str) -> object:
        return log.insert_batch([Share(Stream(name), [item("x")], 2) for name in names], [])

    with ThreadPoolExecutor(2) as pool:
        with in_the_way(store, ENTRY.format(key=one.key, position=3)) as stalled:
            first = pool.submit(batch, recorder, "one", "two")
            stalled(first)
            second = pool.submit(batch, other, "two", "one")
            time.sleep(0.3)
        assert first.result(PATIENCE) == [Written(3, []), Written(3, [])]
        refused = second.result(PATIENCE)

    assert isinstance(refused, list)
    assert [type(each).__name__ for each in refused] == ["VersionConflictError"] * 2
    assert [recorder.head(stream).position for stream in (Stream("one"), Stream("two"))] == [3, 3]
    assert two.key is not None


def test_a_fork_does_not_wait_for_an_append_to_its_parent(
    recorder: LogRecorder, other: LogRecorder, store: Postgres
) -> None:
    one = known(recorder, "one")
    with ThreadPoolExecutor(1) as pool:
        with in_the_way(store, ENTRY.format(key=one.key, position=3)) as stalled:
            appending: Future[object] = pool.submit(put, recorder, one, "stalled")
            stalled(appending)
            assert fork(other, Stream("one", key_of(other, Stream("one"))), 2).name == "one~1"
        assert appending.result(PATIENCE) == [3]
