"""Claude Code's files as formats that can be imported: sessions, notes on sub-agents, and streams."""

from __future__ import annotations

from collections.abc import Iterator

from stenolog.adapters.importers.detection.formats import Importer, LineFormat
from stenolog.adapters.importers.door.json_lines import JsonObject, Record
from stenolog.projections.messages.json_fields import as_dict, as_str

from . import ASIDE, agent_notes, stream
from .records import ClaudeCode


def is_record(value: JsonObject) -> bool:
    """Return whether a record is a message of a session; one of a stream has no `sessionId`."""
    return (
        value.get("type") in ("user", "assistant")
        and "content" in as_dict(value.get("message"))
        and ("sessionId" in value or "parentUuid" in value)
        and not stream.is_stream_record(value)
    )


def other(records: Iterator[Record]) -> str:
    """Return a name for logs that give the sessions of several programs one form; empty for a session."""
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
    """Return whether a file without a message is of a session, by what is beside the messages."""
    if any(map(stream.is_stream_record, records)):
        return False
    own = [value for value in records if "session_id" not in value]
    is_aside = any(ASIDE.get(str(value.get("type"))) in value for value in own)
    return is_aside and not any("parts" in as_dict(value.get("message")) for value in records)


def session_of(record: JsonObject, _has_begun: bool) -> str:
    """Return the session that a record belongs to."""
    return as_str(record.get("sessionId")) or as_str(record.get("session_id"))


_LINES = LineFormat(ClaudeCode, session_of, agent_notes.note_beside)
CLAUDE_CODE = Importer("claude-code", lines=_LINES, is_record=is_record, is_likely=are_aside, other=other)
CLAUDE_CODE_NOTE = Importer("claude-code-note", read=agent_notes.read, is_document=agent_notes.is_note)
"""A note on a sub-agent: it is read with the sub-agent's file, so that there is nothing more to import."""
CLAUDE_STREAM = Importer(
    "claude-stream",
    read=stream.read,
    lines=_LINES,
    is_document=stream.is_stream,
    is_likely=lambda records: any(map(stream.is_stream_record, records)),
)
