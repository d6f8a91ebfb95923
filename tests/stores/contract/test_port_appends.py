"""What a store promises of appends."""

from __future__ import annotations

import threading

import pytest

from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import PendingEntry, Stream, Which
from stenolog.domain.errors import (
    CallerError,
    ClaimLostError,
    ConversationNotFoundError,
    DuplicateIdError,
    InvalidEventError,
    VersionConflictError,
)
from stenolog.domain.events import ModeSwitch

from .given import item, key_of, positions, put, taken


def test_a_conversation_begins_with_a_mode_switch_that_nobody_need_give(recorder: LogRecorder) -> None:
    assert put(recorder, Stream("demo"), "a") == [2]
    (opening, _) = recorder.select_events("demo")

    assert (opening.originator_version, opening.topic) == (1, "mode_switch@1")


def test_an_append_answers_with_the_records_of_its_entries(recorder: LogRecorder) -> None:
    stream = Stream("demo")
    put(recorder, stream, "a")
    records = recorder.append([item("b"), item("c")], stream, None)

    assert [record.position for record in records] == [3, 4]
    assert records == recorder.select_records(stream, 2, 4)


def test_an_append_of_nothing_settles_its_claim(recorder: LogRecorder) -> None:
    stream = Stream("demo")
    put(recorder, stream, "a")

    assert recorder.append([], stream, None, taken(recorder, stream).fence) == []
    assert recorder.claims.of(stream) == []


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


@pytest.mark.parametrize("expected", [None, 0])
def test_a_conversation_that_begins_with_a_mode_switch_gets_no_other(
    recorder: LogRecorder, expected: int | None
) -> None:
    switch = item(ModeSwitch(mode="agent"))

    records = recorder.append([switch, item("a")], Stream("demo"), expected)
    assert [(record.position, record.topic) for record in records] == [
        (1, "mode_switch@1"),
        (2, "user_message@1"),
    ]


def test_who_expects_a_conversation_that_is_not_there_is_refused_and_none_begins(
    recorder: LogRecorder,
) -> None:
    with pytest.raises(VersionConflictError) as refused:
        put(recorder, Stream("demo"), "a", expected=2)

    assert (refused.value.expected, refused.value.found) == (2, 0)
    assert recorder.conversations.find("demo") is None
    assert recorder.conversations.names(Which()) == []


@pytest.mark.parametrize("expected", [None, 0])
def test_an_append_of_nothing_begins_nothing(recorder: LogRecorder, expected: int | None) -> None:
    assert recorder.append([], Stream("demo"), expected) == []
    assert recorder.insert_events([]) == []
    assert recorder.conversations.find("demo") is None


@pytest.mark.parametrize("expected", [None, 2])
def test_of_an_append_that_was_written_in_part_the_rest_alone_is_written(
    recorder: LogRecorder, other: LogRecorder, expected: int | None
) -> None:
    (first,) = recorder.append([item("a", "m-1")], Stream("demo"), None)

    both = other.append([item("b", "m-2"), item("a", "m-1")], Stream("demo"), expected)
    assert [record.position for record in both] == [3, 2]
    assert both[1] == first
    assert other.append([item("a", "m-1"), item("b", "m-2")], Stream("demo"), 0) == both[::-1]
    assert positions(recorder, "demo") == [1, 2, 3]


def test_an_append_repeated_in_part_at_another_position_is_refused(recorder: LogRecorder) -> None:
    recorder.append([item("a", "m-1")], Stream("demo"), None)

    with pytest.raises(VersionConflictError):
        recorder.append([item("a", "m-1"), item("b", "m-2")], Stream("demo"), 1)
    assert positions(recorder, "demo") == [1, 2]


def test_one_id_twice_in_one_append_is_one_entry_where_the_words_are_the_same(recorder: LogRecorder) -> None:
    twice = recorder.append([item("a", "m-1"), item("a", "m-1")], Stream("demo"), None)

    assert twice[0] == twice[1]
    assert positions(recorder, "demo") == [1, 2]
    with pytest.raises(DuplicateIdError, match="m-2"):
        recorder.append([item("b", "m-2"), item("c", "m-2")], Stream("demo"), None)
    assert positions(recorder, "demo") == [1, 2]


@pytest.mark.parametrize("stands", [False, True], ids=["in one append", "in the log"])
def test_an_id_that_no_caller_chose_is_never_taken_for_a_repeated_append(
    recorder: LogRecorder, stands: bool
) -> None:
    drawn = [PendingEntry("user_message@1", b"{}", "e-1", 0, b"salt") for _ in range(2)]
    if stands:
        recorder.append([drawn.pop()], Stream("demo"), None)

    with pytest.raises(DuplicateIdError, match="e-1"):
        recorder.append(drawn, Stream("demo"), None)
    assert recorder.last_position(Stream("demo", recorder.conversations.find("demo"))) == (2 if stands else 0)


def test_ids_are_of_one_conversation_and_another_may_have_the_same(recorder: LogRecorder) -> None:
    (one,) = recorder.append([item("a", "m-1")], Stream("one"), None)
    (two,) = recorder.append([item("b", "m-1")], Stream("two"), None)

    assert (one.position, two.position) == (2, 2)
    assert recorder.record_by_id(Stream("two"), "m-1") == two


@pytest.mark.parametrize("known", [False, True], ids=["head unknown", "head known"])
def test_nothing_is_appended_to_a_conversation_that_was_deleted(
    recorder: LogRecorder, other: LogRecorder, known: bool
) -> None:
    mine = Stream("demo")
    put(recorder, mine, "a")
    stream = mine if known else Stream("demo", mine.key)
    assert mine.key is not None
    other.conversations.delete(mine.key, "demo")

    with pytest.raises(ConversationNotFoundError):
        put(recorder, stream, "b")
    assert recorder.conversations.find("demo") is None
    assert recorder.max_notification_id() is None


