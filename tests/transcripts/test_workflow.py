"""A table of messages, `conversation_messages`, comes in from wherever it is kept."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stenolog
from stenolog import UserMessage
from stenolog.contrib.workflow import conversation_messages, import_rows
from stenolog.contrib.workflow.files import source_conversations
from stenolog.errors import UnknownFormatError
from stenolog.importers import JsonLinesReader, import_file, recognise
from stenolog.tables import attach_table
from tests.postgres.server import programs, serving
from tests.transcripts.given import Import

pytestmark = pytest.mark.usefixtures("sound")

Row = dict[str, Any]
COLUMNS = ("id", "workflowId", "role", "content", "agent", "createdAt")


def row(number: int, role: str, content: Any, agent: str | None = None, workflow: str = "w1") -> Row:
    at = f"2025-03-01T10:00:{number:02}.000250+00:00"
    return dict(zip(COLUMNS, (f"m{number}", workflow, role, content, agent, at), strict=True))


ROWS = [
    row(1, "system", "You plan.", "planner"),
    row(2, "system", "Never promise a date."),
    row(3, "user", "The report: all is well."),
    row(4, "assistant", "One mail for Ann.", "planner"),
    row(5, "assistant", "Dear Ann", "writer/mail-1"),
    row(6, "tool", "sent", "send_mail"),
    row(7, "system", "You plan again.", "planner"),
    row(8, "user", "Another workflow", workflow="w2"),
]


def database(path: Path, rows: list[Row], types: str = "") -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"CREATE TABLE IF NOT EXISTS conversation_messages ({', '.join(COLUMNS)}{types})")
        holes = ", ".join("?" * len(COLUMNS))
        values = [[each[name] for name in COLUMNS] for each in rows]
        connection.executemany(f"INSERT INTO conversation_messages VALUES ({holes})", values)
        connection.commit()
    return path


def as_csv(rows: list[Row]) -> bytes:
    written = io.StringIO()
    writer = csv.DictWriter(written, COLUMNS)
    writer.writeheader()
    writer.writerows(rows)
    return b"\xef\xbb\xbf" + written.getvalue().encode()


def rows_of(log: stenolog.Log) -> list[tuple[Any, ...]]:
    """Return the rows of our own table of the log."""
    query = "SELECT workflowId, role, content, agent, createdAt FROM conversation_messages ORDER BY 1, 5"
    return attach_table(log, conversation_messages).select(query)


def expected(rows: list[Row]) -> list[tuple[Any, ...]]:
    return sorted(
        (tuple(each[name] for name in COLUMNS[1:]) for each in rows), key=lambda one: (one[0], one[4])
    )


FORMS = {
    "json": lambda rows: json.dumps(rows, indent=1).encode(),
    "json lines": lambda rows: "\n".join(map(json.dumps, rows)).encode(),
    "csv": as_csv,
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_rows_in_a_file_come_in_with_who_said_what_and_when(into: Import, form: Any) -> None:
    into.file(form(ROWS), "rows.txt")

    assert rows_of(into.log) == expected(ROWS)
    assert set(into.log) == {"w1", "w2"}


def test_rows_in_an_sqlite_file_come_in_with_those_of_its_write_ahead_log(
    into: Import, tmp_path: Path
) -> None:
    path = tmp_path / "workflow.db"
    with closing(sqlite3.connect(database(path, ROWS[:3]))) as still_open:
        database(path, ROWS[3:])
        assert still_open.execute("SELECT count(*) FROM conversation_messages").fetchone() == (8,)
        assert recognise(path) == "conversation-messages"
        import_file(into.log, path)

    assert rows_of(into.log) == expected(ROWS)


def test_rows_that_were_imported_are_not_imported_again(into: Import, tmp_path: Path) -> None:
    path = database(tmp_path / "workflow.db", ROWS[:5])
    import_file(into.log, path)
    database(path, ROWS[5:])
    report = import_file(into.log, path)
    again = import_file(into.log, path)

    assert [(conversation.name, conversation.appended) for conversation in report.conversations] == [
        ("w1", 2),
        ("w2", 2),
    ]
    assert [conversation.appended for conversation in again.conversations] == [0, 0]
    assert rows_of(into.log) == expected(ROWS)


def test_rows_without_ids_are_known_by_their_words(into: Import) -> None:
    rows = [{name: value for name, value in each.items() if name != "id"} for each in ROWS]
    for at in (4, 8, 8):
        import_rows(into.log, rows[:at])

    assert rows_of(into.log) == expected(ROWS)


def test_a_cursor_comes_in_and_columns_that_are_not_known_are_kept(into: Import, tmp_path: Path) -> None:
    path = database(tmp_path / "workflow.db", ROWS)
    with closing(sqlite3.connect(path)) as connection:
        report = import_rows(
            into.log, connection.execute("SELECT *, 7 AS tokens, NULL AS none FROM conversation_messages")
        )

    assert [conversation.appended for conversation in report.conversations] == [8, 2]
    assert rows_of(into.log) == expected(ROWS)
    metas = {json.dumps(entry.event.meta) for entry in into.log["w1"].entries(after=1)}  # type: ignore[union-attr]
    assert metas == {'{"conversation_messages": {"tokens": 7}}'}


@pytest.mark.skipif(programs() is None, reason="no PostgreSQL is installed here")
def test_a_cursor_of_postgresql_with_its_own_types_comes_in(into: Import) -> None:
    bin = programs()
    assert bin is not None
    with serving(bin) as dsn, psycopg.connect(dsn) as connection:
        connection.execute(
            """CREATE TABLE conversation_messages (id uuid DEFAULT gen_random_uuid(), "workflowId" int,
            role text, content jsonb, agent text, "createdAt" timestamptz DEFAULT now(), cost numeric)"""
        )
        insert = (
            'INSERT INTO conversation_messages ("workflowId", role, content, cost) VALUES (7, %s, %s, 1.5)'
        )
        for role, content in (("user", '"Hello"'), ("assistant", '{"a": 1}')):
            connection.execute(insert, (role, content))
        report = import_rows(into.log, connection.execute("SELECT * FROM conversation_messages"))

    assert [conversation.name for conversation in report.conversations] == ["7"]
    assert [content for _, _, content, *_ in rows_of(into.log)] == ["Hello", '{"a":1}']


@pytest.mark.parametrize(
    ("stored", "at"),
    [
        ("2025-03-01 10:00:07", "2025-03-01T10:00:07+00:00"),
        (1740823207000, "2025-03-01T10:00:07+00:00"),
        ("1740823207", "2025-03-01T10:00:07+00:00"),
        ("yesterday", "1970-01-01T00:00:00+00:00"),
        (None, "1970-01-01T00:00:00+00:00"),
    ],
)
def test_times_are_read_as_databases_keep_them_and_else_kept_as_they_are(
    into: Import, stored: Any, at: str
) -> None:
    import_rows(into.log, [{**row(1, "user", "Hello"), "createdAt": stored}])

    (entry,) = into.log["w1"].entries(after=1)
    assert isinstance(entry.event, UserMessage)
    assert entry.time.isoformat() == at
    unread = {"conversation_messages": {"createdAt": stored}} if stored == "yesterday" else {}
    assert entry.event.meta == unread


def test_rows_come_in_the_order_of_their_times_and_those_without_stay_where_they_stand(into: Import) -> None:
    timeless = {**row(0, "user", "2b"), "createdAt": None}
    import_rows(into.log, [row(2, "user", "2"), timeless, row(1, "user", "1"), row(3, "user", "3")])

    assert [getattr(entry.event, "text", "") for entry in into.log["w1"].entries(after=1)] == [
        "1", "2", "2b", "3",
    ]  # fmt: skip


def test_what_is_no_row_is_skipped_with_a_reason_and_the_others_come_in(into: Import) -> None:
    rows: list[Row] = [{"id": 1, "role": "user"}, *ROWS[:2], {**row(9, "user", "x"), "more": "\ud800"}]
    report = import_rows(into.log, rows)

    assert [(one.unit, one.line, one.reason.partition(":")[0]) for one in report.skipped] == [
        ("row", 1, "expected a workflow and a role, found id, role, content"),
        ("row", 4, "cannot be written"),
    ]
    assert rows_of(into.log) == expected(ROWS[:2])


def test_other_databases_are_refused_by_name(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE users (id)")
        connection.commit()
    (tmp_path / "broken.db").write_bytes(b"SQLite format 3\0" + bytes(200))

    for name, why in {
        "other.db": "a table conversation_messages.*found an SQLite database with the tables users",
        "broken.db": "an SQLite database that cannot be read",
    }.items():
        with pytest.raises(UnknownFormatError, match=why):
            recognise(tmp_path / name)
        with pytest.raises(UnknownFormatError, match=why):
            recognise((tmp_path / name).read_bytes())


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
JSON = st.recursive(SCALARS, st.lists, max_leaves=4)
ROLES = st.sampled_from(["user", "system", "agent", "x", 1])
ANY_ROW = st.fixed_dictionaries(
    {
        "workflowId": st.sampled_from(["w1", 2, None, ""]),
        "role": ROLES,
        "id": st.sampled_from([1, "1", "a b\t"]),
    },
    optional={"content": JSON, "agent": JSON, "createdAt": JSON, "more": JSON, "": JSON},
)


@given(rows=st.lists(ANY_ROW, max_size=5))
def test_any_rows_are_taken_in_or_skipped_with_a_reason_and_never_twice(rows: list[Row]) -> None:
    reading = JsonLinesReader()
    conversations = list(source_conversations(rows, reading))
    with stenolog.open(":memory:") as log:
        first = import_rows(log, rows)
        again = import_rows(log, rows)

        taken = sum(len(list(conversation.records)) for conversation in conversations)
        assert len(reading.skipped) + taken == len(rows)
        assert [conversation.failed for conversation in first.conversations] == [""] * len(conversations)
        assert sum(conversation.appended for conversation in first.conversations) == taken + len(
            conversations
        )
        assert sum(conversation.appended for conversation in again.conversations) == 0
