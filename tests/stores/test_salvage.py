"""Salvage: whatever happens to a file, its intact entries come into a new log, and none is another."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

import stenolog
from stenolog import AssistantMessage, ToolCall, ToolResult, UserMessage
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.conversation.verifying.salvage import Salvaged, salvage
from stenolog.adapters.store.repair import raw_pages
from stenolog.domain.entry import Record, to_entry
from stenolog.domain.erasure import LOST
from stenolog.domain.errors import CallerError, NotADatabaseError, StenologError
from stenolog.domain.events import Damaged
from tests.file_bytes import words_in
from tests.random_cases import seeds
from tests.stores.conftest import manifold, said, texts

FEW = 40
Damage = Callable[[bytearray, random.Random], None]


class Sound(NamedTuple):
    """A log before it is damaged: its file, its records by conversation and position, and their places."""

    path: Path
    records: dict[str, dict[int, Record]]
    places: dict[tuple[str, int], tuple[tuple[int, int], ...]]
    blobs: dict[str, bytes]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    path = tmp_path_factory.mktemp("sound") / "talks.db"
    with stenolog.open(path) as log:
        conversation = manifold(log, 60)
        fork = conversation.fork(after=4)
        said(fork, "in the fork", "again")
        said(fork.fork(after=6, name="fork of a fork"), "deeper")
        log["talk 1"].delete()
        log["talk 2"].archive()
        log["talk 3"].rename("talk three")
        said(log["gone words"], "harmless", "this is erased")
        log["gone words"].erase(3)
        said(log["z"], "one letter is a name")
        said(log["last"], *(f"last {number}" for number in range(30)))
        names = log.names(archived=True)
        records = {name: {one.position: one for one in log[name].records()} for name in names}
        blobs = dict(log.blobs)
        streams = {log[name].key: name for name in names}
    rows = [row for row in raw_pages.read(path).rows() if row.table == "stored_events"]
    places = {(streams[row.values[1]], row.values[2]): row.ranges for row in rows}
    return Sound(path, records, places, blobs)


def one_bit(content: bytearray, seed: random.Random) -> None:
    bit = seed.randrange(len(content) * 8)
    content[bit // 8] ^= 1 << bit % 8


def one_page(content: bytearray, seed: random.Random) -> None:
    start = seed.randrange(len(content) // 1024) * 1024
    content[start : start + 1024] = seed.choice([bytes(1024), seed.randbytes(1024)])


def half_a_page(content: bytearray, seed: random.Random) -> None:
    start = seed.randrange(len(content) // 512) * 512
    content[start : start + 512] = seed.choice([bytes(512), seed.randbytes(512)])


def a_cut(content: bytearray, seed: random.Random) -> None:
    del content[seed.randrange(1024, len(content)) :]


def one_entry(content: bytearray, seed: random.Random) -> None:
    """Overwrite some bytes in the middle of an entry's words."""
    at = content.find(b"last %d" % seed.randrange(30))
    length = seed.randrange(1, 9)
    content[at : at + length] = seed.randbytes(length)


KINDS: tuple[Damage, ...] = (one_bit, one_page, one_entry, a_cut, half_a_page)


def damaged(sound: Sound, path: Path, seed: int) -> bytearray:
    """Write a damaged copy of the file."""
    content = bytearray(sound.path.read_bytes())
    KINDS[seed % len(KINDS)](content, random.Random(seed))
    path.write_bytes(content)
    return content


def intact(sound: Sound, content: bytearray) -> Iterator[tuple[str, int]]:
    """Yield the entries of which no byte is damaged."""
    before = sound.path.read_bytes()
    for place, ranges in sound.places.items():
        if all(content[start:end] == before[start:end] for start, end in ranges):
            yield place


def same(one: Record, other: Record) -> bool:
    """Return whether two records are the same entry; digests may be others behind damage."""
    return one._replace(digest=b"") == other._replace(digest=b"")


