"""Message histories of pydantic-ai, as `ModelMessagesTypeAdapter.dump_json` writes them.

A file is one list of messages, or has such a list on each line: `new_messages_json()` gives one for each run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO

from stenolog.importers import (
    Importer,
    Json,
    JsonLinesReader,
    Record,
    Skipped,
    SourceConversation,
    as_dict,
    as_list,
    as_str,
)

from .history import MessageHistory

KINDS = ("request", "response")


def is_message(value: Json) -> bool:
    """Return whether a value is a request or a response with parts of their kinds."""
    message = as_dict(value)
    parts = message.get("parts")
    return (
        message.get("kind") in KINDS
        and isinstance(parts, list)
        and all(isinstance(as_dict(part).get("part_kind"), str) for part in parts)
    )


def is_history(value: Json) -> bool:
    """Return whether a value is a list of messages; some of them may be damaged."""
    return isinstance(value, list) and any(as_dict(m).get("parts") and is_message(m) for m in value)


def read(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield the one conversation of a file."""
    messages = [*_messages(stream, reading)]
    records = [*_sound(messages, reading)]
    named = (as_str(record.value.get("conversation_id")) for record in records)
    yield SourceConversation(next(filter(None, named), ""), records, MessageHistory, Counter())


def _messages(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[Json]:
    for place, value in reading.documents(stream):
        if isinstance(value, list):
            yield from value
        else:
            reading.skip(place, "a list of messages", value)


def _sound(messages: list[Json], reading: JsonLinesReader) -> Iterator[Record]:
    """Yield the messages that can be read; others are skipped with a reason."""
    for number, message in enumerate(messages, 1):
        if not isinstance(message, dict):
            fault = f"expected an object, found {type(message).__name__}"
        elif message.get("kind") not in KINDS:
            fault = f"expected the kind request or response, found {message.get('kind')!r:.40}"
        elif not isinstance(message.get("parts"), list):
            fault = f"expected a list of parts, found {type(message.get('parts')).__name__}"
        else:
            yield Record(str(number), _with_sound_parts(number, message, reading))
            continue
        reading.skipped.append(Skipped(number, fault, "message"))


def _with_sound_parts(number: int, message: dict[str, Any], reading: JsonLinesReader) -> dict[str, Any]:
    """Return the message with the parts that have a kind; calls without an id or a name get one."""
    parts: list[dict[str, Any]] = []
    for nth, part in enumerate(as_list(message["parts"]), 1):
        kind = as_dict(part).get("part_kind")
        if not isinstance(kind, str):
            reading.skipped.append(
                Skipped(number, f"part {nth}: expected a part_kind, found {kind!r:.40}", "message")
            )
        elif kind == "tool-call":
            id = as_str(part.get("tool_call_id")) or f"{number}-{nth}"
            parts.append({**part, "tool_call_id": id, "tool_name": as_str(part.get("tool_name"))})
        else:
            parts.append(part)
    return {**message, "parts": parts}


PYDANTIC_AI = Importer("pydantic-ai", read=read, is_document=is_history, is_record=is_history)
