"""Claude Code's importable files: sessions, notes on sub-agents, streams.

A sub-agent's `agent-<id>.jsonl` does not name its starter; `agent-<id>.meta.json` does, and is read as that
file's first record. A stream is the output of `--output-format stream-json`: JSON Lines or one list. Other
programs' streams look alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from stenolog.adapters.importers.conversion.converter import SourceConversation
from stenolog.adapters.importers.detection.folders import read_note
from stenolog.adapters.importers.detection.other_formats import other_stream
from stenolog.adapters.importers.door.json_lines import JsonLinesReader, JsonObject, Record
from stenolog.adapters.importers.formats import Importer, LineFormat
from stenolog.projections.messages.json_fields import Json, as_dict, as_list, as_str

from . import ASIDE, SUB_AGENTS
from .line import AGENT_NOTE
from .records import ClaudeCode


def note_beside(path: Path) -> Iterator[JsonObject]:
    """Yield the note on a sub-agent's file, as a record; nothing without one."""
    note = read_note(path, SUB_AGENTS) if path.name.startswith(SUB_AGENTS.prefix) else {}
    if note:
        yield note_record(note, path.stem)


def note_record(note: JsonObject, stem: str) -> JsonObject:
    """Return the note on the sub-agent's file with this stem as a record."""
    return {**note, "type": AGENT_NOTE, "agentId": stem.removeprefix(SUB_AGENTS.prefix)}


def is_note(document: Json) -> bool:
    """Return whether a document is such a note."""
    found = as_dict(document)
    return bool(as_str(found.get("agentType"))) and not found.keys().isdisjoint({"spawnDepth", "toolUseId"})


def read_note_alone(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield nothing: a note is read with its file."""
    yield from ()


def is_stream_record(value: Json) -> bool:
    """Return whether a value is a stream's message or result; a session has `sessionId` instead."""
    if not isinstance(value, dict) or not as_str(value.get("session_id")) or "sessionId" in value:
        return False
    if value.get("type") in ("user", "assistant"):
        return "content" in as_dict(value.get("message"))
    return value.get("type") == "result" and "subtype" in value and "is_error" in value


def is_stream(document: Json) -> bool:
    """Return whether a document is a list of a stream's objects."""
    found = as_list(document)
    return any(map(is_stream_record, found)) and not any(map(other_stream, found))


def read_stream(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield a list's sessions, each with the records that name it and nameless ones after them."""
    sessions: dict[str, list[Record]] = {}
    now, early = "", list[Record]()
    for number, value in enumerate(as_list(reading.document(stream)), 1):
        now = as_str(as_dict(value).get("session_id")) or now
        early.append(Record(str(number), as_dict(value)))
        if now:
            sessions.setdefault(now, []).extend(early)
            early = []
    for name, found in sessions.items():
        yield SourceConversation(name, found, ClaudeCode)


def is_record(value: JsonObject) -> bool:
    """Return whether a record is a session's message; a stream's has no `sessionId`."""
    return (
        value.get("type") in ("user", "assistant")
        and "content" in as_dict(value.get("message"))
        and ("sessionId" in value or "parentUuid" in value)
        and not is_stream_record(value)
    )


def other(records: Iterator[Record]) -> str:
    """Return a name for logs that store several programs' sessions in one form; empty for a session."""
    found = []
    for record in records:
        found.append(record)
        if is_record(record.value):
            if "uuid" in record.value:
                return ""
            break
    is_normalised = any(
        r.value.get("type") == "tool" and "tool_output" in r.value for r in (*found, *records)
    )
    return "normalised logs" if is_normalised else ""


def are_aside(records: list[JsonObject]) -> bool:
    """Return whether a file without messages is a session's, by its other records."""
    if any(map(is_stream_record, records)):
        return False
    own = [value for value in records if "session_id" not in value]
    is_aside = any(ASIDE.get(str(value.get("type"))) in value for value in own)
    return is_aside and not any("parts" in as_dict(value.get("message")) for value in records)


def session_of(record: JsonObject, _has_begun: bool) -> str:
    """Return the session that a record belongs to."""
    return as_str(record.get("sessionId")) or as_str(record.get("session_id"))


_LINES = LineFormat(ClaudeCode, session_of, note_beside)
CLAUDE_CODE = Importer("claude-code", lines=_LINES, is_record=is_record, is_likely=are_aside, other=other)
CLAUDE_CODE_NOTE = Importer("claude-code-note", read=read_note_alone, is_document=is_note)
"""A note on a sub-agent: it is read with the sub-agent's file, so that there is nothing more to import."""
CLAUDE_STREAM = Importer(
    "claude-stream",
    read=read_stream,
    lines=_LINES,
    is_document=is_stream,
    is_likely=lambda records: any(map(is_stream_record, records)),
)
