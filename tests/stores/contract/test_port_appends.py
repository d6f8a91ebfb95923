"""What a store promises of appends."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from eventsourcing.persistence import IntegrityError, StoredEvent, Tracking

from stenolog.adapters.store.recorder import LogRecorder
from stenolog.adapters.store.store_values import Inserted, Share, Stream, Written
from stenolog.domain.entry import GENESIS, digest_of
from stenolog.domain.errors import (
    ClaimLostError,
    DuplicateIdError,
    InvalidEventError,
    VersionConflictError,
)
from stenolog.domain.events import ModeSwitch

from .conftest import claim, item, positions, put


def test_a_conversation_begins_with_a_mode_switch_that_nobody_need_give(recorder: LogRecorder) -> None:
    assert put(recorder, Stream("demo"), "a") == [2]
    (opening, _) = recorder.select_events("demo")

    assert (opening.originator_version, opening.topic) == (1, "mode_switch@1")


def test_an_append_answers_with_the_notification_ids_of_its_entries(recorder: LogRecorder) -> None:
    stream = Stream("demo")
    put(recorder, stream, "a")
    inserted = recorder.insert_events([item("b"), item("c")], stream=stream)

    assert isinstance(inserted, Inserted)
    assert [*inserted] == [found.id for found in recorder.select_notifications(None, 9)][2:]
    assert [record.position for record in inserted.records] == [3, 4]


def test_every_entry_is_sealed_behind_the_one_before_it(recorder: LogRecorder) -> None:
    stream = Stream("demo")
    put(recorder, stream, "a", "b")
    put(recorder, stream, "c")
    before = GENESIS
    for record in recorder.select_records(stream, 0, 9):
        assert record.digest == digest_of(before, record)
        before = record.digest

    assert recorder.head(stream) == (4, before)


def test_what_commutes_goes_behind_the_last_entry_wherever_that_is(
    recorder: LogRecorder, other: LogRecorder
) -> None:
    mine, theirs = Stream("demo"), Stream("demo")
    put(recorder, mine, "a")

    assert put(other, theirs, "b") == [3]
    assert put(recorder, mine, "c") == [4]


@pytest.mark.parametrize("expected", [0, 1, 3, 99])
def test_who_expects_another_position_is_refused_and_nothing_is_written(
    recorder: LogRecorder, expected: int
) -> None:
    put(recorder, Stream("demo"), "a")

    with pytest.raises(VersionConflictError) as refused:
        put(recorder, Stream("demo"), "b", expected=expected)
    assert (refused.value.expected, refused.value.found) == (expected, 2)
    assert positions(recorder, "demo") == [1, 2]


def test_a_mode_switch_is_appended_at_an_expected_position_alone(recorder: LogRecorder) -> None:
    stream = Stream("demo")
    put(recorder, stream, "a")

    with pytest.raises(InvalidEventError, match="mode switch"):
        recorder.append([item(ModeSwitch(mode="agent"))], stream, None)
    (record,) = recorder.append([item(ModeSwitch(mode="agent"))], stream, 2)
    assert record.position == 3


def test_the_same_id_with_the_same_words_is_the_entry_that_stands_there(
    recorder: LogRecorder, other: LogRecorder
) -> None:
    (first,) = recorder.append([item("a", "m-1")], Stream("demo"), None)
    put(recorder, Stream("demo"), "b")

    assert other.append([item("a", "m-1")], Stream("demo"), 1) == [first]
    assert positions(recorder, "demo") == [1, 2, 3]
    with pytest.raises(DuplicateIdError, match="m-1"):
        other.append([item("c"), item("other words", "m-1")], Stream("demo"), None)
    assert positions(recorder, "demo") == [1, 2, 3]


def test_of_many_writers_none_is_lost_and_no_position_is_taken_twice(
    recorder: LogRecorder, other: LogRecorder
) -> None:
    def write(number: int) -> list[int]:
        return put((recorder, other)[number % 2], Stream("demo"), str(number), f"{number} again")

    with ThreadPoolExecutor(8) as pool:
        found = [position for pair in pool.map(write, range(40)) for position in pair]
    assert sorted(found) == [*range(2, 82)]
    assert positions(recorder, "demo") == [*range(1, 82)]


def test_an_append_that_another_thread_makes_wakes_whoever_waits(recorder: LogRecorder) -> None:
    woken, stream = threading.Event(), Stream("demo")
    waiting = [recorder.insert_later([item(text)], woken.set, stream=stream) for text in "abc"]
    refused = recorder.insert_later([item("d")], woken.set, stream=Stream("demo"), expected=99)
    while not (refused.done and all(each.done for each in waiting)):
        assert woken.wait(20)
        woken.clear()

    assert [each.result()[-1].position for each in waiting] == [2, 3, 4]
    with pytest.raises(VersionConflictError):
        refused.result()


def test_a_claim_goes_with_the_append_that_settles_it_and_a_lost_one_appends_nothing(
    recorder: LogRecorder, other: LogRecorder
) -> None:
    stream = Stream("demo")
    put(recorder, stream, "a")
    (taken,) = recorder.take_claims(stream, [claim()], 2)
    assert taken is not None
    theirs = other.take_over_claim(stream, taken, "two")
    assert theirs is not None

    with pytest.raises(ClaimLostError):
        recorder.append([item("b")], stream, None, taken.fence)
    assert positions(recorder, "demo") == [1, 2]
    other.append([item("b")], stream, None, theirs.fence)
    assert (positions(recorder, "demo"), recorder.claims(stream)) == ([1, 2, 3], [])


def test_the_librarys_appends_name_their_versions_and_are_all_written_or_none(recorder: LogRecorder) -> None:
    def event(name: str, version: int) -> StoredEvent:
        return StoredEvent(name, version, "user_message@1", b"{}")

    assert recorder.insert_events([event("a", 1), event("b", 1), event("a", 2)]) == [1, 2, 3]
    for wrong in (event("a", 2), event("a", 4), event("c", 2)):
        with pytest.raises(IntegrityError):
            recorder.insert_events([event("b", 2), wrong])
    assert (positions(recorder, "a"), positions(recorder, "b")) == ([1, 2], [1])


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


def test_a_batch_is_one_transaction_that_leaves_out_what_is_refused(recorder: LogRecorder) -> None:
    demo, sha = Stream("demo"), "ab" * 32
    put(recorder, demo, "a")
    ends = recorder.insert_batch(
        [
            Share(demo, [item("b"), item("c")], 2, [("kept", 3)]),
            Share(Stream("demo"), [item("d")], 2),
            Share(Stream("new"), [item("e")], 0),
        ],
        [(sha, b"x")],
    )

    assert ends[0] == Written(4, ["kept"])
    assert isinstance(ends[1], VersionConflictError)
    assert ends[2] == Written(2, [])
    assert positions(recorder, "kept") == [1, 2, 3, 4]
    assert recorder.blob_shas() == [sha]
    again = recorder.insert_batch([Share(demo, [item("f")], 4, [("kept", 3)])], [])
    assert again == [Written(5, [])]


def test_a_share_notes_its_conversation_under_its_marks_and_a_refused_one_does_not(
    recorder: LogRecorder,
) -> None:
    shares = [
        Share(Stream("a"), [item("a")], 0, (), ["one", "two"]),
        Share(Stream("b"), [item("b")], 7, (), ["three"]),
    ]
    recorder.insert_batch(shares, [])

    key = recorder.find("a")
    assert [recorder.load_cursor(mark).position for mark in ("one", "two", "three")] == [key, key, 0]
