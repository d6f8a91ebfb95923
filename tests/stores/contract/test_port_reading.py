"""What a store promises of reading, of forks, and of following the log."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from eventsourcing.persistence import StoredEvent

from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import START, Cursor, Segment, Stream
from stenolog.domain.errors import ConversationExistsError, ConversationNotFoundError

from .given import fork, item, positions, put


@pytest.fixture
def forked(recorder: LogRecorder) -> tuple[Stream, Stream, Stream]:
    """Return a conversation of five entries, a fork of it at 3, and a fork of that at 4; each goes on."""
    demo = Stream("demo")
    put(recorder, demo, "a", "b")
    child = fork(recorder, demo, 3, "child")
    put(recorder, child, "c")
    grandchild = fork(recorder, child, 4, "grandchild")
    put(recorder, demo, "later", "and later")
    return demo, child, grandchild


def test_a_fork_is_read_whole(recorder: LogRecorder, forked: tuple[Stream, Stream, Stream]) -> None:
    demo, child, grandchild = forked
    inherited = recorder.select_records(demo, 0, 3)

    assert recorder.select_records(child, 0, 9) == inherited
    assert positions(recorder, "child") == [1, 2, 3, 4, 5]
    assert positions(recorder, grandchild) == [1, 2, 3, 4, 5]
    assert [row[1] for row in recorder.select_events("grandchild").rows[:3]] == [r.id for r in inherited]
    assert {event.originator_id for event in recorder.select_events(grandchild)} == {"grandchild"}
    assert recorder.digest_at(grandchild, 2) == inherited[1].digest
    assert recorder.digest_at(grandchild, 6) is None


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"gt": 2}, [3, 4, 5]),
        ({"gt": 1, "lte": 4}, [2, 3, 4]),
        ({"lte": 2}, [1, 2]),
        ({"desc": True}, [5, 4, 3, 2, 1]),
        ({"desc": True, "limit": 3}, [5, 4, 3]),
        ({"limit": 4}, [1, 2, 3, 4]),
        ({"gt": 5}, []),
        ({"gt": 4, "lte": 2}, []),
        ({"gt": 2, "desc": True, "limit": 2}, [5, 4]),
    ],
)
def test_events_are_selected_by_ranges_across_forks(
    recorder: LogRecorder, forked: object, asked: dict[str, Any], expected: list[int]
) -> None:
    found = recorder.select_events("grandchild", **asked)

    assert [event.originator_version for event in found] == expected


def test_pages_give_the_same_one_after_another(
    recorder: LogRecorder, forked: tuple[Stream, Stream, Stream]
) -> None:
    (*_, grandchild), found = forked, list[int]()
    while rows := recorder.select_events(grandchild, gt=len(found), page=True).rows:
        found += [row[0] for row in rows]

    assert found == [1, 2, 3, 4, 5]
    assert recorder.stretch(grandchild, 0, 9) == (3, (3, recorder.digest_at(grandchild, 3)))


@pytest.mark.parametrize("page", [False, True])
def test_of_some_topics_no_other_known_one_is_read_but_what_nobody_knows_is(
    recorder: LogRecorder, page: bool
) -> None:
    for version, topic in enumerate(["mode_switch@1", "user_message@1", "odd@7", "user_message@1"], 1):
        recorder.insert_events([StoredEvent("demo", version, topic, b"{}")])
    found = recorder.select_events("demo", topics=["user_message@1"], page=page)

    assert [event.originator_version for event in found] == [2, 3, 4]


def test_lineage_says_which_stream_holds_which_positions(
    recorder: LogRecorder, forked: tuple[Stream, Stream, Stream]
) -> None:
    demo, child, grandchild = (stream.key for stream in forked)
    assert demo
    assert child
    assert grandchild

    assert recorder.lineage(Stream("grandchild"), 9) == (
        Segment(demo, 0, 3),
        Segment(child, 3, 4),
        Segment(grandchild, 4, 9),
    )
    assert recorder.lineage(Stream("grandchild"), 2)[-1] == Segment(grandchild, 2, 2)
    assert recorder.lineage(Stream("nobody")) == ()
    assert recorder.erasure.conversations_with(forked[0], 2) == {
        demo: "demo",
        child: "child",
        grandchild: "grandchild",
    }
    assert recorder.erasure.conversations_with(forked[0], 4) == {demo: "demo"}


def test_a_fork_gets_the_first_free_name_or_the_one_it_is_given(recorder: LogRecorder) -> None:
    demo = Stream("demo")
    put(recorder, demo, "a")
    assert [fork(recorder, demo, 2).name for _ in range(2)] == ["demo~1", "demo~2"]
    with pytest.raises(ConversationExistsError):
        fork(recorder, demo, 2, "demo~1")
    assert demo.key is not None
    with pytest.raises(ConversationExistsError, match="forks of it exist"):
        recorder.conversations.delete(demo.key, "demo")
    put(recorder, Stream("gone"), "a")
    gone = Stream("gone", recorder.conversations.find("gone"))
    assert gone.key is not None
    head = recorder.head(gone)
    recorder.conversations.delete(gone.key, "gone")
    with pytest.raises(ConversationNotFoundError):
        recorder.conversations.fork(gone, head, None, [item("forked")])


def test_an_entry_is_found_by_its_id_the_conversations_own_first(recorder: LogRecorder) -> None:
    demo = Stream("demo")
    recorder.append([item("a", "m-1"), item("b", "m-2")], demo, None)
    child = fork(recorder, demo, 2, "child")
    recorder.append([item("mine", "m-1")], child, None)
    found = recorder.record_by_id(child, "m-1")

    assert found is not None
    assert found.position == 4
    assert recorder.record_by_id(child, "m-2") is None  # behind the fork
    assert recorder.record_by_id(demo, "m-2") is not None


def test_a_name_that_nobody_has_begun_has_nothing(recorder: LogRecorder) -> None:
    nobody = Stream("nobody")

    assert (recorder.resolve(nobody), recorder.conversations.find("nobody")) == (None, None)
    assert recorder.head(nobody) == START
    assert recorder.select_events("nobody") == []
    assert recorder.max_notification_id() is None
    assert recorder.last_committed() == (0, b"")


def test_followers_meet_each_entry_once_in_the_order_of_commits(
    recorder: LogRecorder, other: LogRecorder
) -> None:
    one, two = Stream("one"), Stream("two")
    put(recorder, one, "a")
    put(other, two, "b")
    put(recorder, one, "c")
    rows = recorder.committed(0)

    assert [(row.name, row.position) for row in rows] == [
        ("one", 1),
        ("one", 2),
        ("two", 1),
        ("two", 2),
        ("one", 3),
    ]
    ids = [row.notification for row in rows]
    assert ids == sorted(ids) == [found.id for found in recorder.select_notifications(None, 9)]
    assert recorder.committed(ids[2]) == rows[3:]
    assert recorder.committed(0, limit=2) == rows[:2]
    assert recorder.committed(1, key=one.key) == [rows[1], rows[4]]
    assert [row.position for row in recorder.committed_at([ids[4], ids[0]])] == [1, 3]
    assert recorder.last_committed() == (ids[4], rows[4].digest)
    moment = recorder.moment(ids[2], 1)
    assert [each.name for each in moment.conversations] == ["one", "two"]
    assert (moment.newest, moment.digest, moment.entries) == (ids[4], rows[2].digest, rows[3:4])


def test_a_subscription_gives_what_stands_there_and_what_comes(
    recorder: LogRecorder, other: LogRecorder
) -> None:
    put(recorder, Stream("demo"), "a")
    with recorder.subscribe(gt=0) as subscription:
        assert [next(subscription).originator_version for _ in range(2)] == [1, 2]
        put(other, Stream("demo"), "b")
        assert next(subscription).originator_version == 3


@pytest.mark.parametrize("by_whom", ["itself", "another"])
def test_whoever_listens_is_told_of_a_commit_by_anybody(
    recorder: LogRecorder, other: LogRecorder, by_whom: str
) -> None:
    put(recorder, Stream("demo"), "a")
    told, seen = threading.Event(), list[int]()

    def look() -> None:
        seen[:] = positions(recorder, "demo")
        if len(seen) == 3:
            told.set()

    listen: Callable[[], object] = look
    with recorder.listening(listen):
        put(recorder if by_whom == "itself" else other, Stream("demo"), "b")
        assert told.wait(20)


def test_cursors_stay_where_they_were_put(recorder: LogRecorder, other: LogRecorder) -> None:
    put(recorder, Stream("demo"), "a")
    assert recorder.load_cursor("mine") == Cursor()
    recorder.save_cursor("mine", Cursor(7, 2))
    recorder.save_cursor("mine", Cursor(3), 1)

    assert other.load_cursor("mine") == Cursor(7, 2)
    assert other.load_cursor("mine", 1) == Cursor(3)
    assert recorder.max_tracking_id("mine") is None  # the library's names are their own
