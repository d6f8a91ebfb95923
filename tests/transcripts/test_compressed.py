"""Transcripts that are compressed are read as those that are not, whatever their format."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from stenolog import UserMessage
from stenolog.importers import Record, RecordSpool, files_in, recognise
from tests.transcripts.given import Import, lines, user

SESSION = lines(user("u1", None, "Hi"), user("u2", "u1", "More"))


def texts(into: Import) -> list[str]:
    return [event.text for event in into.said if isinstance(event, UserMessage)]


def test_a_compressed_file_is_recognised_imported_and_known_again(into: Import, tmp_path: Path) -> None:
    into.file(gzip.compress(SESSION), "talk.jsonl.gz")
    assert (into.report.format, texts(into)) == ("claude-code", ["Hi", "More"])
    assert recognise(tmp_path / "talk.jsonl.gz") == "claude-code"
    into.file(SESSION, "talk.jsonl")
    assert [found.appended for found in into.report.conversations] == [0]


def test_a_file_whose_end_is_cut_off_yields_what_stands_before_the_cut(into: Import) -> None:
    many = lines(user("u1", None, "Hi"), *(user(f"v{n}", "u1", f"{n * n} loaves") for n in range(2000)))
    content = gzip.compress(many)
    into.file(content[: len(content) // 2], "talk.jsonl.gz")

    assert 1 < len(texts(into)) < 2000
    into.file(content, "talk.jsonl.gz")
    assert len(texts(into)) == 2001


def test_a_file_of_several_frames_is_read_to_its_end(into: Import, tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard", reason="no package that writes Zstandard is installed")
    frames = [zstandard.compress(line) for line in SESSION.splitlines(keepends=True)]
    into.file(b"".join(frames), "session.jsonl.zstd")

    assert texts(into) == ["Hi", "More"]
    assert [file.name for file in files_in(tmp_path)] == ["session.jsonl.zstd"]
    with zstandard.open(tmp_path / "whole.zstd", "wb") as file:
        file.write(SESSION)
    broken = b"".join(frames)[:-9]
    into.file(broken, "cut.jsonl.zstd")
    assert [(found.appended, found.already) for found in into.report.conversations] == [(0, 2)]


def test_records_on_disk_can_be_gone_through_again_and_keep_their_lines() -> None:
    spool = RecordSpool()
    records = [Record(str(n), {"n": n, "words": "é" * 3000, "odd": "\ud800"}) for n in range(1, 2001)]
    for record in records:
        spool.add("even" if record.number % 2 == 0 else "odd", record)

    assert list(spool) == ["odd", "even"]
    assert list(spool.records("even")) == list(spool.records("even")) == records[1::2]
    assert list(spool.records("none")) == []