def read(sound: Sound, path: Path) -> None:
    """Read a damaged file as a log, and check that no entry is shown that was not written."""
    copy = path.with_name("read.db")
    shutil.copy(path, copy)
    try:
        with stenolog.open(copy) as log:
            for name in log.names(archived=True):
                for entry in log[name].entries():
                    written = [records.get(entry.position) for records in sound.records.values()]
                    assert isinstance(entry.event, Damaged) or any(
                        one is not None
                        and (one.id, one.digest.hex()) == (entry.id, entry.digest)
                        and entry.event == to_entry("", one).event
                        for one in written
                    ), f"{name!r} at {entry.position} is shown, and was not written"
    except StenologError:
        pass  # of what cannot be read at all, nothing is shown


def check(sound: Sound, content: bytearray, folder: Path) -> None:
    """Read and salvage a damaged file, and check that all that is intact is there and nothing is another."""
    read(sound, folder / "talks.db")
    try:
        done = salvage(folder / "talks.db", folder / "new.db")
    except NotADatabaseError:
        assert not [*intact(sound, content)]
        return
    with stenolog.open(folder / "new.db") as log:
        assert [problem.code for problem in verify(log).problems if problem.code != "blob"] == []
        kept = {name: {one.position: one for one in log[name].records()} for name in log.names(archived=True)}
        blobs = dict(log.blobs)
    found = {(name, at): one for name, records in kept.items() for at, one in records.items()}
    for name, at in intact(sound, content):
        held = [
            one for (_, there), one in found.items() if there == at and same(one, sound.records[name][at])
        ]
        assert held, f"{name!r} at {at} is intact, and was not salvaged: {done}"
    said_so = {(one.name, at) for one in done.conversations for at in one.unproved}
    said_so |= {(one.name, lost.position) for one in done.conversations for lost in one.lost}
    ends = {one.name: one.position for one in done.conversations}  # behind them, lanes are cancelled
    for (name, at), one in found.items():
        if one.topic == LOST:
            assert at in {position for _, position in said_so}  # in a fork, it is the parent's
        is_replaced = b'"meta":{"lost":' in one.payload  # the opening of a fork, which a fork of it inherits
        if one.topic == LOST or is_replaced or (name, at) in said_so or at > ends[name]:
            continue
        assert any(same(one, records.get(at, one._replace(id=""))) for records in sound.records.values()), (
            f"{name!r} at {at} is not what was written"
        )
    assert blobs.items() <= sound.blobs.items()
    digests_hold(sound, done)


def digests_hold(sound: Sound, done: Salvaged) -> None:
    """Check that the digests up to `same_until` are the original ones."""
    with stenolog.open(done.path) as log:
        for one in done.conversations:
            if one.name in sound.records:
                for record in log[one.name].records(at=one.same_until):
                    assert record.digest == sound.records[one.name][record.position].digest


@pytest.mark.parametrize("seed", range(FEW))
def test_every_intact_entry_of_a_damaged_file_is_salvaged_and_none_is_another(
    sound: Sound, tmp_path: Path, seed: int
) -> None:
    check(sound, damaged(sound, tmp_path / "talks.db", seed), tmp_path)


@seeds(0, slow=150, nightly=1_000)
def test_every_intact_entry_of_many_damaged_files_is_salvaged(
    sound: Sound, tmp_path: Path, seeds: range
) -> None:
    for seed in seeds:
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            check(sound, damaged(sound, folder / "talks.db", seed), folder)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        shutil.rmtree(folder)


