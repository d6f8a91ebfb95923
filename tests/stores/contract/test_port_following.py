"""What a store promises to whoever follows the log: one order for all, without gaps, and who is woken."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import LAST, CommittedRow, Cursor, Segment, Share, Stream

from .given import fork, item, key_of, positions, put

PATIENCE = 20.0
"""Seconds after which what should come at once is given up."""


@pytest.fixture
def rows(recorder: LogRecorder) -> list[CommittedRow]:
    """Return five entries of two conversations, as a follower meets them."""
    one, two = Stream("one"), Stream("two")
    put(recorder, one, "a")
    put(recorder, two, "b")
    put(recorder, one, "c")
    return recorder.committed(0)


@pytest.mark.parametrize("limit", [1, 2, 3, 64])
def test_followers_that_ask_for_some_at_a_time_meet_all(
    recorder: LogRecorder, rows: list[CommittedRow], limit: int
) -> None:
    met: list[CommittedRow] = []
    while some := recorder.committed(met[-1].notification if met else 0, limit=limit):
        assert len(some) <= limit
        met += some

    assert met == rows
    assert [(row.name, row.position) for row in met] == [
        ("one", 1),
        ("one", 2),
        ("two", 1),
        ("two", 2),
        ("one", 3),
    ]
    assert [row.notification for row in met] == sorted({row.notification for row in met})


@pytest.mark.parametrize(
    ("number", "upto"), [(0, 1), (1, 2), (0, 4), (4, 4)], ids=["first", "second", "all", "none"]
)
def test_commits_are_bounded_on_both_sides(
    recorder: LogRecorder, rows: list[CommittedRow], number: int, upto: int
) -> None:
    ids = [row.notification for row in rows]
    found = recorder.committed(ids[number], upto=ids[upto])

    assert found == rows[number + 1 : upto + 1]
    assert recorder.last_committed(ids[upto]) == (ids[upto], rows[upto].digest)
    assert recorder.last_committed(ids[upto] - 1)[0] == (ids[upto - 1] if upto else 0)


def test_the_last_commit_is_that_of_the_whole_log_and_none_before_the_first(
    recorder: LogRecorder, rows: list[CommittedRow]
) -> None:
    first, last = rows[0], rows[-1]

    assert recorder.last_committed() == (last.notification, last.digest)
    assert recorder.max_notification_id() == last.notification
    assert recorder.last_committed(first.notification - 1) == (0, b"")
    assert recorder.committed(last.notification) == []
    assert first.notification > 0


def test_of_one_conversation_commits_are_asked_for_by_positions(
    recorder: LogRecorder, rows: list[CommittedRow]
) -> None:
    key = key_of(recorder, Stream("one"))
    own = [row for row in rows if row.name == "one"]

    assert recorder.committed(0, key=key) == own
    assert recorder.committed(2, key=key) == own[2:]
    assert recorder.committed(0, key=key, limit=1) == own[:1]
    assert recorder.committed(0, key=key, upto=rows[1].notification) == own[:2]
    assert recorder.committed(0, key=10**9) == []


def test_of_a_fork_a_follower_meets_its_own_entries_alone(recorder: LogRecorder) -> None:
    demo = Stream("demo")
    put(recorder, demo, "a", "b")
    child = fork(recorder, demo, 2, "child")
    put(recorder, child, "c")

    assert [row.position for row in recorder.committed(0, key=key_of(recorder, child))] == [3, 4]
    assert [(row.name, row.position) for row in recorder.committed(0)][3:] == [("child", 3), ("child", 4)]


def test_entries_are_asked_for_by_their_ids_where_they_exist(
    recorder: LogRecorder, rows: list[CommittedRow]
) -> None:
    ids = [row.notification for row in rows]

    assert sorted(recorder.committed_at([ids[3], ids[1], LAST, 0])) == [rows[1], rows[3]]
    assert recorder.committed_at([]) == []


def test_a_moment_has_every_conversation_and_the_commits_behind_an_id(
    recorder: LogRecorder, rows: list[CommittedRow]
) -> None:
    one, two = (key_of(recorder, Stream(name)) for name in ("one", "two"))
    child = fork(recorder, Stream("one", one), 2, "child")
    recorder.conversations.archive(two, 1)
    ids = [row.notification for row in rows]
    moment = recorder.moment(ids[1], 2)

    assert [(each.key, each.name, each.parent, each.fork_position) for each in moment.conversations] == [
        (one, "one", None, None),
        (two, "two", None, None),
        (child.key, "child", one, 2),
    ]
    assert moment.newest == recorder.max_notification_id()
    assert (moment.digest, moment.entries) == (rows[1].digest, rows[2:4])
    assert recorder.moment(0, 0) == moment._replace(digest=None, entries=[])


def test_a_moment_of_an_empty_log_has_nothing(recorder: LogRecorder) -> None:
    assert recorder.moment(0, 9) == ([], 0, None, [])
    assert recorder.last_committed() == (0, b"")
    assert recorder.committed(0) == []


@pytest.mark.parametrize(
    ("after", "upto", "first", "last"),
    [(0, 3, 0, 4), (0, 2, 0, 1), (1, 2, 1, 1), (2, LAST, 4, 4), (0, 1, 0, 0)],
)
def test_the_bounds_of_a_segment_are_the_ids_of_its_first_and_last_entry(
    recorder: LogRecorder, rows: list[CommittedRow], after: int, upto: int, first: int, last: int
) -> None:
    key, ids = key_of(recorder, Stream("one")), [row.notification for row in rows]

    assert recorder.notification_bounds(Segment(key, after, upto)) == (ids[first], ids[last])


def test_a_stream_without_entries_has_no_bounds(recorder: LogRecorder) -> None:
    assert recorder.notification_bounds(Segment(10**9, 0, LAST)) == (0, 0)


def test_ids_of_a_deleted_conversation_come_back_for_no_other_entry(
    recorder: LogRecorder, rows: list[CommittedRow]
) -> None:
    recorder.conversations.delete(key_of(recorder, Stream("one")), "one")
    put(recorder, Stream("three"), "d")
    new = [row for row in recorder.committed(0) if row.name == "three"]

    assert min(row.notification for row in new) > rows[-1].notification
    assert recorder.committed_at([rows[0].notification]) == []
    assert [row.name for row in recorder.committed(0)] == ["two", "two", "three", "three"]


def test_a_follower_meets_every_entry_of_many_writers_once_and_in_order(
    recorder: LogRecorder, other: LogRecorder
) -> None:
    writing, met = threading.Event(), list[CommittedRow]()

    def follow() -> None:
        # After the last write once more, for what came since the look before.
        done = False
        while not done:
            done = writing.is_set()
            while some := recorder.committed(met[-1].notification if met else 0, limit=7):
                met.extend(some)

    def write(number: int) -> None:
        store = (recorder, other)[number % 2]
        alone, shared = Stream(f"talk {number}"), Stream("shared")
        for turn in range(5):
            put(store, alone, "a", "b")
            put(store, shared, f"{number}")
            store.insert_batch(
                [Share(Stream(f"{number}.{turn}.{part}"), [item("x")], 0) for part in "ab"], []
            )

    follower = threading.Thread(target=follow)
    follower.start()
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(write, range(8)))
    finally:
        writing.set()
        follower.join(PATIENCE)

    by_name = defaultdict(list)
    for row in met:
        by_name[row.name].append(row.position)
    assert [row.notification for row in met] == sorted({row.notification for row in met})
    assert by_name["shared"] == [*range(1, 42)]
    assert all(by_name[f"talk {number}"] == [*range(1, 12)] for number in range(8))
    assert len(met) == 41 + 8 * 11 + 8 * 5 * 4
    assert met == recorder.committed(0, limit=1000)


@pytest.mark.parametrize("by_whom", ["itself", "another"])
@pytest.mark.parametrize("what", ["an append", "a batch", "a fork", "a later append"])
def test_whoever_listens_is_woken_by_each_way_of_writing(
    recorder: LogRecorder, other: LogRecorder, by_whom: str, what: str
) -> None:
    put(recorder, Stream("demo"), "a")
    store = recorder if by_whom == "itself" else other
    demo, last = Stream("demo"), recorder.max_notification_id() or 0
    ways: dict[str, Callable[[], object]] = {
        "an append": lambda: put(store, demo, "b"),
        "a batch": lambda: store.insert_batch([Share(Stream("new"), [item("b")], 0)], []),
        "a fork": lambda: fork(store, Stream("demo", store.conversations.find("demo")), 2),
        "a later append": lambda: store.insert_later([item("b")], lambda: None, stream=demo),
    }
    told = threading.Event()

    def look() -> None:
        if recorder.committed(last):
            told.set()

    with recorder.listening(look):
        ways[what]()
        assert told.wait(PATIENCE)


def test_several_may_listen_and_who_has_ended_is_not_called(recorder: LogRecorder) -> None:
    calls = [threading.Event() for _ in range(3)]
    with recorder.listening(calls[0].set), recorder.listening(calls[1].set):
        with recorder.listening(calls[2].set):
            pass
        calls[2].clear()
        put(recorder, Stream("demo"), "a")
        assert all(call.wait(PATIENCE) for call in calls[:2])
        time.sleep(0.1)
    assert not calls[2].is_set()


def test_a_cursor_is_one_followers_in_one_conversation(recorder: LogRecorder, other: LogRecorder) -> None:
    put(recorder, Stream("demo"), "a")
    key = key_of(recorder, Stream("demo"))
    for name, to, of in (("a", Cursor(5, 1), key), ("a", Cursor(9), 0), ("A", Cursor(2), key)):
        recorder.save_cursor(name, to, of)
    recorder.save_cursor("a", Cursor(4, 3), key)

    assert other.load_cursor("a", key) == Cursor(4, 3)  # it may go back
    assert (other.load_cursor("a"), other.load_cursor("A", key)) == (Cursor(9), Cursor(2))
    assert other.load_cursor("a", 10**9) == Cursor()
    assert recorder.max_tracking_id("a") is None  # the library's names are their own


def test_ids_and_positions_are_as_large_as_a_follower_may_need(recorder: LogRecorder) -> None:
    put(recorder, Stream("demo"), "a")
    recorder.save_cursor("far", Cursor(LAST, 2**31 + 5))

    assert recorder.load_cursor("far") == Cursor(LAST, 2**31 + 5)
    assert recorder.committed(LAST) == []
    assert [*recorder.select_events("demo", gt=0, lte=LAST)] == [*recorder.select_events("demo")]
    assert positions(recorder, "demo") == [1, 2]
