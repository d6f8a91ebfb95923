"""Files that are damaged, or no transcripts at all: a clear error or a counted skip, nothing half written."""

from __future__ import annotations

import gzip
import importlib
import json
import sqlite3
import subprocess
import sys
import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest

import stenolog
from stenolog.errors import UnknownFormatError
from stenolog.importers import Report, Skipped, import_file, import_files, sqlite_database, tables_in
from tests.transcripts.given import Import, assistant, lines, record, text, user
from tests.transcripts.hostile_files import ENDLESS, MIB, SECONDS, make, session
from tests.transcripts.soundness import assert_sound, said, with_raw, words

pytestmark = pytest.mark.usefixtures("sound")

MEGABYTE = 2**20
LEVELS = 50_000
DEEP = "[" * LEVELS + "]" * LEVELS
GO = user("u1", None, "Go")
ON = user("u3", "u1", "On")


# Not a transcript


@pytest.mark.parametrize(
    ("content", "found"),
    [
        pytest.param(b"", "an empty file", id="empty"),
        pytest.param(b" \r\n\n\t", "an empty file", id="blank"),
        pytest.param(b"\0" * 5000, "an empty file", id="nul"),
        pytest.param(b"Dear diary,\n", "begins with 'Dear diary", id="text"),
        pytest.param(b"# Notes\n\n{{macro}}\n{ok}\n", "begins with '# Notes", id="text with braces"),
        pytest.param(b"\x89PNG\r\n\x1a\n\0\0", "a file that is no text", id="binary"),
        pytest.param(b"42", "begins with '42'", id="number"),
        pytest.param(b'"hello"', "begins with", id="string"),
        pytest.param(b"null", "begins with", id="null"),
        pytest.param(b"{}", "an empty object", id="object"),
        pytest.param(b'{"a": 1}', "the keys a", id="foreign object"),
        pytest.param(b"[]", "a list of 0 items", id="list"),
        pytest.param(b"[1, [2]]", "a list of 2 items", id="foreign list"),
        pytest.param(b'{"role": "us', "is the file cut off", id="cut off"),
        pytest.param(b'[{"role": "user", "content": "Hi"}, {"ro', "is the file cut off", id="cut off list"),
        pytest.param('{"role": "user"}'.encode("utf-16"), "UTF-16", id="utf-16"),
        pytest.param(DEEP.encode(), "nested deeper than 100 levels", id="deep list"),
        pytest.param(b'{"a":' * LEVELS, "nested deeper than 100 levels", id="deep object"),
        pytest.param(b'[{"role": "user", "content": ' + b"9" * 5000 + b"}]", "not readable", id="digits"),
    ],
)
def test_what_is_no_transcript_is_refused_with_what_was_found(
    into: Import, content: bytes, found: str
) -> None:
    with pytest.raises(UnknownFormatError, match=found):
        into.file(content)

    assert into.log.names(archived=True) == []


def test_a_folder_without_conversations_is_none(into: Import, tmp_path: Path) -> None:
    with pytest.raises(UnknownFormatError, match=r"index\.json or <id>/messages\.json.*talks"):
        import_file(into.log, _folder(tmp_path / "talks"))

    assert list(into.log) == []


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


# Lines that cannot be read


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        pytest.param(b'{"type": "user", "uuid": "u2', "not JSON at column", id="cut off"),
        pytest.param(b"Traceback (most recent call last):", "not JSON at column 1", id="text"),
        pytest.param(b"[1, 2]", "expected an object, found list", id="list"),
        pytest.param(b"7", "expected an object, found int", id="number"),
        pytest.param(b"\0" * 4096, "NUL bytes and nothing else", id="nul"),
        pytest.param(
            with_raw(user("u2", "u1", "@"), b'"a\0b"'), "Invalid control character", id="nul inside"
        ),
        pytest.param(with_raw(user("u2", "u1", "@"), DEEP), "nested deeper than 100 levels", id="deep"),
        pytest.param(with_raw(user("u2", "u1", "@"), "[" * LEVELS), "nested deeper", id="deep and open"),
        pytest.param(
            with_raw(user("u2", "u1", "Hm", n="@"), "[" * 101 + "]" * 101),
            "nested deeper",
            id="a little deep",
        ),
        pytest.param(with_raw(user("u2", "u1", "Hm", n="@"), "9" * 5000), "not readable", id="digits"),
    ],
)
def test_a_corrupt_line_is_skipped_with_its_number_and_the_rest_is_there(
    into: Import, line: bytes, reason: str
) -> None:
    into.records(GO, line, ON)

    (skipped,) = into.report.skipped
    assert (skipped.line, reason in skipped.reason) == (2, True), skipped
    assert words(into) == ["Go", "On"]


