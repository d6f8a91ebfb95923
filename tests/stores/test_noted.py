"""A log that is shorter than it was, or another one, is refused when it is opened, and nothing is changed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

import stenolog
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.store.sqlite.turn import durable_head
from stenolog.errors import CorruptLogError, StoreError
from tests.forked import python
from tests.stores.conftest import said, texts

KILLED = """
import os, signal, sys
import stenolog
from stenolog import UserMessage
log = stenolog.open(sys.argv[1])
log["demo"].extend([UserMessage(text=f"m{n}" + "x" * 100) for n in range(20)])
if len(sys.argv) > 2:
    log.backup(sys.argv[2])
for n in range(40):
    log["demo"].append(UserMessage(text=f"n{n}" + "x" * 300))
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(path: Path, *backup: Path) -> None:
    """Leave a log of 61 entries whose process was killed, with a write-ahead log."""
    ran = subprocess.run(python("-c", KILLED, str(path), *map(str, backup)), check=False)
    assert ran.returncode == -signal.SIGKILL


def beside(path: Path, end: str) -> Path:
    return path.with_name(f"{path.name}-{end}")


def content(path: Path) -> dict[str, bytes]:
    """Return the bytes of the file and of its write-ahead log."""
    there = [each for each in (path, beside(path, "wal")) if each.exists()]
    return {each.name: each.read_bytes() for each in there if each.stat().st_size}


def refused(path: Path, match: str) -> None:
    """Expect that opening is refused twice, and that neither file is touched."""
    before = content(path)
    for _ in range(2):
        with pytest.raises(CorruptLogError, match=match):
            stenolog.open(path)
    assert content(path) == before


def test_a_log_whose_process_was_killed_opens_as_ever(path: Path) -> None:
    killed(path)

    for _ in range(2):
        with stenolog.open(path) as log:
            assert log["demo"].position == 61
            assert verify(log).ok