class TestSalvage:
    """What a salvage does beside reading."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        """Return a log in which the result of a call is damaged, and a fork of it."""
        path = tmp_path / "talks.db"
        with stenolog.open(path) as log:
            demo = log["demo"]
            demo.append(UserMessage(text="go"))
            demo.append(AssistantMessage(agent="a", tool_calls=[ToolCall(id="c", name="pay")]))
            demo.append(ToolResult(call_id="c", text="paid"))
            demo.fork(name="fork").append(UserMessage(text="in the fork"))
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("UPDATE stored_events SET state = x'00' WHERE originator_version = 4")
            connection.commit()
        return path

    def test_a_tool_whose_result_is_lost_does_not_run_again(self, path: Path, tmp_path: Path) -> None:
        done = stenolog.maintenance.salvage(path, tmp_path / "new.db")

        assert [(one.name, one.entries, one.same_until) for one in done.conversations] == [
            ("demo", 3, 3),
            ("fork", 2, 3),
        ]
        assert [lost[:2] for lost in done.conversations[0].lost] == [(4, "its row is damaged")]
        with stenolog.open(done.path) as log:
            assert verify(log).ok
            for conversation in (log["demo"], log["fork"]):
                assert [*conversation.state().open_calls()] == []
                assert conversation.state().lane("a").status == "idle"
                assert [item.kind for item in conversation.timeline() if item.position == 4] == ["damaged"]
            assert "in the fork" in texts(log["fork"])
            assert "lost" in {left.rule for left in log["demo"].request("a").omissions}

    def test_the_damaged_log_stays_as_it_is_and_nothing_is_overwritten(
        self, path: Path, tmp_path: Path
    ) -> None:
        before = path.read_bytes()
        stenolog.maintenance.salvage(path, tmp_path / "new.db")
        assert path.read_bytes() == before
        with pytest.raises(CallerError, match="exists already"):
            stenolog.maintenance.salvage(path, tmp_path / "new.db")
        with pytest.raises(NotADatabaseError, match="found no file"):
            stenolog.maintenance.salvage(tmp_path / "none.db", tmp_path / "newer.db")
        (tmp_path / "text").write_text("no log" * 1000)
        with pytest.raises(NotADatabaseError, match="no conversation"):
            stenolog.maintenance.salvage(tmp_path / "text", tmp_path / "newer.db")
        assert not [*tmp_path.glob("newer.db*")]

    def test_a_sound_log_comes_through_whole(self, sound: Sound, tmp_path: Path) -> None:
        done = salvage(sound.path, tmp_path / "new.db")
        assert done.is_whole
        with stenolog.open(done.path) as log:
            records = {
                name: {one.position: one for one in log[name].records()} for name in log.names(archived=True)
            }
            assert verify(log).ok
            assert "talk 2" not in log.names()
        assert records == sound.records

    def test_what_is_in_the_write_ahead_log_alone_comes_too(self, tmp_path: Path) -> None:
        with stenolog.open(tmp_path / "talks.db") as log:
            said(log["demo"], "a", "b")
            for end in ("", "-wal"):
                shutil.copy(tmp_path / f"talks.db{end}", tmp_path / f"copy.db{end}")
        done = stenolog.maintenance.salvage(tmp_path / "copy.db", tmp_path / "new.db")
        with stenolog.open(done.path) as log:
            assert texts(log["demo"]) == ["a", "b"]

    def test_what_was_deleted_or_erased_does_not_come_back(self, tmp_path: Path) -> None:
        """Not even where another program keeps the bytes of what is deleted."""
        path = tmp_path / "talks.db"
        with stenolog.open(path) as log:
            said(log["demo"], "a", "b")
            said(log["other"], *(f"zebra {number}" for number in range(50)))
        content = path.read_bytes()
        with stenolog.open(path) as log:
            log["other"].delete()
        (tmp_path / "talks.db-wal").write_bytes(b"")
        grown = path.read_bytes()
        path.write_bytes(grown + content[len(content) // 2 // 1024 * 1024 :])
        done = stenolog.maintenance.salvage(path, tmp_path / "new.db")
        assert [one.name for one in done.conversations] == ["demo"]
        assert b"zebra" not in words_in(Path(done.path))

    def test_an_entry_whose_position_has_one_wrong_bit_comes_to_its_place(self, tmp_path: Path) -> None:
        path = tmp_path / "talks.db"
        with stenolog.open(path) as log:
            said(log["demo"], *"abcdefgh")
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("UPDATE stored_events SET originator_version = 5 + 64 WHERE rowid = 5")
            connection.commit()
        done = stenolog.maintenance.salvage(path, tmp_path / "new.db")
        assert done.is_whole
        with stenolog.open(done.path) as log:
            assert texts(log["demo"]) == [*"abcdefgh"]
