"""What a store promises of itself as a whole: opening, closing, copying, and what messages name it by."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from eventsourcing.persistence import StoredEvent, Tracking

from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import LAST, START, Cursor, Share, Stream, Which
from stenolog.adapters.store.sqlite.application import SqliteLogApplication
from stenolog.domain.errors import StoreError, StoreTimeoutError

from .given import claim, fork, item, key_of, put
from .stores import Store, several_processes


def test_what_was_written_is_there_when_the_log_is_opened_again(store: Store) -> None:
    first = store.open()
    put(first, Stream("demo"), "a")
    head, key = first.head(Stream("demo")), first.conversations.find("demo")
    second = store.open()

    assert (second.head(Stream("demo")), second.conversations.find("demo")) == (head, key)
    assert second.path == first.path
    assert second.is_private == first.is_private


CALLS: dict[str, Callable[[LogRecorder], object]] = {
    "append": lambda recorder: put(recorder, Stream("demo"), "b"),
    "read": lambda recorder: recorder.select_events("demo"),
    "follow": lambda recorder: recorder.committed(0),
    "list": lambda recorder: recorder.conversations.names(Which()),
    "rename": lambda recorder: recorder.conversations.rename(1, "new"),
    "note": lambda recorder: recorder.save_cursor("a", Cursor()),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_closed_log_is_told_to_whoever_calls_it(store: Store, call: str) -> None:
    recorder = store.open()
    put(recorder, Stream("demo"), "a")
    assert not recorder.closed
    store.close()

    assert recorder.closed
    with pytest.raises(StoreError, match="closed"):
        CALLS[call](recorder)


def test_a_log_can_be_closed_twice(store: Store) -> None:
    recorder = store.open()
    store.close()
    recorder.close()

    assert recorder.closed


def test_an_error_names_the_log_as_its_path_does(store: Store) -> None:
    recorder = store.open()
    path = recorder.path
    store.close()

    with pytest.raises(StoreError) as told:
        recorder.conversations.find("demo")
    assert path in str(told.value)


def test_a_backup_is_an_sqlite_log_with_the_same_records(
    recorder: LogRecorder, other: LogRecorder, tmp_path: Path
) -> None:
    demo = Stream("demo")
    put(recorder, demo, "a", "secret")
    child = fork(recorder, demo, 2, "child")
    key = key_of(recorder, demo)
    recorder.erasure.erase(demo, [3], {key: "demo"}, {key: (3, [item("erased")])})
    recorder.conversations.archive(key_of(recorder, child), 5)
    recorder.blobs.put([("2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881", b"x")])
    recorder.backup(tmp_path / "copy.db")
    put(recorder, demo, "later")

    copy = SqliteLogApplication({"SQLITE_DBNAME": str(tmp_path / "copy.db")})
    with copy:
        found = copy.recorder
        assert found.conversations.names(Which(archived=True)) == ["demo", "child"]
        assert found.conversations.names(Which()) == ["demo"]
        assert found.head(Stream("demo")).position == 4
        for name in ("demo", "child"):
            stream, at = Stream(name), 0
            while records := found.select_records(stream, at, LAST):
                assert records == recorder.select_records(Stream(name), at, records[-1].position)
                at = records[-1].position
        assert found.blobs.shas() == recorder.blobs.shas()
        assert found.seal_key != recorder.seal_key
        found.close()


def test_a_backup_never_takes_the_place_of_a_file(recorder: LogRecorder, tmp_path: Path) -> None:
    put(recorder, Stream("demo"), "a")
    taken = tmp_path / "taken"
    taken.write_text("somebody's")

    with pytest.raises(StoreError):
        recorder.backup(taken)
    assert taken.read_text() == "somebody's"
    with pytest.raises(StoreError):
        recorder.backup(tmp_path / "no folder" / "copy.db")


def test_a_log_is_compacted_when_nobody_else_reads_it(recorder: LogRecorder) -> None:
    put(recorder, Stream("demo"), "a")

    assert recorder.compact() is True


def test_a_name_that_nobody_has_begun_has_nothing_whatever_is_asked(recorder: LogRecorder) -> None:
    nobody = Stream("nobody")

    assert recorder.head(nobody) == START
    assert recorder.lineage(nobody) == ()
    assert recorder.select_records(nobody, 0, LAST) == []
    assert recorder.select_events("nobody") == []
    assert recorder.stretch(nobody, 0, LAST) is None
    assert recorder.record_by_id(nobody, "m-1") is None
    assert recorder.digest_at(nobody, 1) is None
    assert recorder.conversations.name_of(10**9) is None
    assert nobody.key is None


def test_a_stream_whose_conversation_begins_later_finds_it_then(
    recorder: LogRecorder, other: LogRecorder
) -> None:
    mine = Stream("demo")
    assert recorder.resolve(mine) is None
    put(other, Stream("demo"), "a")

    assert recorder.resolve(mine) == other.conversations.find("demo")
    assert recorder.head(mine).position == 2


WRITES: list[Callable[[LogRecorder, Stream], object]] = [
    lambda recorder, demo: put(recorder, demo, "b"),
    lambda recorder, demo: put(recorder, Stream("demo"), "b", expected=2),
    lambda recorder, demo: put(recorder, Stream("new"), "b"),
    lambda recorder, demo: recorder.insert_events([StoredEvent("demo", 3, "odd@1", b"")]),
    lambda recorder, demo: recorder.insert_batch([Share(Stream("demo"), [item("b")], 2)], []),
    lambda recorder, demo: fork(recorder, demo, 2),
    lambda recorder, demo: recorder.conversations.rename(key_of(recorder, demo), "new"),
    lambda recorder, demo: recorder.conversations.delete(key_of(recorder, demo), "demo"),
    lambda recorder, demo: recorder.claims.take(demo, [claim()], 2),
    lambda recorder, demo: recorder.blobs.put([("ab" * 32, b"x")]),
    lambda recorder, demo: recorder.save_cursor("a", Cursor(5)),
    lambda recorder, demo: recorder.insert_tracking(Tracking("upstream", 5)),
]


@several_processes
def test_no_call_waits_longer_than_its_deadline_and_what_was_given_up_is_not_written(store: Store) -> None:
    recorder = store.open(deadline=0.5)
    demo = Stream("demo")
    put(recorder, demo, "a")
    before = recorder.moment(0, 9)

    def write(call: Callable[[LogRecorder, Stream], object]) -> float:
        begun = time.monotonic()
        with pytest.raises(StoreTimeoutError):
            call(recorder, Stream("demo", demo.key))
        return time.monotonic() - begun

    with store.held(), ThreadPoolExecutor(len(WRITES)) as pool:
        assert max(pool.map(write, WRITES)) < 5
        assert recorder.select_events("demo")[1].originator_version == 2  # nobody is kept from reading
    assert recorder.moment(0, 9) == before
    assert (recorder.claims.of(demo), recorder.blobs.shas(), recorder.load_cursor("a")) == ([], [], Cursor())
    assert put(recorder, demo, "b") == [3]
