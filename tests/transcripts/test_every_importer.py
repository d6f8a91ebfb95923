"""What the importer of every format is held to, on a made-up conversation of each and on recorded ones."""

from __future__ import annotations

import json
import sqlite3
import tracemalloc
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

import stenolog
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.errors import UnknownFormatError
from stenolog.importers import JsonLinesReader, Report, import_file
from stenolog.plugins import IMPORTERS
from stenolog.projections.requests.proofs import invalid_requests
from tests.requests.judging import SHARED
from tests.transcripts.acceptance import (
    assert_accepted,
    assert_again_adds_nothing,
    assert_goes_on,
    assert_nothing_lost,
    held_in,
    is_in,
    last_requests,
)
from tests.transcripts.programs_given import bubble, write_cursor
from tests.transcripts.samples import RECORDED, SAMPLES, Recorded, Sample, said_in

ODD: list[Any] = [None, 1, "x", [], {}, {"a": [1]}, [None, {"type": "text"}], True, -1.5, "\ud800"]
DOCUMENTS = [
    one
    for one in SAMPLES
    if one.name
    in (
        "adk",
        "adk-evaluation",
        "ai-sdk-1",
        "amp",
        "atif",
        "cline",
        "inspect-ai",
        "mini",
        "openhands-run",
        "swe-agent",
    )
]
NOBODY = "expected a conversation, found a scenario that a model is to play"
IDS = ("id", "uuid", "step_id", "seq")
each_sample = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
each_recorded = pytest.mark.parametrize("recorded", RECORDED, ids=lambda one: one.path.name[-30:])


@each_sample
def test_a_file_is_taken_in_whole_and_once_and_every_request_is_accepted(
    sample: Sample, tmp_path: Path
) -> None:
    path = sample.file(tmp_path)

    assert_nothing_lost(path, said_in(path, sample.silent))
    assert_again_adds_nothing(path, sample.format)
    assert_accepted(path)


@each_recorded
def test_a_recorded_file_is_taken_in_whole_and_once(recorded: Recorded) -> None:
    assert_nothing_lost(recorded.path, said_in(recorded.path, recorded.silent))
    assert_again_adds_nothing(recorded.path, recorded.format)