def test_each_corrupt_line_of_many_is_counted(into: Import) -> None:
    into.records("nonsense", GO, "", "{", ON, "[]", "null")

    assert [skipped.line for skipped in into.report.skipped] == [1, 4, 6, 7]
    assert words(into) == ["Go", "On"]


def test_a_record_that_cannot_be_taken_down_is_skipped_with_its_number(into: Import) -> None:
    error = record("system", "e1", "u1", subtype="api_error", error={"status": 500}, retryInMs=-(10**400))
    into.records(GO, error, ON)

    (skipped,) = into.report.conversations[0].skipped
    assert (skipped.line, "cannot be taken down" in skipped.reason) == (2, True)
    assert words(into) == ["Go", "On"]


def test_objects_glued_in_one_line_are_told_apart(into: Import) -> None:
    into.records(json.dumps(GO) + json.dumps(user("u2", "u1", "And")), ON)

    assert into.report.repaired == {"objects glued together on one line": 1}
    assert (words(into), into.report.skipped) == (["Go", "And", "On"], [])


def test_a_record_behind_a_broken_one_in_the_same_line_is_read(into: Import) -> None:
    later = json.dumps({"parentUuid": "u1", **user("u2", "u1", "And")})
    into.records(GO, json.dumps(user("ux", "u1", "Lost"))[:60] + later, ON)

    assert [skipped.line for skipped in into.report.skipped] == [2]
    assert words(into) == ["Go", "And", "On"]


def test_a_list_of_chats_tells_which_of_its_lines_hold_none(into: Import) -> None:
    into.records({"messages": [said("One")]}, {"nothing": 1}, {"messages": [said("Two")]})

    assert into.report.skipped == [Skipped(2, "holds no messages")]
    assert [found.appended for found in into.report.conversations] == [2, 2]


# Files that end too early


def test_what_is_cut_off_at_the_end_is_read_once_the_file_has_grown(tmp_path: Path) -> None:
    content = lines(GO, assistant("a1", "u1", text("Yes")), user("u2", "a1", "More"))
    copy = tmp_path / "talk.jsonl"
    with stenolog.open(tmp_path / "talks.db") as log:
        copy.write_bytes(content[:-40])
        cut = import_file(log, copy)
        copy.write_bytes(content)
        grown = import_file(log, copy)
        again = import_file(log, copy)
        assert_sound(log)

    assert (cut.incomplete, cut.skipped, _counts(cut)) == (1, [], (4, 0))
    assert (grown.incomplete, grown.skipped, _counts(grown)) == (0, [], (1, 4))
    assert _counts(again) == (0, 5)


def _counts(report: Report) -> tuple[int, int]:
    (found,) = report.conversations
    return found.appended, found.already


# Large


