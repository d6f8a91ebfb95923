"""The journal of a tap: what was written is read, a torn tail ends a segment, and a failure leaves a gap."""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stenolog.apps.tap import journal_writer
from stenolog.apps.tap.journal import HEADER, MAGIC, READ_BYTES, JournalReader, JournalRecord, segments
from stenolog.apps.tap.journal_writer import JournalEntry, JournalWriter

PATIENCE = 20.0


def exchange(number: int, *data: bytes) -> list[JournalEntry]:
    """Return the entries of an exchange with these parts of an answer."""
    entries = [JournalEntry("request", number, b'{"id":"%d"}' % number, True)]
    entries += [JournalEntry("data", number, part, True) for part in data]
    return [*entries, JournalEntry("end", number, b'{"reason":""}', True)]


def committed(writer: JournalWriter, entries: list[JournalEntry]) -> str:
    """Append entries, wait for the disk, and return the problem."""
    done, problems = threading.Event(), []

    def note(problem: str) -> None:
        problems.append(problem)
        done.set()

    writer.put([*entries, note])
    assert done.wait(PATIENCE)
    return problems[0]


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[JournalWriter]:
    """Return a writer with small segments."""
    made = JournalWriter(tmp_path / "run", 1, segment_bytes=1000)
    yield made
    made.close()


def parts(records: list[JournalRecord]) -> list[tuple[str, int, bytes]]:
    return [(record.kind, record.exchange, record.payload) for record in records]


def entry_parts(entries: list[JournalEntry]) -> list[tuple[str, int, bytes]]:
    return [(entry.kind, entry.exchange, entry.payload) for entry in entries]


def test_records_are_read_in_the_order_of_writing_across_segments(writer: JournalWriter) -> None:
    written = [entry for number in range(50) for entry in exchange(number, b"x" * number, b"")]
    for at in range(0, len(written), 7):
        assert committed(writer, written[at : at + 7]) == ""

    assert parts(list(JournalReader(writer.folder))) == entry_parts(written)
    assert len(segments(writer.folder)) > 5


def test_records_larger_than_what_is_read_at_once_are_read_one_after_the_other(tmp_path: Path) -> None:
    made = JournalWriter(tmp_path / "run", 1)
    written = exchange(1, *(bytes([at]) * READ_BYTES for at in range(3)))
    assert committed(made, written) == ""
    made.close()

    assert parts(list(JournalReader(made.folder))) == entry_parts(written)


def test_a_payload_that_is_not_to_stay_in_memory_is_read_back(writer: JournalWriter) -> None:
    entries = [JournalEntry("body", 1, bytes([at]) * 700, in_memory=False) for at in range(5)]
    committed(writer, [*entries])

    assert [entry.payload for entry in entries] == [b""] * 5
    assert [entry.load() for entry in entries] == [bytes([at]) * 700 for at in range(5)]


@pytest.mark.parametrize("damage", ["cut", "flipped", "zeros"])
def test_a_torn_tail_ends_the_segment_wherever_it_was_torn(tmp_path: Path, damage: str) -> None:
    writer = JournalWriter(tmp_path / "run", 1)
    committed(writer, exchange(1, b"hello"))
    writer.close()
    (path,) = segments(tmp_path / "run")
    data = path.read_bytes()
    ends = [len(MAGIC)]
    for record in JournalReader(tmp_path / "run"):
        ends.append(ends[-1] + HEADER.size + len(record.payload))
    for at in range(len(MAGIC), len(data)):
        torn = {"cut": data[:at], "flipped": data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :],
                "zeros": data[:at] + bytes(len(data) - at)}  # fmt: skip
        path.write_bytes(torn[damage])
        found = [
            each
            for each in JournalReader(tmp_path / "run")
            if each.time_ns and b"relay-st" not in each.payload
        ]

        # A record that ends with a zero is whole where zeros follow it.
        assert len(found) in {sum(end <= at for end in ends) - 1}


def test_an_exchange_whose_relay_died_gets_an_end_before_the_next_relay_s(tmp_path: Path) -> None:
    first, second = JournalWriter(tmp_path, 1), JournalWriter(tmp_path, 2)
    committed(first, exchange(1, b"part")[:-1])
    committed(second, exchange(2))
    found = parts(list(JournalReader(tmp_path)))
    first.close()
    second.close()

    assert [kind for kind, number, _ in found if number == 1] == ["request", "data", "end"]
    assert [number for _, number, _ in found] == [1, 1, 1, 2, 2]
    assert json.loads(found[2][2]) == {"reason": "relay-stopped", "sha256": ""}


