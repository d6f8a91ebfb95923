"""Read the output of Claude Code and of the Claude Agent SDK with `--output-format stream-json`.

It has an object on each line, or all of them in one list, as claude-code-action keeps them. Other programs'
streams look alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from stenolog.adapters.importers.conversion.converter import SourceConversation
from stenolog.adapters.importers.detection.other_formats import other_stream
from stenolog.adapters.importers.door.json_lines import JsonLinesReader, Record
from stenolog.projections.messages.json_fields import Json, as_dict, as_list, as_str

from .records import ClaudeCode


def is_stream_record(value: Json) -> bool:
    """Return whether a value is a stream's message or result; a session has `sessionId` in its place."""
    if not isinstance(value, dict) or not as_str(value.get("session_id")) or "sessionId" in value:
        return False
    if value.get("type") in ("user", "assistant"):
        return "content" in as_dict(value.get("message"))
    return value.get("type") == "result" and "subtype" in value and "is_error" in value


def is_stream(document: Json) -> bool:
    """Return whether a document is a list of a stream's objects."""
    found = as_list(document)
    return any(map(is_stream_record, found)) and not any(map(other_stream, found))


def read(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield the sessions of a list, each with the records that name it and the nameless ones behind them."""
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
