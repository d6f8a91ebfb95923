"""Sessions of DeepSeek's harness."""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stenolog import AssistantMessage, ToolResult, UserMessage
from stenolog.events import Usage
from stenolog.importers import import_file
from tests.transcripts.dsh_sessions import SYSTEM, Session, told_in_all
from tests.transcripts.given import Import

pytestmark = pytest.mark.usefixtures("sound")
VERSIONS = [None, 0, 1, 2, 3, 4]


def imported(into: Import, session: Session) -> list[Any]:
    """Return the events of a session but its settings."""
    return list(into.file(session.bytes(), "session.jsonl").said)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_of_the_format_tells_the_same_conversation(into: Import, version: object) -> None:
    events = imported(into, told_in_all(version))
    first, answer = events[0], events[2]
    settings = into.conversation.settings()
    card = settings.card_of("dsh")

    assert [type(event) for event in events] == [
        UserMessage, UserMessage, AssistantMessage, ToolResult, ToolResult, AssistantMessage,
    ]  # fmt: skip
    assert [event.text for event in events] == [
        "Which loaves are left?", "Today is Monday.", "A moment.",
        "rye, spelt", "no such file", "Rye and spelt.",
    ]  # fmt: skip
    assert (first.author_kind, events[1].author_kind, events[1].author) == (
        "person",
        "system",
        "time-context",
    )
    assert [call.arguments for call in answer.tool_calls] == ['{"path": "shelf.txt"}', '{"path": "oven.txt"}']
    assert answer.usage == Usage(input=110, output=5, cache_read=100, reasoning=2)
    assert [(event.name, event.is_error) for event in events[3:5]] == [("read", False), ("read", True)]
    assert (card.persona, card.model, [tool.name for tool in card.tools or ()]) == (
        SYSTEM, "deepseek-v4", ["read"],
    )  # fmt: skip
    assert (settings.title, into.conversation.name) == ("Loaves", "s-1")


def test_the_file_of_a_later_version_of_a_session_adds_no_message_to_it(into: Import) -> None:
    imported(into, told_in_all(0))
    messages = len(into.said)
    into.file(told_in_all(3).bytes(), "session.v3.jsonl")

    assert (into.conversation.name, len(into.said)) == ("s-1", messages)


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
