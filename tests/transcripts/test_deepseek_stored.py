"""Sessions of deepseek-harness in its SQLite database, and records of other shapes than it writes."""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from stenolog.importers import import_file
from tests.transcripts.dsh_sessions import Session, told_in_all
from tests.transcripts.given import Import

pytestmark = pytest.mark.usefixtures("sound")


def test_a_database_of_sessions_tells_what_their_files_do(into: Import, tmp_path: Path) -> None:
    file, session = tmp_path / "dsh.db", told_in_all(0)
    session.packed("a", "b", "c")
    session.lines[-1]["data"]["texts"][0] = "long " * 2000
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE persistence_state (singleton INTEGER, store_id TEXT)")
        connection.execute(
            "CREATE TABLE sessions (id TEXT, version INTEGER, created_at INTEGER, cwd TEXT, incarnation TEXT)"
        )
        connection.execute(
            "CREATE TABLE events (session_id TEXT, seq INTEGER, type TEXT, time INTEGER, data ANY,"
            " surface_op TEXT, ignorable INTEGER)"
        )
        connection.execute("INSERT INTO sessions VALUES ('s-1', 0, 1785004180000, '/home/user/shop', 'i')")
        for each in session.lines[1:]:
            frame = (each.get("seq", each.get("seq0")), each["type"], each.get("time", each.get("time0")))
            told = json.dumps(each["data"])
            data = gzip.compress(told.encode()) if len(told) > 4096 else told
            surface = json.dumps(each["surfaceOp"]) if "surfaceOp" in each else None
            connection.execute(
                "INSERT INTO events VALUES ('s-1', ?, ?, ?, ?, ?, NULL)", (*frame, data, surface)
            )
        connection.execute("INSERT INTO events VALUES ('s-1', 99, 'turn/end', 0, '{', NULL, NULL)")
    report = import_file(into.log, file)
    into.report = report
    from_database = into.said
    plain = import_file(into.log, _written(tmp_path / "session.jsonl", session), name="plain")

    assert (report.format, [found.name for found in report.conversations]) == ("deepseek-harness-db", ["s-1"])
    assert [skip.line for skip in report.skipped] == [99]
    into.report = plain
    assert [event.text for event in into.said] == [event.text for event in from_database]  # type: ignore[union-attr]


def _written(path: Path, session: Session) -> Path:
    path.write_bytes(session.bytes())
    return path