@pytest.mark.slow
@each_recorded
def test_every_request_of_a_recorded_file_is_accepted_and_it_goes_on_where_it_was_cut(
    recorded: Recorded, tmp_path: Path
) -> None:
    path, size = recorded.path, recorded.path.stat().st_size

    if recorded.every:
        assert_accepted(path, every=recorded.every)
    if path.suffix == ".jsonl" and recorded.format != "openhands":
        assert_goes_on(path, tmp_path, range(size // 9, size, size // 9))


@pytest.mark.parametrize("name", ["goose-database", "opencode-db", "openai-agents", "cursor"])
def test_the_program_of_a_database_can_write_to_it_while_it_is_imported(name: str, tmp_path: Path) -> None:
    path = next(each for each in SAMPLES if each.name == name).file(tmp_path)
    read = IMPORTERS[name.removesuffix("-database")].read
    assert read is not None
    with path.open("rb") as stream, closing(sqlite3.connect(path, timeout=0)) as program:
        program.execute("PRAGMA journal_mode = DELETE")  # in which a reader keeps others from writing
        conversations = read(stream, JsonLinesReader())
        next(conversations)
        program.execute("CREATE TABLE more (id)")
        program.commit()
        list(conversations)


def test_of_a_large_database_of_cursor_one_conversation_is_held_at_a_time(tmp_path: Path) -> None:
    heads = {
        f"composerData:c{n}": {"createdAt": n, "conversation": [bubble("b", 1, "x" * 100_000)]}
        for n in range(80)
    }
    path = write_cursor(tmp_path, [bubble("b", 1, "Hi")], heads)
    read = IMPORTERS["cursor"].read
    assert read is not None
    with path.open("rb") as stream:
        tracemalloc.start()
        count = sum(1 for _ in read(stream, JsonLinesReader()))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert count == 81
    assert peak < path.stat().st_size / 4


@each_sample
def test_a_file_that_grows_record_by_record_gives_the_same_requests(sample: Sample, tmp_path: Path) -> None:
    every = range(sample.first, len(sample.records) + 1)

    def after(*counts: int) -> object:
        return last_requests(sample.file(tmp_path, sample.records[:number]) for number in counts)

    whole = after(every[-1])
    assert after(*every) == whole
    for number in every:
        assert after(number, every[-1]) == whole, f"cut behind record {number}"


@pytest.mark.parametrize(
    "sample", [one for one in SAMPLES if one.write.__name__ == "on_lines"], ids=lambda s: s.name
)
def test_a_file_of_lines_that_is_cut_anywhere_goes_on(sample: Sample, tmp_path: Path) -> None:
    path = sample.file(tmp_path)
    size = path.stat().st_size

    assert_goes_on(path, tmp_path, range(size // 23, size, size // 23))


@pytest.mark.parametrize("sample", [one for one in SAMPLES if one.has_ids], ids=lambda sample: sample.name)
def test_a_record_that_comes_again_is_taken_once(sample: Sample, tmp_path: Path) -> None:
    once, twice, again = (
        last_requests([sample.file(tmp_path, records)])
        for records in (
            sample.records,
            [record for record in sample.records for _ in range(2)],
            sample.records * 2,
        )
    )

    assert once == twice == again


@pytest.mark.parametrize(
    "sample",
    [one for one in SAMPLES if isinstance(one.records[0], dict) and not one.is_picky],
    ids=lambda sample: sample.name,
)
@pytest.mark.parametrize("most", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_a_value_of_any_shape_costs_its_record_at_most(sample: Sample, tmp_path: Path, most: int) -> None:
    said = said_in(sample.file(tmp_path), sample.silent)
    broken = _broken(sample.records)
    path = sample.file(tmp_path, [*sample.records, *Random(1).sample(broken, min(most, len(broken))), 7])
    with stenolog.open(":memory:") as log:
        report, again = import_file(log, path), import_file(log, path)
        assert verify(log).problems == ()
        words, _ = held_in(log)

    assert {one.failed for one in report.conversations} == {""}
    assert [skip.reason for one in report.conversations for skip in one.skipped] == []
    assert {one.appended for one in again.conversations} == {0}
    assert [what for _, what in said if what.strip() and not is_in(what, words)] == []
    assert_accepted(path, every=97)


@pytest.mark.parametrize("sample", DOCUMENTS, ids=lambda sample: sample.name)
@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_a_document_with_a_value_of_any_shape_is_imported_or_refused(
    sample: Sample, every: int, tmp_path: Path
) -> None:
    path = sample.file(tmp_path)
    document = json.loads(path.read_bytes())
    changed = (
        {**document, name: odd}
        for name, inner in document.items()
        for odd in (*ODD, "\0/", [document], *(_changed(inner) if isinstance(inner, dict) else ()))
    )
    for broken in islice(changed, 0, None, every):
        path.write_text(json.dumps(broken))
        with stenolog.open(":memory:") as log, suppress(UnknownFormatError):
            found, again = import_file(log, path).conversations, import_file(log, path).conversations
            assert {one.failed for one in found} <= {"", NOBODY}
            assert {one.appended for one in again} <= {0}
            problems = [[*invalid_requests(log[name].entries(), blobs=log.blobs)] for name in log.names()]
            assert not any(problems)


def _broken(records: list[Any]) -> list[Any]:
    """Return the records with every value in one of them, whatever its depth, of each other shape."""
    numbers = count(1000)
    return [
        {id: _other(old, number) if id in IDS and old == record[id] else old for id, old in changed.items()}
        for record in records
        if isinstance(record, dict)
        for changed in _changed(record)
        for number in [next(numbers)]
    ]


def _changed(value: Any) -> Iterator[Any]:
    """Yield the value with each value in it of each other shape, missing, or twice."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for place, old in inner:
        for new in (*ODD, *_changed(old)):
            copy = value.copy()
            copy[place] = new
            yield copy
        copy = value.copy()
        del copy[place]
        yield copy
        if isinstance(value, list):
            yield [*value[:place], old, *value[place:]]


def _other(id: Any, number: int) -> Any:
    return f"{id}-{number}" if isinstance(id, str) else number


# Every recorded transcript is imported, or refused by the name of its format: nothing is "unknown".


FOLDER = SHARED / "transcripts"
HERE = FOLDER.is_dir()
ABOUT = ("SOURCES.md", "FORMATS.md", "README.md")
EMPTY = "context-compress-interactive.compress-empty.responses"
REASONS = (
    "which has no importer",
    "found an empty file",
    "which is imported with the folder `storage` that it is from",
)
"""The ends of a refusal that says by name what the file is."""
REFUSED = ("api_wire", "gemini_cli", "goose_wire", "langsmith", "mcp_replay")
"""The folders of recordings of API calls and of servers, in which there is no conversation to continue."""
IMPORTED = ("burr", "claude_code", "claude_code_fixtures", "codex", "tau_bench")
"""The folders all of whose files are conversations."""

SILENT = ["claude_code/ec-38b74f08e3-2.jsonl"]
"""The chats of Gemini CLI in which nobody says anything, which is not what their folder says."""


def transcripts() -> list[Path]:
    """Return all files of all folders."""
    found = (path for path in sorted(FOLDER.rglob("*")) if path.is_file() and path.name not in ABOUT)
    return list(found) if HERE else [Path("absent")]


def outcome(path: Path) -> Report | str:
    """Return the report of an import into an empty log, or the words of the refusal."""
    with stenolog.open(":memory:") as log:
        try:
            return import_file(log, path)
        except UnknownFormatError as error:
            return str(error)


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name[-40:]}"


needs_transcripts = pytest.mark.skipif(not HERE, reason="the transcripts are not beside this checkout")


@needs_transcripts
@pytest.mark.parametrize("path", transcripts(), ids=_name)
def test_a_file_is_imported_or_refused_by_the_name_of_its_format(path: Path) -> None:
    found = outcome(path)
    if isinstance(found, str):
        assert path.parent.name not in IMPORTED
        assert found.endswith(REASONS), found
        assert ("an empty file" in found) == path.name.endswith(EMPTY)
        return

    assert path.parent.name not in REFUSED
    assert [one.failed for one in found.conversations if one.failed] == []
    lost = [skip.reason for one in found.conversations for skip in one.skipped]
    assert [reason for reason in lost if "cannot be taken down" in reason] == []


@needs_transcripts
def test_no_file_but_an_empty_chat_is_imported_without_a_message() -> None:
    silent = [
        _name(path)
        for path in transcripts()
        if path.parent.name in IMPORTED
        and isinstance(found := outcome(path), Report)
        and not found.holds_a_conversation
    ]

    assert silent == SILENT
