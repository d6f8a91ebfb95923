"""What a store promises of damage: a row that was changed behind its back is told, and stops nothing."""

from __future__ import annotations

from typing import Any

import pytest

from stenolog.adapters.store.contract.inspection import ConversationRow
from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import EVERYWHERE, LAST, Cursor, Segment, Stream
from stenolog.domain.entry import Record

from .given import fork, item, key_of, put
from .inspecting import faults
from .stores import Store, several_processes


@pytest.fixture
def demo(recorder: LogRecorder) -> Stream:
    """Return a conversation of four entries, beside one of two, and a fork of it at 3."""
    stream = Stream("demo")
    put(recorder, stream, "a", "b", "c")
    put(recorder, Stream("beside"), "x")
    fork(recorder, stream, 3, "child")
    return stream


def test_a_log_that_nobody_touched_has_no_fault(
    recorder: LogRecorder, other: LogRecorder, demo: Stream
) -> None:
    key = key_of(recorder, demo)
    recorder.conversations.rename(key, "renamed")
    recorder.conversations.archive(key, 5)
    recorder.erasure.erase(demo, [4], {key: "renamed"}, {key: (4, [item("erased")])})
    recorder.blobs.put([("2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881", b"x")])
    beside = Stream("beside", recorder.conversations.find("beside"))
    recorder.conversations.delete(key_of(recorder, beside), "beside")

    assert faults(recorder) == faults(other) == []
    with recorder.inspect() as inspection:
        assert inspection.lost() is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"payload": b'{"parts":[]}'}, "demo 2: digest"),
        ({"payload": b""}, "demo 2: digest"),
        ({"topic": "odd@1"}, "demo 2: digest"),
        ({"id": "another"}, "demo 2: digest"),
        ({"time": 5}, "demo 2: digest"),
        ({"salt": b"another"}, "demo 2: digest"),
        ({"digest": bytes(32)}, "demo 2: digest"),
        ({"digest": b""}, "demo 2: digest"),
        ({"erased": bytes(32)}, "demo 2: digest"),
        ({"position": 9}, "demo 2: gap"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_entry_that_was_changed_behind_the_stores_back_is_told(
    recorder: LogRecorder, store: Store, demo: Stream, changes: dict[str, Any], expected: str
) -> None:
    assert faults(recorder) == []
    store.damage(key_of(recorder, demo), 2, **changes)

    assert expected in faults(recorder)
    assert not [fault for fault in faults(recorder) if fault.startswith("beside")]


@pytest.mark.parametrize(("position", "expected"), [(1, "demo 1: gap"), (2, "demo 2: gap")])
def test_an_entry_that_was_taken_out_is_told(
    recorder: LogRecorder, store: Store, demo: Stream, position: int, expected: str
) -> None:
    store.remove(key_of(recorder, demo), position)

    assert expected in faults(recorder)


def test_an_entry_where_the_conversation_can_have_none_is_told(
    recorder: LogRecorder, store: Store, demo: Stream
) -> None:
    child = Stream("child", recorder.conversations.find("child"))
    store.damage(key_of(recorder, child), 4, position=2)

    assert "child 2: outside" in faults(recorder)


@pytest.mark.parametrize("what", ["name", "parent", "digest", "removed"])
def test_a_change_of_the_history_is_told(
    recorder: LogRecorder, store: Store, demo: Stream, what: str
) -> None:
    changes = {
        "name": ("UPDATE history SET name = 'other' WHERE number = 2", "history 2: digest"),
        "parent": ("UPDATE history SET parent = 7 WHERE number = 3", "history 3: digest"),
        "digest": ("UPDATE history SET digest = salt WHERE number = 1", "history 1: digest"),
        "removed": ("DELETE FROM history WHERE number = 2", "history 3: digest"),
    }
    store.change(changes[what][0])

    assert changes[what][1] in faults(recorder)


def test_a_conversations_row_is_given_as_it_stands(recorder: LogRecorder, store: Store, demo: Stream) -> None:
    keys = [recorder.conversations.find(name) for name in ("demo", "beside", "child")]
    store.change("UPDATE conversations SET name = 'other', archived_at = 7 WHERE name = 'beside'")
    with recorder.inspect() as inspection:
        assert inspection.conversations() == [
            ConversationRow(keys[0] or 0, "demo", None, 0, None),
            ConversationRow(keys[1] or 0, "other", None, 0, 7),
            ConversationRow(keys[2] or 0, "child", keys[0], 3, None),
        ]


def test_a_blob_whose_bytes_were_changed_is_told(recorder: LogRecorder, store: Store) -> None:
    sha = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    recorder.blobs.put([(sha, b"x")])
    assert faults(recorder) == []
    store.change("UPDATE blobs SET bytes = ?", b"y")

    assert faults(recorder) == ["blob 2d71"]


def test_a_table_that_is_not_the_one_of_this_release_is_told(recorder: LogRecorder, store: Store) -> None:
    put(recorder, Stream("demo"), "a")
    store.change("ALTER TABLE tracking ADD COLUMN more INT")

    assert [fault for fault in faults(recorder) if fault.startswith("store: ") and "tracking" in fault]


def test_a_damaged_log_is_read_where_it_is_whole(recorder: LogRecorder, store: Store, demo: Stream) -> None:
    key = key_of(recorder, demo)
    before = recorder.select_records(demo, 0, LAST)
    store.damage(key, 3, payload=b"damaged")
    after = recorder.select_records(demo, 0, LAST)

    assert [*after[:2], after[3]] == [*before[:2], before[3]]
    assert after[2] == before[2]._replace(payload=b"damaged", size=len(b"damaged"))


def test_an_inspection_answers_for_streams_and_ids(recorder: LogRecorder, demo: Stream) -> None:
    key, child = key_of(recorder, demo), recorder.conversations.find("child")
    assert child is not None
    rows = recorder.committed(0)
    newest, digest = recorder.max_notification_id(), recorder.digest_at(demo, 2)
    with recorder.inspect() as inspection:
        records = [*inspection.records(key, 1, 3)]

        assert [record.position for record in records if isinstance(record, Record)] == [2, 3]
        assert inspection.lineage(child) == (Segment(key, 0, 3), Segment(child, 3, LAST))
        assert inspection.digest_at(key, 2) == digest
        assert inspection.digest_at(child, 2) is None
        assert inspection.newest() == newest
        assert inspection.newest_given() == newest
        heads = inspection.heads_until([child, key], rows[1].notification)
        assert [*heads] == [(0, b""), (2, rows[1].digest)]


def test_an_inspection_tells_how_far_each_follower_is(recorder: LogRecorder, demo: Stream) -> None:
    key = key_of(recorder, demo)
    recorder.save_cursor("everywhere", Cursor(7))
    recorder.save_cursor("here", Cursor(2, 1), key)
    with recorder.inspect() as inspection:
        assert [*inspection.cursors()] == [("everywhere", EVERYWHERE, Cursor(7)), ("here", key, Cursor(2, 1))]


@several_processes
def test_an_inspection_sees_one_moment_while_others_write(
    recorder: LogRecorder, other: LogRecorder, demo: Stream
) -> None:
    key = key_of(recorder, demo)
    with recorder.inspect() as inspection, inspection.at_one_moment():
        before = inspection.newest()
        put(other, Stream("demo"), "meanwhile")

        assert inspection.newest() == before
        assert len([*inspection.records(key, 0, LAST)]) == 4
    with recorder.inspect() as inspection:
        assert len([*inspection.records(key, 0, LAST)]) == 5
