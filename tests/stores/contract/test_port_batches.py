"""What a store promises of batches and exports: one transaction over several conversations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import (
    LAST,
    BlobContent,
    Continuation,
    Cursor,
    ExportPart,
    Head,
    Segment,
    Share,
    Stream,
    Which,
    Written,
)
from stenolog.adapters.store.reading.reader import decoded
from stenolog.domain.entry import Record
from stenolog.domain.errors import (
    CallerError,
    ConversationNotFoundError,
    CorruptLogError,
    DuplicateIdError,
    InvalidEventError,
    VersionConflictError,
)
from stenolog.domain.events import ModeSwitch

from .given import fork, item, key_of, positions, put
from .inspecting import faults


def test_a_share_notes_its_conversation_under_its_marks_and_a_refused_one_does_not(
    recorder: LogRecorder,
) -> None:
    shares = [
        Share(Stream("a"), [item("a")], 0, (), ["one", "two"]),
        Share(Stream("b"), [item("b")], 7, (), ["three"]),
    ]
    recorder.insert_batch(shares, [])

    key = recorder.conversations.find("a")
    assert [recorder.load_cursor(mark).position for mark in ("one", "two", "three")] == [key, key, 0]


@pytest.mark.parametrize(
    ("share", "error"),
    [
        (Share(Stream("demo"), [item("x")], 1), VersionConflictError),
        (Share(Stream("demo"), [item("x")], 3), VersionConflictError),
        (Share(Stream("new"), [item("x")], 2), VersionConflictError),
        (Share(Stream("demo"), [item("x", "m-1"), item("y", "m-1")], 2), DuplicateIdError),
        (Share(Stream("demo"), [item("other words", "a")], 2), DuplicateIdError),
        (Share(Stream("a\0b"), [item("x")], 0), InvalidEventError),
    ],
    ids=["behind", "ahead", "not begun", "one id twice", "an id that stands there", "a NUL"],
)
def test_a_share_that_is_refused_is_told_in_its_place_and_leaves_nothing(
    recorder: LogRecorder, share: Share, error: type[CallerError]
) -> None:
    recorder.append([item("a", "a")], Stream("demo"), None)
    # A `Stream` remembers its key, and this one is of another log in the next test.
    share = share._replace(stream=Stream(share.stream.name), marks=["mark"], branches=[("branch", 2)])
    before, refused, after = recorder.insert_batch(
        [Share(Stream("before"), [item("x")], 0), share, Share(Stream("after"), [item("x")], 0)], []
    )

    assert type(refused) is error
    assert before == after == Written(2, [])
    assert recorder.conversations.names(Which()) == ["demo", "before", "after"]
    assert positions(recorder, "demo") == [1, 2]
    assert recorder.load_cursor("mark") == Cursor()


def test_a_batch_of_nothing_writes_nothing(recorder: LogRecorder) -> None:
    assert recorder.insert_batch([], []) == []
    assert recorder.max_notification_id() is None


def test_shares_of_one_conversation_follow_each_other(recorder: LogRecorder) -> None:
    demo = Stream("demo")
    ends = recorder.insert_batch(
        [Share(demo, [item(text)], at) for at, text in ((0, "a"), (2, "b"), (2, "c"))], []
    )

    assert ends[:2] == [Written(2, []), Written(3, [])]
    assert isinstance(ends[2], VersionConflictError)
    assert positions(recorder, "demo") == [1, 2, 3]


def test_a_batch_that_is_repeated_writes_nothing_again(recorder: LogRecorder, other: LogRecorder) -> None:
    def share() -> Share:
        return Share(Stream("demo"), [item("a", "m-1"), item("b", "m-2")], 0, [("branch", 2)])

    first = recorder.insert_batch([share()], [])
    again = other.insert_batch([share()], [])

    assert (first, again) == ([Written(3, ["branch"])], [Written(3, [])])
    assert positions(recorder, "demo") == [1, 2, 3]
    assert positions(recorder, "branch") == [1, 2, 3]


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_a_branch_shares_its_conversation_up_to_a_position_old_or_new(recorder: LogRecorder, at: int) -> None:
    demo = Stream("demo")
    put(recorder, demo, "a")
    recorder.insert_batch([Share(demo, [item("b"), item("c")], 2, [("branch", at), ("other", at)])], [])

    assert positions(recorder, "branch") == positions(recorder, "other") == [*range(1, at + 2)]
    assert recorder.digest_at(Stream("branch"), at) == recorder.digest_at(demo, at)
    (own,) = recorder.select_records(Stream("branch"), at, LAST)
    assert b"demo" in own.payload  # it links to where it began


def test_a_batch_into_a_fork_makes_branches_of_what_it_inherits(recorder: LogRecorder) -> None:
    demo = Stream("demo")
    put(recorder, demo, "a", "b")
    child = fork(recorder, demo, 3, "child")
    recorder.insert_batch([Share(child, [item("c")], 4, [("early", 2), ("late", 5)])], [])

    assert (positions(recorder, "early"), positions(recorder, "late")) == ([1, 2, 3], [1, 2, 3, 4, 5, 6])
    assert recorder.digest_at(Stream("early"), 2) == recorder.digest_at(demo, 2)


def test_what_came_in_by_a_batch_is_noted_as_imported_from_its_first_to_its_last(
    recorder: LogRecorder,
) -> None:
    demo = Stream("demo")
    put(recorder, demo, "own")
    key = key_of(recorder, demo)
    assert recorder.imported(key) == (0, 0)
    recorder.insert_batch([Share(demo, [item("b"), item("c")], 2)], [])
    assert recorder.imported(key) == (3, 4)
    put(recorder, demo, "own again")
    recorder.insert_batch([Share(demo, [item("d")], 5)], [])

    assert recorder.imported(key) == (3, 6)


def test_a_mode_switch_comes_in_by_a_batch_since_it_names_its_position(recorder: LogRecorder) -> None:
    demo = Stream("demo")
    put(recorder, demo, "a")
    (end,) = recorder.insert_batch([Share(demo, [item(ModeSwitch(mode="agent")), item("b")], 2)], [])

    assert end == Written(4, [])


def exported(recorder: LogRecorder) -> list[Record]:
    """Return three records, of which one was erased."""
    demo = Stream("demo")
    put(recorder, demo, "secret", "b")
    key = key_of(recorder, demo)
    recorder.erasure.erase(demo, [2], {key: "demo"}, {key: (3, [item("erased")])})
    return recorder.select_records(demo, 0, LAST)


def test_records_of_an_export_are_written_as_they_are_the_erased_ones_too(
    recorder: LogRecorder, other: LogRecorder
) -> None:
    records = exported(recorder)
    parts: list[ExportPart] = [Continuation("copy", 0, 4), *records]
    recorder.insert_export(iter(parts))

    assert other.select_records(Stream("copy"), 0, LAST) == records
    assert (records[1].payload, records[1].size > 0) == (b"", True)
    assert other.select_events("copy")[1].topic == "erased"
    assert other.imported(key_of(other, Stream("copy"))) == (1, 4)
    assert put(other, Stream("copy"), "more") == [5]


def test_an_entry_that_came_without_words_is_known_from_an_erased_one(recorder: LogRecorder) -> None:
    records = exported(recorder)
    parts: list[ExportPart] = [Continuation("copy", 0, 4, withheld=frozenset({2})), *records]
    recorder.insert_export(iter(parts))
    demo, copy = key_of(recorder, Stream("demo")), key_of(recorder, Stream("copy"))

    assert (list(recorder.erasure.withheld(demo)), list(recorder.erasure.withheld(copy))) == ([], [2])
    with recorder.inspect() as inspection:
        assert inspection.withheld(copy) == {2}
    wordless = [row for row in recorder.committed(0, limit=100) if row.payload is None]
    assert [(row.name, getattr(decoded(row).event, "topic", "")) for row in wordless] == [
        ("demo", "erased"),
        ("copy", "withheld"),
    ]
    assert faults(recorder) == []


def test_an_export_continues_what_the_log_has_already(recorder: LogRecorder) -> None:
    records = exported(recorder)
    recorder.insert_export(iter([Continuation("copy", 0, 2), *records[:2]]))
    recorder.insert_export(iter([Continuation("copy", 2, 4), *records]))
    recorder.insert_export(iter([Continuation("copy", 4, 4), *records]))

    assert recorder.select_records(Stream("copy"), 0, LAST) == records


@pytest.mark.parametrize("already", [0, 1, 3, 9])
def test_an_export_for_another_position_writes_nothing_of_any_conversation(
    recorder: LogRecorder, already: int
) -> None:
    records = exported(recorder)
    recorder.insert_export(iter([Continuation("copy", 0, 2), *records[:2]]))
    sha = "cd" * 32
    parts: list[ExportPart] = [
        BlobContent(sha, b"x"),
        Continuation("new", 0, 4),
        *records,
        Continuation("copy", already, 10),
        *records,
    ]
    with pytest.raises(VersionConflictError) as refused:
        recorder.insert_export(iter(parts))

    assert (refused.value.expected, refused.value.found) == (already, 2)
    assert recorder.conversations.find("new") is None
    assert not recorder.blobs.has(sha)
    assert positions(recorder, "copy") == [1, 2]


def test_a_fork_of_an_export_shares_what_its_parent_has_and_is_archived_as_it_was(
    recorder: LogRecorder, other: LogRecorder
) -> None:
    records = exported(recorder)
    forked = fork(recorder, Stream("demo"), 3, "fork")
    (own,) = recorder.select_records(forked, 3, LAST)
    parts: list[ExportPart] = [
        Continuation("copy", 0, 4, imported=(2, 3), marks=("mark",)),
        *records,
        Continuation("its fork", 3, 4, "copy", 3, own.digest, imported=(0, 0), archived_at=7),
        own,
    ]
    recorder.insert_export(iter(parts))
    key = key_of(other, Stream("copy"))

    assert other.select_records(Stream("its fork"), 0, LAST) == records[:3]
    assert other.select_records(Stream("its fork"), 3, LAST) == [own]
    assert other.lineage(Stream("its fork"))[0] == Segment(key, 0, 3)
    assert other.conversations.names(Which()) == ["demo", "fork", "copy"]
    assert other.load_cursor("mark") == Cursor(key)
    assert other.imported(key) == (2, 3)
    assert other.imported(key_of(other, Stream("its fork"))) == (0, 0)
    assert faults(recorder) == []


@pytest.mark.parametrize("at", [0, 1])
def test_a_fork_of_an_export_that_begins_at_once_inherits_nothing_or_one_entry(
    recorder: LogRecorder, at: int
) -> None:
    records = exported(recorder)
    demo = Stream("demo", recorder.conversations.find("demo"))
    head = Head(at, records[at - 1].digest if at else b"")
    own = recorder.select_records(recorder.conversations.fork(demo, head, "f", [item("x")]), at, LAST)
    parts: list[ExportPart] = [
        Continuation("copy", 0, 4),
        *records,
        Continuation("g", at, at + 1, "copy", at),
        *own,
    ]
    recorder.insert_export(iter(parts))

    assert [row[0] for row in recorder.select_events("g").rows] == [*range(1, at + 2)]
    assert faults(recorder) == []


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (Continuation("copy", 0, 4, digest=bytes(32)), CorruptLogError),
        (Continuation("copy", 0, 5), CorruptLogError),
        (Continuation("copy", 0, 4, "nobody"), ConversationNotFoundError),
        (Continuation("copy", 9, 12, "demo", 9), ConversationNotFoundError),
        (Continuation("copy", 1, 4, "demo", 2), VersionConflictError),
        (Continuation("demo", 4, 8), CorruptLogError),
    ],
    ids=["another digest", "too few", "no parent", "no such position", "another position", "another chain"],
)
def test_an_export_that_does_not_come_to_what_it_promises_writes_nothing(
    recorder: LogRecorder, asked: Continuation, error: type[Exception]
) -> None:
    records = exported(recorder)
    before = recorder.max_notification_id()
    moved = [record._replace(position=record.position + asked.already) for record in records]
    with pytest.raises(error):
        recorder.insert_export(iter([Continuation("new", 0, 4), *records, asked, *moved]))

    assert recorder.max_notification_id() == before
    assert recorder.conversations.names(Which()) == ["demo"]


@pytest.mark.parametrize("change", ["payload", "order", "missing"])
def test_records_that_do_not_follow_from_each_other_are_refused(recorder: LogRecorder, change: str) -> None:
    one, two, three, four = exported(recorder)
    changed = {
        "payload": [one, two, three._replace(payload=b"{}"), four],
        "order": [one, three, two, four],
        "missing": [one, two, four],
    }
    with pytest.raises(CorruptLogError, match="'copy' at position"):
        recorder.insert_export(iter([Continuation("copy", 0, 4), *changed[change]]))
    assert recorder.conversations.find("copy") is None


def test_an_export_whose_source_breaks_off_writes_nothing(recorder: LogRecorder) -> None:
    records = exported(recorder)

    def parts() -> Iterator[ExportPart]:
        yield Continuation("copy", 0, 4)
        yield records[0]
        raise OSError("the file ends here")

    with pytest.raises(OSError, match="ends here"):
        recorder.insert_export(parts())
    assert recorder.conversations.find("copy") is None
    assert put(recorder, Stream("copy"), "a") == [2]