def test_a_hundred_megabytes_in_one_line_are_skipped_in_little_memory(tmp_path: Path) -> None:
    path = _large(tmp_path, lines(GO), lines(ON))
    with stenolog.open(tmp_path / "talks.db") as log:
        tracemalloc.start()
        report = import_file(log, path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert_sound(log)

    assert report.skipped == [Skipped(2, "the line is longer than 32 MiB")]
    assert _counts(report) == (3, 0)
    assert peak < 100 * MEGABYTE


@pytest.mark.parametrize("begin", [b'{"type":"user","x":"', b'[{"role":"user","content":"'])
def test_a_file_that_is_one_line_of_a_hundred_megabytes_is_refused(tmp_path: Path, begin: bytes) -> None:
    path = _large(tmp_path, begin, b'"}')
    with (
        stenolog.open(tmp_path / "talks.db") as log,
        pytest.raises(UnknownFormatError, match="at most 64 MiB, found a larger one"),
    ):
        import_file(log, path)

    with stenolog.open(tmp_path / "talks.db") as log:
        assert (list(log), len(log.blobs)) == ([], 0)


def _large(folder: Path, before: bytes, after: bytes) -> Path:
    path = folder / "large.jsonl"
    with path.open("wb") as file:
        file.write(before)
        for _ in range(100):
            file.write(b"x" * MEGABYTE)
        file.write((b"" if after.startswith(b'"') else b"\n") + after)
    return path


# Files that were made to harm: each is read or refused, within bounds of time, memory and disk.


REPOSITORY = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_hostile_file_is_read_or_refused_in_bounded_memory_time_and_disk(tmp_path: Path) -> None:
    files = [*map(str, make(tmp_path, 80))]
    ran = subprocess.run(
        [sys.executable, "-m", "tests.transcripts.hostile_files", *files],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=SECONDS * 20,
    )
    told = dict(map(json.loads, ran.stdout.splitlines()))

    assert ran.returncode == 0, (ran.stderr[-500:], [file for file, outcome in told.items() if not outcome])
    assert [*told] == files
    assert len(files) > 100
    wrong = ("raised", "refused: MemoryError", "refused: OSError(27")
    assert [(file, outcome) for file, outcome in told.items() if outcome.startswith(wrong)] == []


@pytest.mark.parametrize("packer", ["gzip", "zstandard"])
def test_a_file_may_be_decompressed_to_200_times_its_size_or_64_mib(packer: str, tmp_path: Path) -> None:
    compress = importlib.import_module(packer).compress
    allowed, bomb = tmp_path / "allowed.jsonl", tmp_path / "bomb.jsonl"
    allowed.write_bytes(compress(session() + b" " * 63 * MIB))
    bomb.write_bytes(compress(session() + b" " * 65 * MIB))
    with stenolog.open(":memory:") as log:
        assert import_file(log, allowed).conversations[0].appended >= 3
        with pytest.raises(UnknownFormatError, match=r"expected at most 64 MiB in a file of [\d,]+ bytes"):
            import_file(log, bomb)
        refused = [*import_files(log, [bomb])]
    assert "expected at most 64 MiB" in str(refused[0])


def test_a_compressed_database_is_read(tmp_path: Path) -> None:
    made, packed = tmp_path / "made.db", tmp_path / "made.db.gz"
    with closing(sqlite3.connect(made)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE conversation_messages (workflowId, role, content, createdAt)")
        connection.execute("INSERT INTO conversation_messages VALUES ('w', 'user', 'hi', '2026-01-02')")
        connection.commit()
    packed.write_bytes(gzip.compress(made.read_bytes()))
    with stenolog.open(":memory:") as log:
        assert import_file(log, packed).conversations[0].appended == 2  # the opening entry, too


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE VIEW wanted AS SELECT 1 AS a",
        "CREATE VIEW wanted AS SELECT a FROM other",
        f"CREATE VIEW wanted AS {ENDLESS} x AS a FROM c",
        "CREATE VIRTUAL TABLE wanted USING fts5(a)",
        "CREATE TABLE wanted (b, a GENERATED ALWAYS AS (hex(b)))",
    ],
)
def test_what_stands_under_the_name_of_a_table_that_is_read_is_an_ordinary_table(
    sql: str, tmp_path: Path
) -> None:
    path = tmp_path / "made.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE other (a)")
        connection.execute(sql)
    with path.open("rb") as stream:
        assert tables_in(stream)["other"] == {"a"}
        with pytest.raises(UnknownFormatError, match="wanted is"), sqlite_database(stream, "other", "wanted"):
            pass
        with sqlite_database(stream, "other") as database:
            assert database.execute("SELECT a FROM other").fetchall() == []
        with pytest.raises(UnknownFormatError), sqlite_database(stream, "other") as database:
            database.execute("SELECT a FROM wanted")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO other VALUES (1)",
        "ATTACH 'x.db' AS x",
        "PRAGMA writable_schema = ON",
        f"{ENDLESS} count(*) FROM c",
        "SELECT count(*) FROM other a, other b, other c, other d, other e",
    ],
)
def test_a_foreign_database_is_read_by_bounded_statements_only(statement: str, tmp_path: Path) -> None:
    path = tmp_path / "made.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE other (a)")
        connection.executemany("INSERT INTO other VALUES (?)", [(n,) for n in range(200)])
        connection.commit()
    with (
        path.open("rb") as stream,
        pytest.raises(UnknownFormatError, match="cannot be read"),
        sqlite_database(stream, "other") as database,
    ):
        database.execute(statement).fetchall()


def test_what_a_database_yields_is_bounded_by_its_size(tmp_path: Path) -> None:
    path = tmp_path / "made.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE other (a)")
        connection.execute("INSERT INTO other VALUES (?)", (b"x" * MIB,))
        connection.commit()
    with path.open("rb") as stream, sqlite_database(stream, "other") as database:
        for _ in range(200):
            database.execute("SELECT a FROM other").fetchone()
        with pytest.raises(UnknownFormatError, match="expected at most 201 MiB"):
            [each for _ in range(3) for each in database.execute("SELECT a FROM other")]