def test_an_append_follows_its_conversation_to_another_name_and_the_old_name_begins_anew(
    recorder: LogRecorder, other: LogRecorder
) -> None:
    mine = Stream("demo")
    put(recorder, mine, "a")
    other.conversations.rename(key_of(recorder, mine), "new")

    assert put(recorder, mine, "b") == [3]
    assert put(recorder, Stream("demo"), "c") == [2]
    assert (positions(other, "new"), positions(other, "demo")) == ([1, 2, 3], [1, 2])


@pytest.mark.parametrize(
    ("topic", "payload", "time"),
    [
        ("odd@7", bytes(range(256)) * 3, 0),
        ("", b"", 1),
        ("ä😀@1", b"\x00", -62_135_596_800_000_000),
        ("user_message@1", b"{}", 253_402_300_799_999_999),
    ],
    ids=["every byte", "nothing", "the year 1", "the year 9999"],
)
def test_bytes_topics_and_times_come_back_as_they_went_in(
    recorder: LogRecorder, other: LogRecorder, topic: str, payload: bytes, time: int
) -> None:
    entry = PendingEntry(topic, payload, "m-1", time, bytes(16), True)
    (record,) = recorder.append([entry], Stream("demo"), None)

    assert (record.topic, record.payload, record.time, record.salt) == (topic, payload, time, bytes(16))
    assert other.select_records(Stream("demo"), 1, 2) == [record]
    (row,) = other.committed(recorder.committed(0)[0].notification)
    assert (row.topic, row.payload, row.time, row.digest) == (topic, payload, time, record.digest)


def test_who_knows_an_older_head_appends_behind_the_newest_and_expects_it_in_vain(
    recorder: LogRecorder, other: LogRecorder
) -> None:
    mine = Stream("demo")
    put(recorder, mine, "a")
    put(other, Stream("demo"), "b", "c")

    with pytest.raises(VersionConflictError) as refused:
        put(recorder, mine, "d", expected=2)
    assert (refused.value.expected, refused.value.found) == (2, 4)
    assert put(recorder, mine, "d") == [5]


def test_a_claim_that_was_never_taken_settles_nothing(recorder: LogRecorder) -> None:
    stream = Stream("demo")
    put(recorder, stream, "a")

    with pytest.raises(ClaimLostError):
        recorder.append([item("b")], stream, 2, 99)
    with pytest.raises(ClaimLostError):
        recorder.append([item("b")], Stream("demo"), None, 99)
    assert positions(recorder, "demo") == [1, 2]


def test_a_claim_stays_where_the_append_that_settles_it_is_refused(recorder: LogRecorder) -> None:
    stream = Stream("demo")
    put(recorder, stream, "a")
    held = taken(recorder, stream)
    recorder.drafts.add([(held.fence, b"said")])

    with pytest.raises(VersionConflictError):
        recorder.append([item("b")], stream, 1, held.fence)
    with pytest.raises(InvalidEventError):
        recorder.append([item(ModeSwitch(mode="agent"))], stream, None, held.fence)
    assert recorder.claims.of(stream) == [held]
    assert recorder.drafts.of(held.fence) == [b"said"]
    assert positions(recorder, "demo") == [1, 2]


def test_who_settles_a_claim_again_writes_nothing_twice(recorder: LogRecorder) -> None:
    stream = Stream("demo")
    put(recorder, stream, "a")
    held = taken(recorder, stream)
    recorder.append([item("b", "m-1")], stream, None, held.fence)

    with pytest.raises(ClaimLostError):
        recorder.append([item("b", "m-1")], stream, None, held.fence)
    assert positions(recorder, "demo") == [1, 2, 3]


def test_appends_of_one_caller_that_another_thread_makes_keep_their_order(recorder: LogRecorder) -> None:
    woken, streams = threading.Event(), [Stream("one"), Stream("two")]
    waiting = [
        recorder.insert_later([item(str(number))], woken.set, stream=streams[number % 2])
        for number in range(20)
    ]
    while not all(each.done for each in waiting):
        assert woken.wait(20)
        woken.clear()

    assert [each.result()[0].position for each in waiting] == [2 + number // 2 for number in range(20)]


def test_of_appends_made_together_each_is_refused_or_written_by_itself(
    recorder: LogRecorder, other: LogRecorder
) -> None:
    streams = [Stream(name) for name in ("one", "two", "three", "four")]
    for stream in streams:
        put(recorder, stream, "first")
    recorder.append([item("again", "m-1")], streams[0], None)
    put(other, Stream("two"), "of another process")
    woken = threading.Event()
    asked = [
        (streams[0], item("other words", "m-1"), None),
        (streams[1], item("b"), None),
        (streams[1], item("c"), 2),
        (streams[2], item(ModeSwitch(mode="agent")), None),
        (streams[3], item("d"), 2),
        (streams[3], item("e"), 3),
        (streams[3], item("f"), None),
        (Stream("new"), item("g"), None),
    ]
    waiting = [
        recorder.insert_later([each], woken.set, stream=stream, expected=expected)
        for stream, each, expected in asked
    ]
    while not all(each.done for each in waiting):
        assert woken.wait(20)
        woken.clear()

    found: list[int | type[Exception]] = []
    for each in waiting:
        try:
            found.append(each.result()[-1].position)
        except CallerError as error:
            found.append(type(error))
    assert found == [DuplicateIdError, 4, VersionConflictError, InvalidEventError, 3, 4, 5, 2]
    assert [positions(recorder, stream.name)[-1] for stream in streams] == [3, 4, 2, 5]
