"""Long payloads are compressed in a file, and everything that reads them has them as they were."""

from __future__ import annotations

import sqlite3
import tracemalloc
import zlib
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stenolog
from stenolog import Log, ToolResult, UserMessage
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.store.sqlite.statements import schema
from stenolog.adapters.store.sqlite.statements.event_rows import LONG, compressed, decompressed
from stenolog.domain.erasure import erasure_message
from stenolog.events import Damaged, Event, dump_event
from stenolog.parts import ImagePart, TextPart

LINE = "tests/test_oven.py::test_the_oven_is_hot FAILED [ 12%]\n"


@pytest.fixture
def log(path: Path) -> Log:
    return stenolog.open(path)


def stored(path: Path, position: int = 2) -> tuple[Any, ...]:
    """Return size and state of an entry of the conversation; the first one opens it."""
    statement = "SELECT size, state FROM stored_events WHERE originator_version = ?"
    with closing(sqlite3.connect(path)) as connection:
        return tuple(connection.execute(statement, (position,)).fetchone())


def change(path: Path, size: object, state: object) -> None:
    statement = "UPDATE stored_events SET size = ?, state = ? WHERE originator_version = 2"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, (size, state))


def long_result(lines: int = 400) -> ToolResult:
    return ToolResult(call_id="c", text=LINE * lines)


@given(
    st.binary(max_size=3 * LONG)
    | st.builds(lambda text, n: text * n, st.binary(max_size=9), st.integers(0, 999))
)
def test_any_payload_comes_back_as_it_was(payload: bytes) -> None:
    state, size = compressed(payload)

    assert size in (None, len(payload))
    assert (state if size is None else decompressed(state, size)) == payload
    assert len(state) <= len(payload)


def test_a_long_payload_takes_less_of_the_file_and_its_length_stands_beside_it(log: Log, path: Path) -> None:
    entry = log["demo"].append(long_result())
    _, payload = dump_event(entry.event)

    size, state = stored(path)
    assert size == len(payload)
    assert len(state) < len(payload) / 20
    assert zlib.decompress(state) == payload


@pytest.mark.parametrize(
    "event",
    [
        UserMessage(text="Which test fails?"),
        erasure_message([*range(2, 400)], by="the office", reason="asked"),
    ],
    ids=["short", "erasure"],
)
def test_short_ones_and_those_that_are_looked_for_in_the_file_stay_plain(
    event: Event, log: Log, path: Path
) -> None:
    log["demo"].append(event)

    assert stored(path) == (None, dump_event(event)[1])


def test_what_does_not_get_shorter_stays_plain() -> None:
    noise = Random(1).randbytes(2 * LONG)

    assert compressed(noise) == (noise, None)


def test_every_reader_has_the_payload_itself(log: Log, tmp_path: Path) -> None:
    conversation = log["demo"]
    entry = conversation.append(long_result())
    payload = dump_event(entry.event)[1]
    (record,) = conversation.records(after=1)

    assert (record.payload, record.size) == (payload, len(payload))
    assert [one.event for one in conversation.entries(after=1)] == [entry.event]
    assert conversation.entry_by_id(entry.id) == entry
    assert conversation.fork().entry(2).event == entry.event
    assert log.recorder.select_events("demo")[1].state == payload
    assert log.recorder.select_notifications(2, 1)[0].state == payload
    assert log.recorder.committed(1)[0].payload == payload
    assert [hit.conversation for hit in log.search("oven")][:1] == ["demo"]
    log.backup(tmp_path / "copy.db")
    with stenolog.open(tmp_path / "copy.db") as copy:
        assert copy["demo"].entry(2) == entry
        assert verify(copy).ok


def test_a_blob_that_only_a_compressed_payload_names_stays(log: Log) -> None:
    sha = log.blobs.put(b"a picture")
    entry = log["demo"].append(UserMessage(parts=[TextPart(text=LINE * 100), ImagePart(blob=sha)]))

    assert log.collect().blobs == 0
    log["demo"].erase(entry.position, reason="asked")
    assert sha not in log.blobs


