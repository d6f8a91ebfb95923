"""goose's sessions: the files of earlier releases, the database, and the export of one session."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stenolog import AssistantMessage, ToolResult, UserMessage
from stenolog.errors import UnknownFormatError
from stenolog.importers import import_file, recognise
from stenolog.parts import ImagePart, ReasoningPart, TextPart, ToolCall
from tests.transcripts.given import Import, Json, importing, lines

pytestmark = pytest.mark.usefixtures("sound")

HEAD = {
    "working_dir": "/home/user/shop",
    "description": "Slow oven",
    "message_count": 5,
    "total_tokens": 900,
    "accumulated_total_tokens": 4000,
}
ANYONE = {"userVisible": True, "agentVisible": True}
PEOPLE = {"userVisible": True, "agentVisible": False}
AGENT = {"userVisible": False, "agentVisible": True}


def message(at: int, role: str, *content: Json, metadata: Json = ANYONE) -> Json:
    return {"role": role, "created": 1740171566 + at, "content": list(content), "metadata": metadata}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def request(id: str, name: str, **arguments: Any) -> Json:
    value = {"name": name, "arguments": arguments}
    return {"type": "toolRequest", "id": id, "toolCall": {"status": "success", "value": value}}


def response(id: str, value: Any) -> Json:
    return {"type": "toolResponse", "id": id, "toolResult": {"status": "success", "value": value}}


THINKING = {"type": "thinking", "thinking": "I look.", "signature": "sig=="}
PICTURE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
SESSION = [
    message(0, "user", text("Why is it slow?"), PICTURE),
    message(
        4,
        "assistant",
        THINKING,
        text("A moment."),
        request("t1", "shell", command="top"),
        request("t2", "ls"),
    ),
    message(
        5,
        "user",
        response("t1", [text("oven 99%"), PICTURE]),
        response("t2", {"content": [text("no")], "isError": True}),
    ),
    message(6, "assistant", text("The oven is busy.")),
    message(9, "user", text("Thanks.")),
]


def database(path: Path, *sessions: tuple[Json, list[Json]], extra: str = "") -> Path:
    """Write goose's database, as its release of 2026 creates it."""
    columns = "name TEXT, description TEXT, session_type TEXT, working_dir TEXT, created_at TIMESTAMP"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            f"CREATE TABLE sessions (id TEXT PRIMARY KEY, {columns}, extension_data TEXT DEFAULT '{{}}',"
            " accumulated_total_tokens INTEGER, provider_name TEXT, model_config_json TEXT)"
        )
        connection.execute(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT,"
            " role TEXT, content_json TEXT, created_timestamp INTEGER, tokens INTEGER, metadata_json TEXT)"
        )
        for head, messages in sessions:
            names = ", ".join(head)
            marks = ", ".join("?" * len(head))
            connection.execute(f"INSERT INTO sessions ({names}) VALUES ({marks})", tuple(head.values()))
            write(connection, head["id"], messages)
        if extra:
            connection.execute(extra)
    return path


def write(connection: sqlite3.Connection, id: str, messages: list[Json]) -> None:
    """Write a session's messages anew, as goose does when it compacts it."""
    connection.execute("DELETE FROM messages WHERE session_id = ?", (id,))
    connection.executemany(
        "INSERT INTO messages (session_id, role, content_json, created_timestamp, metadata_json)"
        " VALUES (?, ?, ?, ?, ?)",
        [
            (id, m["role"], json.dumps(m["content"]), m["created"], json.dumps(m["metadata"]))
            for m in messages
        ],
    )


ROW = {
    "id": "20260301_1",
    "name": "Slow oven",
    "session_type": "user",
    "working_dir": "/home/user/shop",
    "created_at": "2026-03-01 09:00:00",
    "provider_name": "anthropic",
    "model_config_json": '{"model_name": "claude-sonnet-4-5"}',
}


def in_form(folder: Path, form: str, messages: list[Json] = SESSION) -> Path:
    """Write a session in one of the forms that goose keeps or exports it in."""
    if form == "database":
        return database(folder / "sessions.db", (ROW, messages))
    if form == "export":
        file = folder / "export.json"
        file.write_text(json.dumps({**ROW, "conversation": messages, "message_count": 5}, indent=2))
        return file
    file = folder / "20260301_1.jsonl"
    file.write_bytes(lines(HEAD, *map(json.dumps, messages)))
    return file


FORMS = ("lines", "export", "database")


