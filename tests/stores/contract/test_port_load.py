"""What a store promises under load: many threads on one conversation, long entries, and pages of many."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from eventsourcing.persistence import StoredEvent

from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import LAST, PendingEntry, Share, Stream, Written
from stenolog.domain.entry import GENESIS, digest_of
from stenolog.domain.errors import VersionConflictError
from stenolog.domain.history import Change

from .given import fork, item, key_of, positions, put

THREADS = 32
MEGABYTE = 1_000_000


def entry(payload: bytes, id: str = "m-1") -> PendingEntry:
    return PendingEntry("odd@1", payload, id, 0, bytes(16), True)


def chain_holds(recorder: LogRecorder, stream: Stream) -> int:
    """Check every digest; return the number of entries."""
    digest, count = GENESIS, 0
    while records := recorder.select_records(stream, count, LAST):
        for record in records:
            assert record.digest == digest_of(digest, record)
            digest, count = record.digest, record.position
    return count


def in_threads(work: Callable[[int], list[int]]) -> list[list[int]]:
    """Do the work of each number at the same time."""
    barrier = threading.Barrier(THREADS)

    def begin(number: int) -> list[int]:
        barrier.wait(20)
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return [*pool.map(begin, range(THREADS))]


def test_of_many_threads_on_one_conversation_each_gets_positions_of_its_own(
    recorder: LogRecorder, other: LogRecorder
) -> None:
    def write(number: int) -> list[int]:
        store = (recorder, other)[number % 2]
        return [*put(store, Stream("demo"), "a"), *put(store, Stream("demo"), "b", "c")]

    found = in_threads(write)
    assert sorted(position for each in found for position in each) == [*range(2, 2 + 3 * THREADS)]
    assert all(b + 1 == c for _, b, c in found)
    assert chain_holds(recorder, Stream("demo")) == 1 + 3 * THREADS


def test_of_many_threads_that_expect_one_position_one_appends(
    recorder: LogRecorder, other: LogRecorder
) -> None:
    put(recorder, Stream("demo"), "a")

    def write(number: int) -> list[int]:
        try:
            return put((recorder, other)[number % 2], Stream("demo"), str(number), expected=2)
        except VersionConflictError:
            return []

    assert Counter(map(len, in_threads(write))) == {1: 1, 0: THREADS - 1}
    assert positions(recorder, "demo") == [1, 2, 3]


def test_many_threads_may_begin_one_conversation_and_each_its_own(
    recorder: LogRecorder, other: LogRecorder
) -> None:
    def write(number: int) -> list[int]:
        store = (recorder, other)[number % 2]
        return [*put(store, Stream("demo"), "a"), *put(store, Stream(f"talk {number}"), "a")]

    found = in_threads(write)
    assert sorted(first for first, _ in found) == [*range(2, 2 + THREADS)]
    assert {own for _, own in found} == {2}
    assert len(recorder.moment(0, 0).conversations) == THREADS + 1


def test_many_threads_may_write_in_every_way_at_once(recorder: LogRecorder, other: LogRecorder) -> None:
    demo = Stream("demo")
    put(recorder, demo, "a")
    key, head = key_of(recorder, demo), recorder.head(demo)

    def write(number: int) -> list[int]:
        store, stream = (recorder, other)[number % 2], Stream("demo", key)
        match number % 4:
            case 0:
                return put(store, stream, str(number))
            case 1:
                return [len(store.conversations.fork(stream, head, None, [item("forked")]).name)]
            case 2:
                shares = [Share(Stream(f"{number} {part}"), [item("x")], 0) for part in "ba"]
                return [store.insert_batch(shares, []).count(Written(2, []))]
            case _:
                event = StoredEvent(f"library {number}", 1, "odd@1", b"{}")
                store.insert_events([event])
                store.conversations.archive(key, number)
                return []

    found = in_threads(write)
    assert sorted(position for each in found[::4] for position in each) == [*range(3, 3 + THREADS // 4)]
    assert all(each == [2] for each in found[2::4])
    assert chain_holds(recorder, demo) == 2 + THREADS // 4
    assert len({row.name for row in recorder.committed(0, limit=500)}) == 1 + THREADS
    with recorder.inspect() as inspection:
        numbers = [change.number for change in inspection.history() if isinstance(change, Change)]
    assert numbers == [*range(1, len(numbers) + 1)]


@pytest.mark.parametrize("size", [5 * MEGABYTE, pytest.param(60 * MEGABYTE, marks=pytest.mark.slow)])
def test_a_long_entry_is_written_and_read_like_any_other(
    recorder: LogRecorder, other: LogRecorder, size: int
) -> None:
    payload = (b"\0\xff" * (size // 2))[:size]
    (record,) = recorder.append([entry(payload)], Stream("demo"), None)
    recorder.insert_events([StoredEvent("demo", 3, "odd@1", payload)])

    assert other.record_by_id(Stream("demo"), "m-1") == record
    assert [event.state == payload for event in other.select_events("demo")] == [False, True, True]
    assert chain_holds(other, Stream("demo")) == 3
    rows = other.committed(0, limit=2)
    assert rows[-1].payload == payload
    assert len(other.committed(rows[-1].notification)) == 1


def test_an_append_of_long_entries_is_written_whole(recorder: LogRecorder) -> None:
    entries = [entry(bytes([number]) * MEGABYTE, f"m-{number}") for number in range(5)]
    recorder.append(entries, Stream("demo"), None)

    assert chain_holds(recorder, Stream("demo")) == 6
    found = recorder.select_events("demo", gt=1)
    assert [event.state[:1] for event in found] == [bytes([number]) for number in range(5)]


def test_pages_end_after_some_hundred_entries_or_some_megabytes(recorder: LogRecorder) -> None:
    recorder.append([entry(b"x", f"m-{number}") for number in range(700)], Stream("many"), None)
    long = b"x" * (MEGABYTE // 10)
    recorder.append([entry(long, f"m-{number}") for number in range(150)], Stream("long"), None)

    for name, count, most in (("many", 701, 700), ("long", 151, 150)):
        stream, found, pages = Stream(name), list[int](), 0
        while rows := recorder.select_events(stream, gt=len(found), page=True).rows:
            assert len(rows) <= most
            found += [row[0] for row in rows]
            pages += 1
        assert found == [*range(1, count + 1)]
        assert pages > 1
        assert chain_holds(recorder, stream) == count


def test_an_append_of_a_thousand_entries_is_one_transaction(
    recorder: LogRecorder, other: LogRecorder
) -> None:
    several = [item(str(number), f"m-{number}") for number in range(1000)]
    assert [record.position for record in recorder.append(several, Stream("demo"), None)] == [*range(2, 1002)]
    again = other.append(several, Stream("demo"), None)

    assert [record.position for record in again] == [*range(2, 1002)]
    assert recorder.stretch(Stream("demo"), 0, LAST) == (1001, recorder.head(Stream("demo")))


def test_a_deep_line_of_forks_is_read_whole(recorder: LogRecorder) -> None:
    stream = Stream("demo")
    put(recorder, stream, "a")
    for depth in range(60):
        stream = fork(recorder, stream, 2 + depth, f"fork {depth}")

    assert positions(recorder, stream.name) == [*range(1, 63)]
    assert chain_holds(recorder, stream) == 62
    assert len(recorder.lineage(Stream(stream.name))) == 61
    assert (
        len(recorder.erasure.conversations_with(Stream("demo", recorder.conversations.find("demo")), 2)) == 61
    )
