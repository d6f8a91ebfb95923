"""What a store promises of forks of forks: what they inherit is read at every border, and never copied."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import LAST, START, Head, Segment, Stream, Which
from stenolog.domain.entry import GENESIS, digest_of
from stenolog.domain.errors import (
    ConversationExistsError,
    ConversationNotFoundError,
    DuplicateIdError,
    InvalidEventError,
    VersionConflictError,
)

from .given import fork, item, key_of, positions, put


class Line(NamedTuple):
    """Three conversations: a grandchild has 1-3 of the first, 4-5 of the child, and 6-7 of its own."""

    demo: Stream
    child: Stream
    grandchild: Stream


@pytest.fixture
def line(recorder: LogRecorder) -> Line:
    demo = Stream("demo")
    put(recorder, demo, "2", "3", "4 of demo", "5 of demo")
    child = fork(recorder, demo, 3, "child")
    put(recorder, child, "5", "6 of child", "7 of child", "8 of child")
    grandchild = fork(recorder, child, 5, "grandchild")
    put(recorder, grandchild, "7")
    return Line(demo, child, grandchild)


BORDERS = [
    (0, 1),
    (0, 3),
    (0, 4),
    (0, 8),
    (1, 5),
    (2, 3),
    (2, 4),
    (3, 3),
    (3, 5),
    (3, 6),
    (4, 2),
    (4, 7),
    (5, 6),
    (6, 9),
]


@pytest.mark.parametrize(("after", "upto"), BORDERS)
def test_any_range_of_a_fork_of_a_fork_is_read_as_if_it_were_its_own(
    recorder: LogRecorder, line: Line, after: int, upto: int
) -> None:
    expected = [*range(after + 1, min(upto, 7) + 1)]
    forwards = recorder.select_events("grandchild", gt=after, lte=upto)
    backwards = recorder.select_events("grandchild", gt=after, lte=upto, desc=True)

    assert [row[0] for row in forwards.rows] == expected
    assert [row[0] for row in backwards.rows] == expected[::-1]
    assert {event.originator_id for event in forwards} <= {"grandchild"}
    for limit in range(4):
        first = recorder.select_events("grandchild", gt=after, lte=upto, limit=limit)
        assert [row[0] for row in first.rows] == expected[:limit]
        found = recorder.select_events("grandchild", gt=after, lte=upto, desc=True, limit=limit)
        assert [row[0] for row in found.rows] == expected[::-1][:limit]
    records = recorder.select_records(line.grandchild, after, upto)
    assert [record.position for record in records] == expected[: len(records)]
    assert bool(records) == bool(expected)


def test_the_chain_runs_through_all_that_is_inherited(recorder: LogRecorder, line: Line) -> None:
    digest, found = GENESIS, list[int]()
    while records := recorder.select_records(line.grandchild, len(found), LAST):
        for record in records:
            assert record.digest == digest_of(digest, record)
            digest = record.digest
            found.append(record.position)
            assert recorder.digest_at(line.grandchild, record.position) == digest

    assert found == [1, 2, 3, 4, 5, 6, 7]
    assert recorder.head(line.grandchild) == (7, digest)
    assert recorder.digest_at(line.grandchild, 0) == GENESIS
    assert recorder.digest_at(line.grandchild, 8) is None


def test_pages_and_stretches_end_where_a_segment_ends(recorder: LogRecorder, line: Line) -> None:
    steps, at = list[int](), 0
    while step := recorder.stretch(line.grandchild, at, LAST):
        count, head = step
        assert head == (at + count, recorder.digest_at(line.grandchild, at + count))
        page = recorder.select_events(line.grandchild, gt=at, page=True)
        assert [row[0] for row in page.rows] == [*range(at + 1, at + count + 1)]
        at = head.position
        steps.append(count)

    assert steps == [3, 2, 2]
    assert recorder.stretch(line.grandchild, 1, 2) == (1, (2, recorder.digest_at(line.demo, 2)))
    assert recorder.stretch(line.grandchild, 7, 9) is None
    assert recorder.stretch(line.grandchild, 3, 3) is None


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (1, [(0, 1), (1, 1), (1, 1)]),
        (3, [(0, 3), (3, 3), (3, 3)]),
        (4, [(0, 3), (3, 4), (4, 4)]),
        (5, [(0, 3), (3, 5), (5, 5)]),
        (6, [(0, 3), (3, 5), (5, 6)]),
        (LAST, [(0, 3), (3, 5), (5, LAST)]),
    ],
)
def test_segments_tell_which_stream_has_which_positions(
    recorder: LogRecorder, line: Line, last: int, expected: list[tuple[int, int]]
) -> None:
    keys = [key_of(recorder, stream) for stream in line]
    segments = [Segment(key, *ends) for key, ends in zip(keys, expected, strict=True)]

    assert recorder.lineage(line.grandchild, last) == tuple(segments)
    assert recorder.lineage(Stream("demo"), last) == (Segment(keys[0], 0, last),)


@pytest.mark.parametrize("position", range(1, 9))
def test_what_belongs_to_the_stream_itself_is_told_apart_from_what_it_inherits(
    recorder: LogRecorder, line: Line, position: int
) -> None:
    is_own = position in (6, 7)
    header = recorder.header(line.grandchild, position)
    rows = recorder.recent(line.grandchild, position, 9)

    assert (header is not None) == is_own
    assert [row[0] for row in rows] == [own for own in (6, 7) if own >= position]
    assert [row[5] for row in rows if row[0] == position] == [None] * is_own
    assert all(row[5] for row in rows if row[0] > position)
    assert recorder.is_inherited(line.child, position) == (position <= 5)
    assert recorder.is_inherited(line.demo, position) == (position <= 3)
    assert not recorder.is_inherited(line.grandchild, position)
    if header is not None:
        (row,) = recorder.recent(line.grandchild, position, 1)
        assert header == row[1:4]


def test_the_last_position_is_the_streams_own(recorder: LogRecorder, line: Line) -> None:
    assert [recorder.last_position(stream) for stream in line] == [5, 8, 7]
    assert recorder.last_position(Stream("nobody")) == 0
    assert recorder.recent(Stream("nobody"), 1, 9) == []
    assert recorder.header(Stream("nobody"), 1) is None


@pytest.mark.parametrize(
    ("position", "names"),
    [
        (2, {"demo", "child", "grandchild"}),
        (3, {"demo", "child", "grandchild"}),
        (4, {"demo"}),
        (5, {"demo"}),
    ],
)
def test_an_entry_is_in_its_conversation_and_in_the_forks_behind_it(
    recorder: LogRecorder, line: Line, position: int, names: set[str]
) -> None:
    found = recorder.erasure.conversations_with(line.demo, position)

    assert set(found.values()) == names
    assert {recorder.conversations.find(name) for name in names} == found.keys()


def test_an_id_is_found_up_to_where_a_fork_begins_and_may_be_used_again_behind_it(
    recorder: LogRecorder,
) -> None:
    demo = Stream("demo")
    recorder.append([item("a", "m-1"), item("b", "m-2"), item("c", "m-3")], demo, None)
    child = fork(recorder, demo, 3, "child")
    grandchild = fork(recorder, child, 3, "grandchild")
    (again,) = recorder.append([item("other words", "m-2")], grandchild, None)

    assert recorder.record_by_id(grandchild, "m-1") == recorder.record_by_id(demo, "m-1")
    assert recorder.record_by_id(grandchild, "m-2") == again
    assert recorder.record_by_id(child, "m-2") == recorder.record_by_id(demo, "m-2")
    assert recorder.record_by_id(grandchild, "m-3") is None
    with pytest.raises(DuplicateIdError):
        recorder.append([item("third words", "m-2")], grandchild, None)


def test_a_fork_may_begin_before_the_fork_that_it_is_made_of(recorder: LogRecorder, line: Line) -> None:
    early = fork(recorder, line.grandchild, 2, "early")

    assert positions(recorder, early) == [1, 2, 3]
    assert recorder.digest_at(early, 2) == recorder.digest_at(line.demo, 2)
    assert {*recorder.erasure.conversations_with(line.demo, 2).values()} == {
        "demo",
        "child",
        "grandchild",
        "early",
    }
    assert "early" not in recorder.erasure.conversations_with(line.demo, 3).values()


@pytest.mark.parametrize("at", [1, 2, 3, 4, 5], ids=lambda at: f"at {at}")
def test_a_fork_continues_behind_its_position_wherever_that_is(
    recorder: LogRecorder, line: Line, at: int
) -> None:
    made = fork(recorder, line.demo, at, "made")
    inherited = recorder.select_records(line.demo, 0, at)
    (own,) = recorder.select_records(made, at, LAST)

    assert recorder.select_records(made, 0, at) == inherited
    assert own.digest == digest_of(inherited[-1].digest, own)
    assert put(recorder, made, "more", expected=at + 1) == [at + 2]


def test_a_fork_at_the_beginning_inherits_nothing(recorder: LogRecorder, line: Line) -> None:
    made = recorder.conversations.fork(line.demo, START, "made", [item("forked")])

    assert positions(recorder, made) == [1]
    assert recorder.lineage(made, 9)[-1] == Segment(key_of(recorder, made), 0, 9)


def test_entries_of_a_fork_are_written_with_it_or_neither_is(recorder: LogRecorder, line: Line) -> None:
    at = recorder.head(line.demo)
    made = recorder.conversations.fork(line.demo, at, "made", [item("a"), item("b"), item("c")])
    assert positions(recorder, made) == [*range(1, at.position + 4)]

    with pytest.raises(DuplicateIdError):
        recorder.conversations.fork(line.demo, at, "another", [item("a", "m-1"), item("b", "m-1")])
    assert recorder.conversations.find("another") is None


def test_a_fork_follows_its_parent_to_another_name_and_into_the_archive(
    recorder: LogRecorder, other: LogRecorder, line: Line
) -> None:
    key = key_of(recorder, line.demo)
    other.conversations.rename(key, "new")
    other.conversations.archive(key, 1)

    assert positions(recorder, "grandchild") == [1, 2, 3, 4, 5, 6, 7]
    assert recorder.conversations.names(Which()) == ["child", "grandchild"]
    assert fork(recorder, line.demo, 2).name == "demo~2"  # this process still calls it so
    assert recorder.erasure.conversations_with(Stream("new", key), 5) == {key: "new"}


def test_the_first_free_name_is_taken_whatever_has_the_others(recorder: LogRecorder) -> None:
    demo = Stream("demo")
    put(recorder, demo, "a")
    put(recorder, Stream("demo~1"), "not a fork")
    first, second = fork(recorder, demo, 2), fork(recorder, demo, 2)
    assert [first.name, second.name] == ["demo~2", "demo~3"]
    recorder.conversations.delete(key_of(recorder, first), first.name)

    assert fork(recorder, demo, 2).name == "demo~2"
    assert fork(recorder, second, 2).name == "demo~3~1"


def test_a_fork_without_a_name_of_its_own_is_refused_where_the_name_would_be_too_long(
    recorder: LogRecorder,
) -> None:
    long = Stream("x" * 199)
    put(recorder, long, "a")

    with pytest.raises(InvalidEventError, match="name of the fork"):
        fork(recorder, long, 2)
    assert recorder.conversations.count(Which()) == 1


def test_a_name_that_is_taken_or_a_parent_that_is_gone_makes_no_fork(
    recorder: LogRecorder, other: LogRecorder, line: Line
) -> None:
    before = recorder.max_notification_id()
    with pytest.raises(ConversationExistsError, match="child"):
        fork(recorder, line.demo, 2, "child")
    other.conversations.delete(key_of(other, line.grandchild), "grandchild")
    with pytest.raises(ConversationNotFoundError, match="grandchild"):
        recorder.conversations.fork(
            line.grandchild, Head(2, recorder.digest_at(line.demo, 2) or b""), None, [item("x")]
        )

    assert recorder.conversations.names(Which()) == ["demo", "child"]
    assert before is not None
    assert recorder.committed(before) == []


def test_whoever_expects_a_position_of_a_fork_counts_what_it_inherits(
    recorder: LogRecorder, line: Line
) -> None:
    with pytest.raises(VersionConflictError) as refused:
        put(recorder, Stream("grandchild"), "x", expected=2)

    assert (refused.value.expected, refused.value.found) == (2, 7)
    assert put(recorder, Stream("grandchild"), "x", expected=7) == [8]


def test_of_a_fork_some_topics_are_read_across_all_segments(recorder: LogRecorder, line: Line) -> None:
    found = recorder.select_events("grandchild", topics=["mode_switch@1"])
    others = recorder.select_events("grandchild", topics=["user_message@1"], gt=1, desc=True)

    assert [event.originator_version for event in found] == [1]
    assert [event.originator_version for event in others] == [7, 6, 5, 4, 3, 2]