@pytest.mark.parametrize("form", FORMS)
def test_a_session_is_the_conversation_that_it_was(into: Import, tmp_path: Path, form: str) -> None:
    (found,) = import_file(into.log, in_form(tmp_path, form)).conversations
    talk = into.log[found.name]
    events: list[Any] = [
        e.event for e in talk if isinstance(e.event, UserMessage | AssistantMessage | ToolResult)
    ]
    settings = talk.settings()

    assert (found.name, settings.title) == ("20260301_1", "Slow oven")
    assert [type(event) for event in events] == [
        UserMessage, AssistantMessage, ToolResult, ToolResult, AssistantMessage, UserMessage,
    ]  # fmt: skip
    assert [type(part) for part in events[0].parts] == [TextPart, ImagePart]
    assert events[1].parts[0] == ReasoningPart(
        text="I look.", provider=settings.card_of("goose").provider, signature="sig=="
    )
    assert events[1].parts[2] == ToolCall(id="t1", name="shell", arguments='{"command":"top"}')
    assert [(result.name, result.text, result.is_error) for result in events[2:4]] == [
        ("shell", "oven 99%", False),
        ("ls", "no", True),
    ]
    opening: Any = next(iter(talk)).event
    assert opening.meta["goose"]["cwd"] == "/home/user/shop"
    assert settings.card_of("goose").model == ("" if form == "lines" else "claude-sonnet-4-5")


COMPACTED = [
    *({**each, "metadata": PEOPLE} for each in SESSION),
    message(10, "user", text("They found a busy oven."), metadata=AGENT),
    message(10, "assistant", text("Your context was compacted."), metadata=AGENT),
    message(11, "user", text("Thanks.")),
    message(12, "assistant", text("You are welcome.")),
]


@pytest.mark.parametrize("form", FORMS)
def test_a_compaction_is_a_summary_of_what_the_agent_no_longer_sees(
    into: Import, tmp_path: Path, form: str
) -> None:
    (found,) = import_file(into.log, in_form(tmp_path, form, COMPACTED)).conversations
    talk = into.log[found.name]
    body = json.dumps(talk.request("goose", api="openai-chat").body)

    assert found.decisions == {"compaction as a summary": 1}
    assert [words in body for words in ("Why is it slow", "busy oven.", "compacted.", "welcome")] == [
        False, True, True, True,
    ]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_session_that_is_compacted_after_its_import_goes_on_with_the_summary(
    into: Import, tmp_path: Path, form: str
) -> None:
    file = in_form(tmp_path, form)
    name = import_file(into.log, file).conversations[0].name
    before = into.log[name].position
    if form == "database":
        with closing(sqlite3.connect(file)) as connection, connection:
            write(connection, ROW["id"], COMPACTED)
    else:
        in_form(tmp_path, form, COMPACTED)
    (found,) = import_file(into.log, file).conversations

    assert (found.failed, found.appended) == ("", into.log[name].position - before)
    assert into.log[name].request("goose").sha256 == _whole(tmp_path, form)


def _whole(folder: Path, form: str) -> str:
    """Return the digest of the last request, where the compacted session is imported at once."""
    (other := folder / "other").mkdir()
    with importing(other) as into:
        (found,) = import_file(into.log, in_form(other, form, COMPACTED)).conversations
        return into.log[found.name].request("goose").sha256


def test_messages_for_people_alone_are_out_of_context(into: Import) -> None:
    note = {"type": "systemNotification", "notificationType": "inlineMessage", "msg": "Compaction done."}
    ask = {"type": "toolConfirmationRequest", "id": "t", "toolName": "ls", "arguments": {}}
    aside = message(2, "assistant", text("(only for people)"), metadata=PEOPLE)
    into.records(
        HEAD, SESSION[0], message(1, "assistant", note, ask), aside, message(3, "assistant", text("Ho."))
    )
    body = json.dumps(into.conversation.request("goose").body)

    assert [words in body for words in ("Why is it slow", "Compaction done", "only for people", "Ho.")] == [
        True, False, False, True,
    ]  # fmt: skip
    assert "Compaction done." in [getattr(event, "text", "") for event in into.said]
    assert into.report.conversations[0].ignored == {"toolConfirmationRequest": 1}


def test_a_session_without_a_head_is_known_by_its_messages_and_a_database_of_others_is_refused(
    tmp_path: Path, into: Import
) -> None:
    into.records(*SESSION[:2])
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection, connection:
        connection.execute("CREATE TABLE sessions (id TEXT)")

    assert into.report.format == "goose"
    with pytest.raises(UnknownFormatError, match="found an SQLite database with the tables sessions"):
        recognise(other)
