"""Files that were made to harm: each is read or refused, within bounds of time, memory and disk."""

from __future__ import annotations

import gzip
import importlib
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import stenolog
from stenolog.errors import UnknownFormatError
from stenolog.importers import import_file, import_files, sqlite_database, tables_in
from tests.transcripts.hostile_files import ENDLESS, MIB, SECONDS, make, session

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