def test_a_reader_follows_until_no_relay_can_write(tmp_path: Path) -> None:
    readable, writable = os.pipe()
    writer = JournalWriter(tmp_path, 1, writable)
    found: list[JournalRecord] = []
    news = threading.Semaphore(0)

    def follow() -> None:
        for record in JournalReader(tmp_path, readable):
            found.append(record)
            news.release()

    following = threading.Thread(target=follow)
    following.start()
    for number in range(1, 6):
        committed(writer, exchange(number))
        assert news.acquire(timeout=PATIENCE)
        assert news.acquire(timeout=PATIENCE)
    writer.close()
    os.close(writable)
    following.join(PATIENCE)
    os.close(readable)

    assert [record.exchange for record in found] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_a_segment_goes_once_all_of_its_exchanges_are_recorded_and_at_last_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "taps" / "run"
    writer = JournalWriter(folder, 1, segment_bytes=1000)
    for number in range(20):
        committed(writer, exchange(number, b"x" * 300))
    writer.close()
    reader = JournalReader(folder)
    left = []
    for record in reader:
        if record.kind == "end" and record.exchange != 7:
            reader.done(record.exchange)
            left.append(len(segments(folder)))
    reader.done(19)
    alone = len(segments(folder))
    reader.done(7)
    reader.close()

    assert left == sorted(left, reverse=True)
    assert alone == 1
    assert not (tmp_path / "taps").exists()


def test_a_recorder_that_was_killed_reads_what_it_had_not_recorded(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path / "run", 1, segment_bytes=1000)
    for number in range(10):
        committed(writer, exchange(number, b"x" * 300))
    writer.close()
    killed = JournalReader(tmp_path / "run")
    for record in killed:
        if record.kind == "end":
            killed.done(record.exchange)
            if record.exchange == 5:
                break
    killed.close()

    assert {5, 6, 7, 8, 9} - {each.exchange for each in JournalReader(tmp_path / "run")} <= {5}


class FullDisk:
    """A disk that takes nothing while it is full, in the middle of a write too."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        self.part = 0
        self._writev = os.writev
        monkeypatch.setattr(os, "writev", self.writev)
        monkeypatch.setattr(os, "write", self._write_or_fail(os.write))

    def writev(self, number: int, buffers: Any) -> int:
        """Write all, or a part and then nothing."""
        if not self.full:
            return self._writev(number, buffers)
        if not self.part:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._writev(number, [b"".join(buffers)[: self.part]])

    def _write_or_fail(self, write: Callable[[int, Any], int]) -> Callable[[int, Any], int]:
        def written(number: int, data: Any) -> int:
            if self.full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write(number, data)

        return written


@pytest.mark.parametrize("part", [0, 10, 27])
def test_a_full_disk_leaves_a_gap_with_its_reason_and_the_number_of_exchanges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.setattr(journal_writer, "RETRY_SECONDS", 0)
    disk = FullDisk(monkeypatch)
    writer = JournalWriter(tmp_path / "run", 1)
    assert committed(writer, exchange(1, b"before")) == ""
    assert committed(writer, exchange(2, b"cut")[:1]) == ""
    disk.full, disk.part = True, part
    assert "No space left" in committed(writer, [JournalEntry("data", 2, b"lost", True)])
    assert "No space left" in committed(writer, exchange(3, b"lost"))
    assert "No space left" in committed(writer, exchange(4, b"lost")[:1])
    disk.full = False
    assert (
        committed(writer, [*exchange(4)[1:], JournalEntry("end", 2, b"{}", True), *exchange(5, b"after")])
        == ""
    )
    writer.close()
    found = list(JournalReader(tmp_path / "run"))
    (gap,) = (json.loads(record.payload) for record in found if record.kind == "gap")
    kinds = {number: [record.kind for record in found if record.exchange == number] for number in range(6)}

    assert (gap["reason"], gap["exchanges"]) == ("No space left on device", 3)
    assert kinds == {0: [], 1: ["request", "data", "end"], 2: ["request", "end"], 3: [], 4: [],
                     5: ["request", "data", "end"]}  # fmt: skip
    assert [record.payload for record in found if record.kind == "end" and record.exchange == 2] == [
        b'{"reason":"not-recorded: No space left on device","sha256":""}'
    ]


def test_a_folder_that_was_deleted_is_made_again_with_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_writer, "RETRY_SECONDS", 0)
    writer = JournalWriter(tmp_path / "taps" / "run", 1)
    committed(writer, exchange(1))
    shutil.rmtree(tmp_path / "taps")
    assert "deleted" in committed(writer, exchange(2))
    assert committed(writer, exchange(3)) == ""
    writer.close()

    found = list(JournalReader(tmp_path / "taps" / "run"))
    assert [record.kind for record in found] == ["gap", "request", "end"]


def test_a_gap_is_written_at_the_end_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk(monkeypatch)
    writer = JournalWriter(tmp_path / "run", 1)
    disk.full = True
    committed(writer, exchange(1))
    disk.full = False
    writer.close()

    assert [record.kind for record in JournalReader(tmp_path / "run")] == ["gap"]