def test_a_file_of_the_format_before_has_its_entries_plain_and_takes_on_new_ones(path: Path) -> None:
    with stenolog.open(path) as log:
        log["demo"].append(long_result(100))
    size, state = stored(path)
    change(path, None, decompressed(state, size))
    with closing(sqlite3.connect(path)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute(f"PRAGMA user_version = {version - schema.VERSION + 4}")

    with stenolog.open(path) as log:
        log["demo"].append(long_result(101))
        events = [one.event for one in log["demo"].entries(after=1)]
        assert events == [long_result(100), long_result(101)]
        assert verify(log).ok
    assert [stored(path, position)[0] is None for position in (2, 3)] == [True, False]


class TestDamaged:
    @pytest.mark.parametrize("lost", [0, 1, 20, -1], ids=["first byte", "header", "middle", "checksum"])
    def test_compressed_bytes_are_told_as_damaged(self, lost: int, log: Log, path: Path) -> None:
        log["demo"].extend([long_result(), UserMessage(text="And then?")])
        size, state = stored(path)
        damaged = bytearray(state)
        damaged[lost] ^= 0x40
        change(path, size, bytes(damaged))

        with stenolog.open(path) as again:
            events = [entry.event for entry in again["demo"].entries(after=1)]
            assert isinstance(events[0], Damaged)
            assert events[1] == UserMessage(text="And then?")
            assert {problem.position for problem in verify(again).problems} == {2}

    @pytest.mark.parametrize("size", [0, 1, -5, 2**40, "many", 2.5])
    def test_a_length_that_is_not_theirs_as_well(self, size: object, log: Log, path: Path) -> None:
        log["demo"].append(long_result())
        change(path, size, stored(path)[1])

        with stenolog.open(path) as again:
            (entry,) = again["demo"].entries(after=1)
            assert isinstance(entry.event, Damaged)
            assert not verify(again).ok

    @pytest.mark.parametrize("column", ["state", "size"])
    def test_a_value_that_became_a_text_that_is_none_costs_its_own_entry_alone(
        self, column: str, log: Log, path: Path
    ) -> None:
        log["demo"].extend([long_result(), UserMessage(text="And then?")])
        with closing(sqlite3.connect(path)) as connection, connection:
            statement = f"UPDATE stored_events SET {column} = CAST(? AS TEXT) WHERE originator_version = 2"
            connection.execute(statement, (b"\xff" + stored(path)[1],))

        with stenolog.open(path) as again:
            first, second = (entry.event for entry in again["demo"].entries(after=1))
            assert isinstance(first, Damaged)
            assert second == UserMessage(text="And then?")
            assert [hit.position for hit in again.search("then")] == [3]
            assert {problem.position for problem in verify(again).problems if problem.conversation} == {2}

    def test_bytes_behind_the_end_as_well(self, log: Log, path: Path) -> None:
        log["demo"].append(long_result())
        size, state = stored(path)
        change(path, size, state + b"a foreign text")

        assert [problem.code for problem in verify(log).problems] == ["digest", "payload"]
        assert isinstance([*log["demo"].entries()][1].event, Damaged)

    def test_bytes_that_would_fill_the_memory_do_not(self, log: Log, path: Path) -> None:
        log["demo"].append(long_result())
        bomb = zlib.compress(bytes(200_000_000))
        change(path, stored(path)[0], bomb)

        with stenolog.open(path) as again:
            tracemalloc.start()
            (entry,) = again["demo"].entries(after=1)
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert isinstance(entry.event, Damaged)
        assert most < 20_000_000

    def test_many_such_rows_are_unpacked_a_page_at_a_time(self, log: Log, path: Path) -> None:
        log["demo"].extend([long_result()] * 40)
        change(path, 4_000_000, zlib.compress(bytes(4_000_000)))
        with closing(sqlite3.connect(path)) as connection, connection:
            like = "(SELECT {} FROM stored_events WHERE originator_version = 2)"
            connection.execute(
                f"UPDATE stored_events SET size = {like.format('size')}, state = {like.format('state')} "
                "WHERE originator_version > 2"
            )
        log.close()
        reads: list[Callable[[Log], Iterable[object]]] = [
            lambda log: log["demo"].entries(),
            lambda log: log.recorder.committed(0),
        ]
        for read in reads:
            with stenolog.open(path) as opened:
                tracemalloc.start()
                assert len([None for _ in read(opened)]) > 1
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
            assert peak < 40_000_000

    def test_a_salvage_brings_back_what_was_compressed(self, log: Log, path: Path, tmp_path: Path) -> None:
        entry = log["demo"].append(long_result())
        log.close()
        with path.open("r+b") as file:
            file.write(b"\0" * 16)  # the header of the file: SQLite cannot open it

        done = stenolog.maintenance.salvage(path, tmp_path / "new.db")
        with stenolog.open(done.path) as again:
            assert again["demo"].entry(2).event == entry.event
            assert verify(again).ok
