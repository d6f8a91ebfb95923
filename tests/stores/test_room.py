"""The write-ahead log is made longer ahead of what is written to it; what is read is the same."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import stenolog
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.store.sqlite.turn.datastore import WAL_BYTES
from stenolog.adapters.store.sqlite.turn.transaction import STEP, WalPreallocator
from tests.stores.conftest import said, texts


def wal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def test_there_is_room_for_the_next_appends(path: Path) -> None:
    with stenolog.open(path) as log:
        said(log["demo"], "a")
        long = wal(path).stat().st_size
        said(log["demo"], "b", "c")

        assert wal(path).stat().st_size == long >= STEP


def test_it_does_not_grow_beyond_what_is_used_again_and_again(path: Path) -> None:
    with stenolog.open(path) as log:
        for _ in range(5):
            log["demo"].extend([stenolog.UserMessage(text="x" * 1000)] * 500)

        assert wal(path).stat().st_size < 3 * WAL_BYTES


def test_the_writer_keeps_few_pages_but_writes_what_a_transaction_changes_once(path: Path) -> None:
    with stenolog.open(path) as log:
        with log.datastore.writing() as writer:
            writer.execute("CREATE TABLE others (words BLOB)")
            before = wal(path).stat().st_size
            writer.executemany("INSERT INTO others VALUES (zeroblob(?))", [(900,)] * 4_000)

            assert wal(path).stat().st_size - before < STEP
        kept = {log.datastore.connect(), log.datastore.writer}

        assert sorted(each.execute("PRAGMA cache_size").fetchone()[0] for each in kept) == [-16_000, -2_000]


def test_it_is_moved_into_the_file_before_a_commit_would_make_it_longer_than_the_room(path: Path) -> None:
    with stenolog.open(path, synchronous="normal") as log:
        for number in range(1_500):
            said(log["demo"], f"{number} " + "x y " * 100)

        assert WAL_BYTES // 2 < wal(path).stat().st_size <= WAL_BYTES


def test_where_there_is_no_room_nothing_of_others_is_cut_off(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stenolog.open(path) as log, closing(sqlite3.connect(path, isolation_level=None)) as program:
        said(log["demo"], "a")
        program.execute("CREATE TABLE others (words TEXT)")
        write = os.write

        def full(file: int, words: bytes) -> int:
            if len(words) != STEP:
                return write(file, words)
            program.executemany("INSERT INTO others VALUES (?)", [("x" * 3000,)] * 60)
            raise OSError(28, "No space left on device")

        assert log.datastore.wal_preallocator is not None
        log.datastore.wal_preallocator._end = 0
        monkeypatch.setattr(os, "write", full)
        said(log["demo"], "b")

        assert program.execute("SELECT count(*) FROM others").fetchone() == (60,)
        assert program.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert texts(log["demo"]) == ["a", "b"]


def test_however_often_a_log_is_opened_there_is_room_but_once(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"frames")
    for _ in range(9):
        room = WalPreallocator(str(file), enough=2 * STEP)
        room.make()
        room.close()

    assert file.stat().st_size == len(b"frames") + 2 * STEP


def test_openings_beside_one_that_stays_make_it_no_longer_than_is_used(path: Path) -> None:
    with stenolog.open(path) as log:
        for _ in range(WAL_BYTES // STEP + 9):
            with stenolog.open(path) as other:
                said(other["demo"], "a")

        assert wal(path).stat().st_size < WAL_BYTES + 2 * STEP
        assert verify(log).ok


def test_a_copy_taken_at_any_time_is_whole(path: Path, tmp_path: Path) -> None:
    """As after a crash: nobody has closed anything, and the room is there with nothing in it."""
    with stenolog.open(path) as log:
        for number in range(40):
            said(log["demo"], str(number) * 300)
            copy = tmp_path / f"copy-{number}.db"
            shutil.copy(path, copy)
            shutil.copy(wal(path), wal(copy))
            with stenolog.open(copy) as other:
                assert verify(other).ok
                assert texts(other["demo"]) == [str(n) * 300 for n in range(number + 1)]


def test_other_programs_may_write_too_and_cut_it_short(path: Path) -> None:
    with stenolog.open(path) as log, closing(sqlite3.connect(path, isolation_level=None)) as other:
        for number in range(30):
            said(log["demo"], str(number))
            other.execute("INSERT OR REPLACE INTO tracking VALUES ('other', 0, ?, 0)", (number,))
            if number % 7 == 0:
                other.execute("PRAGMA wal_checkpoint(TRUNCATE)")

        assert verify(log).ok
        assert texts(log["demo"]) == [str(number) for number in range(30)]
        assert other.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_where_nothing_can_be_made_longer_sqlite_does_without(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError("no space left on device")

    with stenolog.open(path) as log:
        monkeypatch.setattr(os, "write", full)
        said(log["demo"], "a", "b")

        assert wal(path).stat().st_size < STEP
        assert texts(log["demo"]) == ["a", "b"]


def test_a_commit_that_waits_for_nothing_needs_no_room(path: Path) -> None:
    with stenolog.open(path, synchronous="normal") as log:
        said(log["demo"], "a")

        assert wal(path).stat().st_size < STEP


def test_what_is_there_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"frames")
    room = WalPreallocator(str(file), enough=2 * STEP)
    for _ in range(9):
        room.make()
        with file.open("ab") as more:
            more.write(b"more")
    room.close()

    content = file.read_bytes()
    assert content.startswith(b"frames" + bytes(STEP) + b"more")
    assert len(content) < 4 * STEP