def test_a_flipped_bit_in_the_write_ahead_log_is_found_or_harmless(path: Path, tmp_path: Path) -> None:
    killed(path)
    chance, found = random.Random(7), 0
    written = beside(path, "wal").read_bytes().rstrip(b"\0")
    for number in range(40):
        copy = tmp_path / f"{number}.db"
        damaged = bytearray(written)
        bit = chance.randrange(len(damaged) * 8)
        damaged[bit // 8] ^= 1 << bit % 8
        shutil.copy(path, copy)
        shutil.copy(beside(path, "lock"), beside(copy, "lock"))
        beside(copy, "wal").write_bytes(damaged)
        try:
            with stenolog.open(copy) as log:
                assert log["demo"].position == 61
        except CorruptLogError:
            found += 1

    assert found > 30


@pytest.mark.parametrize("done", ["deleted", "emptied", "cut"])
def test_a_write_ahead_log_that_is_gone_is_found(path: Path, done: str) -> None:
    killed(path)
    wal = beside(path, "wal")
    if done == "deleted":
        wal.unlink()
    else:
        os.truncate(wal, 0 if done == "emptied" else wal.stat().st_size // 3)

    refused(path, r"expected a log up to entry 61 .* found .* restore")


def test_a_file_of_no_bytes_beside_the_note_of_a_log_is_no_new_log(path: Path) -> None:
    with stenolog.open(path) as log:
        said(log["demo"], "a")
    os.truncate(path, 0)

    refused(path, "expected a log up to entry 2 .* found an empty file")


def test_a_write_ahead_log_without_its_file_is_not_thrown_away(path: Path) -> None:
    killed(path)
    path.unlink()

    refused(path, "found no file, only its write-ahead log")


def test_where_a_log_was_removed_a_new_one_begins(path: Path) -> None:
    with stenolog.open(path) as log:
        said(log["demo"], "a", "b")
    path.unlink()

    for expected in (["c"], ["c", "c"]):
        with stenolog.open(path) as log:
            said(log["demo"], "c")
            assert texts(log["demo"]) == expected


def test_a_log_replaced_by_an_older_copy_is_found(path: Path, tmp_path: Path) -> None:
    with stenolog.open(path) as log:
        said(log["demo"], "a")
        log.backup(tmp_path / "copy.db")
        said(log["demo"], "b")
    shutil.copy(tmp_path / "copy.db", path)

    refused(path, "expected a log up to entry 3 .* found entry 2 as the last")


def test_a_log_replaced_by_another_one_is_found(path: Path, tmp_path: Path) -> None:
    for each, words in ((path, "a"), (tmp_path / "other.db", "bcdef")):
        with stenolog.open(each) as log:
            said(log["demo"], *words)
    shutil.copy(tmp_path / "other.db", path)

    refused(path, "another log")


def test_a_copy_that_went_its_own_way_is_found_though_it_is_longer(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with stenolog.open(path) as log:
        said(log["demo"], "a")
        log.backup(copy)
        said(log["demo"], "b")
    with stenolog.open(copy) as log:
        said(log["demo"], *"cdefg")
    shutil.copy(copy, path)

    refused(path, "another entry 3")


def test_a_write_ahead_log_of_another_file_is_refused_before_it_is_replayed(
    path: Path, tmp_path: Path
) -> None:
    killed(path, tmp_path / "copy.db")
    shutil.copy(tmp_path / "copy.db", path)

    refused(path, "expected the database file that .*-wal belongs to, found another one")


def test_a_copy_put_in_place_goes_on_once_its_note_is_forgotten(path: Path, tmp_path: Path) -> None:
    killed(path, tmp_path / "copy.db")
    shutil.copy(tmp_path / "copy.db", path)
    beside(path, "wal").unlink()
    beside(path, "shm").unlink()
    durable_head.forget(path)

    with stenolog.open(path) as log:
        assert log["demo"].position == 21
        said(log["demo"], "more")
    with stenolog.open(path) as log:
        assert log["demo"].position == 22


def test_a_copy_as_long_as_the_log_takes_its_place_and_its_own_write_ahead_log_counts(
    path: Path, tmp_path: Path
) -> None:
    with stenolog.open(path) as log:
        said(log["demo"], "a")
        log.backup(tmp_path / "copy.db")
    shutil.copy(tmp_path / "copy.db", path)
    stenolog.open(path).close()
    killed(path)

    with stenolog.open(path) as log:
        assert log["demo"].position == 62


class TestNeverTooMuch:
    """A good log is not refused, whenever its process was killed."""

    def test_between_a_commit_and_its_note(self, path: Path) -> None:
        lock = beside(path, "lock")
        older: list[bytes] = []
        with stenolog.open(path) as log:
            said(log["demo"], "a")
            older.append(lock.read_bytes())
            said(log["other"], "b")
            older.append(lock.read_bytes())
            log["other"].delete()
            older.append(lock.read_bytes())
            log["demo"].rename("new")
            log["new"].fork(name="branch")
            said(log["branch"], "c")
            log["branch"].delete()
        assert len(set(older)) == 3
        for note in older:
            lock.write_bytes(note)
            with stenolog.open(path) as log:
                assert texts(log["new"]) == ["a"]
                assert verify(log).ok

    @pytest.mark.parametrize("note", [b"", b"\0" * 256, b"torn", None])
    def test_without_a_note_that_is_whole(self, path: Path, note: bytes | None) -> None:
        lock = beside(path, "lock")
        with stenolog.open(path) as log:
            said(log["demo"], "a")
        lock.write_bytes(lock.read_bytes()[:90] + b"x" * 22 if note is None else note)

        with stenolog.open(path) as log:
            assert texts(log["demo"]) == ["a"]

    def test_where_a_power_cut_may_take_the_last_entries_nothing_is_noted(self, path: Path) -> None:
        with stenolog.open(path, synchronous="normal") as log:
            said(log["demo"], "a")
        assert durable_head.read(str(path)) is None

    def test_where_only_claims_drafts_or_names_were_written(self, path: Path) -> None:
        with stenolog.open(path) as log:
            said(log["demo"], "a")
            log["demo"].archive()
            with log.datastore.writing() as connection:
                connection.execute("DELETE FROM claims")
        with stenolog.open(path) as log:
            assert verify(log).ok


def test_verify_compares_the_log_with_its_note(path: Path) -> None:
    with stenolog.open(path) as log:
        said(log["demo"], "a")
        note = durable_head.read(str(path))
        assert note is not None
        beside(path, "lock").write_bytes(durable_head.packed(note._replace(entry=9)))

        (problem,) = verify(log).problems
    assert (problem.code, problem.expected) == ("noted", "a log up to entry 9 and record 1 of its history")
    assert problem.found == "entry 2 as the last"


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_log_whose_file_is_gone_acknowledges_nothing_more(path: Path, tmp_path: Path, how: str) -> None:
    with stenolog.open(path) as log:
        said(log["demo"], "a")
        log.backup(tmp_path / "copy.db")
        if how == "removed":
            path.unlink()
        else:
            (tmp_path / "copy.db").replace(path)

        for write in (
            lambda: said(log["demo"], "b"),
            lambda: log["demo"].rename("new"),
            lambda: log.blobs.put(b"x"),
        ):
            with pytest.raises(StoreError, match="expected the file that was opened, found"):
                write()
