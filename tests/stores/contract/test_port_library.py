"""What a store promises of appends and readings in the notation of the eventsourcing library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from eventsourcing.persistence import IntegrityError, StoredEvent, Tracking

from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import Stream
from stenolog.domain.entry import GENESIS, digest_of
from stenolog.domain.errors import InvalidEventError

from .given import item, key_of, positions, put

TOPIC = "user_message@1"


def event(name: str, version: int, topic: str = TOPIC) -> StoredEvent:
    return StoredEvent(name, version, topic, b"{}")


def ids(recorder: LogRecorder) -> list[int]:
    return [found.id for found in recorder.select_notifications(None, 99)]


def read(recorder: LogRecorder, *args: Any, **asked: Any) -> list[tuple[str, int]]:
    found = recorder.select_notifications(*args, **asked)
    return [(str(each.originator_id), each.originator_version) for each in found]


def test_tracking_is_recorded_with_the_events_or_neither_is(
    recorder: LogRecorder, other: LogRecorder
) -> None:
    event = StoredEvent("a", 1, "user_message@1", b"{}")
    recorder.insert_events([event], tracking=Tracking("upstream", 7))

    with pytest.raises(IntegrityError):
        recorder.insert_events([StoredEvent("b", 1, "t", b"")], tracking=Tracking("upstream", 7))
    assert other.max_tracking_id("upstream") == 7
    assert [*recorder.select_events("b")] == []
    other.insert_tracking(Tracking("upstream", 9))
    assert recorder.max_tracking_id("upstream") == 9


@pytest.mark.parametrize(
    "wrong",
    [
        [event("a", 2)],
        [event("a", 4)],
        [event("a", 0)],
        [event("a", -1)],
        [event("c", 2)],
        [event("a", 3), event("a", 5)],
        [event("a", 3), event("a", 3)],
        [event("c", 1), event("c", 1)],
    ],
    ids=[
        "taken",
        "a gap",
        "zero",
        "below zero",
        "a gap before the first",
        "a gap inside",
        "twice",
        "twice new",
    ],
)
def test_versions_that_do_not_follow_are_the_librarys_integrity_error_and_nothing_is_written(
    recorder: LogRecorder, wrong: Sequence[StoredEvent]
) -> None:
    recorder.insert_events([event("a", 1), event("a", 2)])
    before = ids(recorder)

    with pytest.raises(IntegrityError):
        recorder.insert_events([event("b", 1), *wrong], tracking=Tracking("upstream", 1))
    assert ids(recorder) == before
    assert recorder.conversations.find("b") is recorder.conversations.find("c") is None
    assert recorder.max_tracking_id("upstream") is None


def test_events_of_several_conversations_get_ids_in_the_order_in_which_they_are_given(
    recorder: LogRecorder,
) -> None:
    events = [event("b", 1), event("a", 1), event("b", 2), event("c", 1), event("a", 2)]
    given = recorder.insert_events(events)

    assert given is not None
    assert [*given] == sorted(given) == ids(recorder)
    assert read(recorder, None, 9) == [("b", 1), ("a", 1), ("b", 2), ("c", 1), ("a", 2)]


def test_a_conversation_of_the_librarys_begins_with_the_event_it_is_given_and_is_sealed(
    recorder: LogRecorder,
) -> None:
    recorder.insert_events([event("a", 1, "odd@1"), event("a", 2)])
    first, second = recorder.select_records(Stream("a"), 0, 9)

    assert first.topic == "odd@1"
    assert (first.digest, second.digest) == (digest_of(GENESIS, first), digest_of(first.digest, second))
    assert first.id != second.id
    assert len(first.salt) == 16


def test_both_notations_continue_each_other(recorder: LogRecorder, other: LogRecorder) -> None:
    mine = Stream("demo")
    put(recorder, mine, "a")
    other.insert_events([event("demo", 3)])

    assert put(recorder, mine, "b") == [4]
    with pytest.raises(IntegrityError):
        other.insert_events([event("demo", 4)])
    other.insert_events([event("demo", 5)])
    assert positions(recorder, mine) == [1, 2, 3, 4, 5]


def test_an_id_of_an_aggregate_may_be_a_uuid_whose_text_is_the_name(recorder: LogRecorder) -> None:
    id = UUID(int=7)
    recorder.insert_events([StoredEvent(id, 1, TOPIC, b"{}")])

    assert recorder.conversations.find(str(id)) is not None
    assert [each.originator_version for each in recorder.select_events(id)] == [1]


def test_a_fork_is_appended_to_at_the_version_behind_all_that_it_inherits(recorder: LogRecorder) -> None:
    demo = Stream("demo")
    put(recorder, demo, "a", "b")
    recorder.conversations.fork(demo, recorder.head(demo), "child", [item("forked")])

    with pytest.raises(IntegrityError):
        recorder.insert_events([event("child", 2)])
    recorder.insert_events([event("child", 5)])
    assert positions(recorder, "child") == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("first", "second"), [(7, 7), (7, 6), (7, 1)], ids=["the same", "the one before", "much earlier"]
)
def test_a_notification_is_processed_once(
    recorder: LogRecorder, other: LogRecorder, first: int, second: int
) -> None:
    recorder.insert_tracking(Tracking("upstream", first))

    with pytest.raises(IntegrityError):
        other.insert_tracking(Tracking("upstream", second))
    with pytest.raises(IntegrityError):
        other.insert_events([event("a", 1)], tracking=Tracking("upstream", second))
    assert recorder.max_tracking_id("upstream") == first
    assert recorder.conversations.find("a") is None
    other.insert_tracking(Tracking("downstream", second))
    assert recorder.max_tracking_id("downstream") == second


def test_whether_a_notification_was_processed_is_known_up_to_the_newest(recorder: LogRecorder) -> None:
    recorder.insert_tracking(Tracking("upstream", 7))

    assert recorder.has_tracking_id("upstream", 7)
    assert recorder.has_tracking_id("upstream", 3)
    assert not recorder.has_tracking_id("upstream", 8)
    assert not recorder.has_tracking_id("nobody", 1)
    assert recorder.max_tracking_id("nobody") is None


def test_tracking_without_events_is_recorded_by_an_append_of_none(recorder: LogRecorder) -> None:
    assert recorder.insert_events([], tracking=Tracking("upstream", 7)) == []
    assert recorder.max_tracking_id("upstream") == 7


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"start": None, "limit": 9}, [0, 1, 2, 3]),
        ({"start": 0, "limit": 9}, [0, 1, 2, 3]),
        ({"start": 1, "limit": 9}, [1, 2, 3]),
        ({"start": 1, "limit": 9, "inclusive_of_start": False}, [2, 3]),
        ({"start": 1, "limit": 1}, [1]),
        ({"start": 0, "limit": 9, "stop": 2}, [0, 1, 2]),
        ({"start": 2, "limit": 9, "stop": 2}, [2]),
        ({"start": 2, "limit": 9, "stop": 1}, []),
        ({"start": None, "limit": 9, "topics": ["odd@1"]}, [1, 3]),
        ({"start": None, "limit": 1, "topics": ["odd@1"]}, [1]),
        ({"start": None, "limit": 9, "topics": ["no@1"]}, []),
        ({"start": 3, "limit": 9, "inclusive_of_start": False}, []),
    ],
    ids=str,
)
def test_notifications_are_selected_by_ids_and_topics(
    recorder: LogRecorder, asked: dict[str, Any], expected: list[int]
) -> None:
    recorder.insert_events([event("a", 1), event("a", 2, "odd@1"), event("b", 1), event("b", 2, "odd@1")])
    given = ids(recorder)
    # The numbers in the table stand for ids, which are the store's own.
    asked = {key: given[value] if key in ("start", "stop") and value is not None else value
             for key, value in asked.items()}  # fmt: skip

    assert [each.id for each in recorder.select_notifications(**asked)] == [given[n] for n in expected]
    assert recorder.max_notification_id() == given[-1]


def test_notifications_have_the_name_of_today_and_of_an_erased_entry_nothing(recorder: LogRecorder) -> None:
    demo = Stream("demo")
    put(recorder, demo, "a")
    key = key_of(recorder, demo)
    recorder.conversations.rename(key, "new")
    recorder.erasure.erase(Stream("new", key), [2], {key: "new"}, {key: (2, [item("erased")])})
    _, erased, _ = recorder.select_notifications(None, 9)

    assert read(recorder, None, 9) == [("new", 1), ("new", 2), ("new", 3)]
    assert (erased.topic, erased.state) == ("erased", b"")
    assert recorder.select_notifications(None, 9, topics=[TOPIC])[0].id != 0


@pytest.mark.parametrize("odd", ["a\0b", "\ud800"], ids=["a NUL", "a lone surrogate"])
def test_a_name_or_topic_that_not_every_database_can_keep_is_refused(recorder: LogRecorder, odd: str) -> None:
    for wrong in (StoredEvent(odd, 1, TOPIC, b"{}"), StoredEvent("a", 1, odd, b"{}")):
        with pytest.raises(InvalidEventError):
            recorder.insert_events([wrong])
    assert positions(recorder, odd) == []
    assert recorder.max_notification_id() is None


@pytest.mark.parametrize("page", [False, True])
def test_of_some_topics_no_other_known_one_is_read_but_what_nobody_knows_is(
    recorder: LogRecorder, page: bool
) -> None:
    topics = ["mode_switch@1", TOPIC, "odd@7", TOPIC]
    recorder.insert_events([event("demo", version, topic) for version, topic in enumerate(topics, 1)])
    found = recorder.select_events("demo", topics=[TOPIC], page=page)

    assert [each.originator_version for each in found] == [2, 3, 4]


def test_a_subscription_gives_some_topics_behind_an_id(recorder: LogRecorder, other: LogRecorder) -> None:
    recorder.insert_events([event("a", 1, "odd@1"), event("a", 2), event("a", 3, "odd@1")])
    first = ids(recorder)[0]
    with recorder.subscribe(gt=first, topics=["odd@1"]) as subscription:
        assert next(subscription).originator_version == 3
        other.insert_events([event("b", 1), event("b", 2, "odd@1")])
        found = next(subscription)
        assert (found.originator_id, found.originator_version) == ("b", 2)
