"""goose's sessions in files: JSON Lines, `goose session export`, and the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from stenolog import importers
from stenolog.errors import UnknownFormatError
from stenolog.importers import Json, JsonObject, Record, SourceConversation, as_dict, as_str

from .converter import Goose

_TYPES = frozenset(
    (
        "text",
        "image",
        "toolRequest",
        "toolResponse",
        "frontendToolRequest",
        "thinking",
        "redactedThinking",
        "reasoning",
        "systemNotification",
        "actionRequired",
        "toolConfirmationRequest",
        "contextLengthExceeded",
        "conversationCompacted",
        "document",
        "error",
        "summarizationRequested",
    )
)


def is_line(record: Json) -> bool:
    """Return whether a record is a session file's head or message."""
    value = as_dict(record)
    if {"working_dir", "message_count", "description"} <= value.keys():
        return "conversation" not in value
    content = value.get("content")
    return (
        value.get("role") in ("user", "assistant")
        and isinstance(value.get("created"), int)
        and isinstance(content, list)
        and all(as_dict(item).get("type") in _TYPES for item in content)
    )


def is_export(document: Json) -> bool:
    """Return whether a document is an exported session."""
    value = as_dict(document)
    return "working_dir" in value and _messages(value) is not None


def _messages(session: JsonObject) -> list[Any] | None:
    found = session.get("conversation")
    found = as_dict(found).get("messages", found)
    return found if isinstance(found, list) else None


def read_lines(stream: BinaryIO, reader: importers.JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield a file's session, named by the file."""
    yield SourceConversation("", importers.StreamedRecords(stream, reader), Goose, unit="line")


def read_export(stream: BinaryIO, reader: importers.JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield the session of an export."""
    session = as_dict(reader.document(stream))
    head = {name: value for name, value in session.items() if name != "conversation"}
    yield SourceConversation(as_str(session.get("id")), _records(head, _messages(session) or []), Goose)


def _records(head: JsonObject, messages: Iterable[Json]) -> list[Record]:
    objects = (as_dict(message) for message in messages)
    return [Record("1", head)] + [Record(str(nth), each) for nth, each in enumerate(objects, 1)]


def read_database(stream: BinaryIO, reader: importers.JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield a conversation for each session of a database, the earliest first."""
    with importers.sqlite_database(stream, "sessions", "messages") as connection:
        connection.row_factory = importers.dict_row
        for head in connection.execute("SELECT * FROM sessions ORDER BY rowid").fetchall():
            rows = connection.execute(
                "SELECT * FROM messages WHERE session_id = ? ORDER BY id", (head["id"],)
            )
            ignored: Counter[str] = Counter()
            messages = [message for row in rows if (message := _message(row, reader)) is not None]
            yield SourceConversation(str(head["id"]), _records(_head(head), messages), Goose, ignored)


def _head(row: JsonObject) -> JsonObject:
    return {name: value for name, value in row.items() if not isinstance(value, bytes)}


def _message(row: JsonObject, reader: importers.JsonLinesReader) -> JsonObject | None:
    metadata: Json = {}
    try:
        content = reader.cell(row["content_json"])
        metadata = reader.cell(row.get("metadata_json") or "{}")
    except UnknownFormatError as error:
        reader.skipped.append(importers.Skipped(row["id"], str(error), "message"))
        return None
    return {
        "role": row["role"],
        "created": row["created_timestamp"],
        "content": content,
        "metadata": metadata,
    }


GOOSE = importers.Importer("goose", read=read_lines, is_record=is_line)
GOOSE_JSON = importers.Importer("goose-json", read=read_export, is_document=is_export)
GOOSE_DB = importers.Importer("goose-db", read=read_database)
