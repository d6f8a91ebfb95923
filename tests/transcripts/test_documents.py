"""Files of one JSON document, compressed files, and what files of conversations have in common."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as some

import stenolog
from stenolog import UserMessage
from stenolog.adapters.importers.door import json_lines
from stenolog.adapters.importers.door.json_lines import DEEPEST, JsonLinesReader
from stenolog.errors import CallerError, UnknownFormatError
from stenolog.importers import Record, RecordSpool, files_in, import_file, recognise, size_of
from tests.transcripts.given import Import, lines, user
from tests.transcripts.signing import key

NUMBERS = some.integers() | some.floats(allow_nan=False, allow_infinity=False)
VALUES = some.recursive(
    some.none() | some.booleans() | NUMBERS | some.text(),
    lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
)


def read(raw: bytes) -> tuple[Any, dict[str, int]]:
    """Return a document, and what was mended in it."""
    reading = JsonLinesReader()
    return reading.document(io.BytesIO(raw)), dict(reading.repaired)


def mended(raw: bytes) -> tuple[Any, dict[str, int]]:
    """Return the same, read as text."""
    with mock.patch.object(json_lines, "_sound", side_effect=ValueError):
        return read(raw)


@given(VALUES, some.booleans())
def test_a_sound_document_is_read_as_any_other(value: Any, ascii: bool) -> None:
    raw = json.dumps(value, ensure_ascii=ascii).encode()

    assert repr(read(raw)) == repr(mended(raw)) == repr((value, {}))


@pytest.mark.parametrize(
    ("raw", "value", "repaired"),
    [
        (b"[1e999, -1e999]", ["1e999", "-1e999"], {"NaN and infinities": 2}),
        (b"[NaN]", ["NaN"], {"NaN and infinities": 1}),
        (b'["\\ud800"]', ["\ufffd"], {"lone surrogates": 1}),
        (b'["\xff"]', ["\ufffd"], {"bytes that are not UTF-8": 1}),
        (b'\xef\xbb\xbf{"a": 1, "b": 2, "a": 3}\n', {"a": 3, "b": 2}, {}),
        (b'{"a": 1, "b": 2, "a": 3}\0', {"a": 3, "b": 2}, {}),
        (b'["\\ud83d\\ude00", 123456789012345678901234567890]', ["😀", 123456789012345678901234567890], {}),
    ],
)
def test_what_can_be_mended_is(raw: bytes, value: Any, repaired: dict[str, int]) -> None:
    assert read(raw) == (value, repaired)
    assert json.dumps(read(raw)[0]) == json.dumps(value)


@pytest.mark.parametrize("inside", ["", "1", '"]["'])
def test_nesting_ends_where_it_ends_on_a_line(inside: str) -> None:
    deepest = "[" * DEEPEST + inside + "]" * DEEPEST

    assert read(deepest.encode()) == (json.loads(deepest), {})
    with pytest.raises(UnknownFormatError, match="deeper nesting"):
        read(f"[{deepest}]".encode())


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
    import zstandard

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


EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
FILES = ["neurocrew.json", "nostr.jsonl", "workflow.csv", "crewagent/conversations", "session.jsonl"]


@pytest.mark.parametrize("file", FILES)
def test_progress_goes_up_to_the_bytes_of_any_file(file: str) -> None:
    done: list[int] = []
    with stenolog.open(":memory:") as log:
        import_file(log, EXAMPLES / file, progress=done.append)

    assert len(done) > 2
    assert done == sorted(done)
    assert done[-1] == size_of(EXAMPLES / file) > 0


@pytest.mark.parametrize("file", ["neurocrew.json", "crewagent/conversations", "session.jsonl"])
def test_agents_are_named_for_events_of_nostr_alone(file: str) -> None:
    with stenolog.open(":memory:") as log, pytest.raises(CallerError, match="expected Nostr events"):
        import_file(log, EXAMPLES / file, agents={key("coder"): "coder"})


def test_what_is_skipped_is_told_by_its_place_in_the_list(into: Import) -> None:
    messages = [{"role": "user", "content": "Hi", "includeInContext": True}, 5]

    (skipped,) = into.file(json.dumps(messages).encode()).report.conversations[0].skipped

    assert (skipped.unit, skipped.line) == ("message", 2)
