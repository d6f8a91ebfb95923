"""Which format a file has, by its content, never by its name."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from stenolog.adapters.providers.json_fields import as_dict
from stenolog.domain.errors import UnknownFormatError

from .claude.stream import is_stream, is_stream_record, other_stream
from .crewagent.folder import are_messages as are_crewagents
from .json_lines import Json, JsonLinesReader, JsonObject, Record, regular_file
from .neurocrew.files import is_chat
from .nostr.files import are_lines_of_a_relay, is_nostr
from .openai.files import are_messages, conversations_in, is_message
from .others import described
from .report import Format
from .workflow.files import SQLITE, are_rows, check_database, is_csv, is_row

LOOKED_AT = 200
"""The number of records by which a file's format is recognised."""
NAMED_BY = 20
"""The number of records that describe a file of an unknown format in an error."""
SUPPORTED = (
    "a Claude Code session or stream, a Codex rollout, OpenAI chat messages, a NeuroCrew chat, "
    "CrewAgent messages, Nostr events, a table conversation_messages, or a stenolog export"
)
_HEAD = 64 * 1024
"""In how many bytes the first good line must begin, where the very first is none."""
_CODEX = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_CLAUDE_ASIDE = {
    "file-history-snapshot": "snapshot",
    "summary": "leafUuid",
    "progress": "data",
    "system": "subtype",
    "queue-operation": "operation",
    "permission-mode": "permissionMode",
    "ai-title": "sessionId",
    "last-prompt": "sessionId",
    "attachment": "attachment",
}
_DOCUMENTS: tuple[tuple[Format, Callable[[Json], bool]], ...] = (
    ("claude-stream", is_stream),
    ("nostr", is_nostr),
    ("conversation-messages", are_rows),
    ("neurocrew", is_chat),
    ("crewagent", are_crewagents),
    ("openai-chat", lambda document: conversations_in(document) is not None),
)
"""The formats of a file that is one JSON document, the most specific first."""


def recognise(source: str | os.PathLike[str] | bytes) -> Format:
    """The format of a file, given its path, or of the bytes themselves.

    Raises `UnknownFormatError`, saying what was expected and what was found.
    """
    if isinstance(source, bytes):
        return recognise_stream(io.BytesIO(source))
    with regular_file(Path(source)) as stream:
        return recognise_stream(stream)


def recognise_stream(stream: BinaryIO) -> Format:
    """The format of what the stream holds; the stream is left at its beginning."""
    try:
        return _recognised(stream)
    finally:
        stream.seek(0)


def _recognised(stream: BinaryIO) -> Format:
    first = stream.read(_HEAD).lstrip(b"\xef\xbb\xbf \t\r\n\0")
    stream.seek(0)
    if not first:
        raise UnknownFormatError(f"expected {SUPPORTED}, found an empty file")
    if first.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UnknownFormatError("expected UTF-8, found UTF-16")
    if first.startswith(SQLITE):
        check_database(stream)
        return "conversation-messages"
    if first.startswith(b"PK\x03\x04"):
        raise UnknownFormatError(f"expected {SUPPORTED}, found a ZIP archive, as Inspect keeps its logs in")
    if first.startswith(b"["):
        return _of_list(stream)
    if first.startswith(b"{"):
        return _of_objects(stream)
    if b"\n{" in first:
        with suppress(UnknownFormatError):
            return _of_objects(stream)
    if is_csv(first):
        return "conversation-messages"
    raise UnknownFormatError(f"expected {SUPPORTED}, found text that begins with {first[:20]!r}")


def _of_list(stream: BinaryIO) -> Format:
    """One list, or one on each line: what a relay said."""
    try:
        return _of_document(JsonLinesReader().document(stream))
    except UnknownFormatError:
        stream.seek(0)
        if are_lines_of_a_relay(stream, LOOKED_AT):
            return "nostr"
        stream.seek(0)
        lists = [value for _, value in islice(JsonLinesReader().values(stream), 2)]
        if len(lists) == 2 and all(isinstance(value, list) for value in lists):
            raise UnknownFormatError(f"expected {SUPPORTED}, found a list on each line") from None
        raise


def _of_objects(stream: BinaryIO) -> Format:
    """JSON Lines, unless the whole file is one object: on a single line, or over many."""
    first = list(islice(_records(stream), NAMED_BY))
    if not first or first[0].number != 1:
        try:
            stream.seek(0)
            return _of_document(JsonLinesReader().document(stream))
        except UnknownFormatError as error:
            if not first:
                raise
            refused = error
    else:
        what = described(first[0].value, [record.value for record in first[1:]])
        refused = UnknownFormatError(f"expected {SUPPORTED}, found {what}")
        if len(first) == 1:
            with suppress(UnknownFormatError):
                return _of_document(first[0].value)
    found = _of_lines(stream)
    if found is None:
        raise refused
    return found


def _records(stream: BinaryIO) -> Iterator[Record]:
    """Those that decide, from the beginning; read as they are asked for, for the first ones mostly do."""
    stream.seek(0)
    return islice(JsonLinesReader().records(stream), LOOKED_AT)


def _of_document(document: Json) -> Format:
    for format, is_one in _DOCUMENTS:
        if is_one(document):
            return format
    raise UnknownFormatError(f"expected {SUPPORTED}, found {described(document)}")


def _of_lines(stream: BinaryIO) -> Format | None:
    passed: list[JsonObject] = []
    is_of_claude = False
    for record in _records(stream):
        value = record.value
        if name := other_stream(value):
            raise UnknownFormatError(f"expected {SUPPORTED}, found {name}, which has no importer")
        if is_stream_record(value):  # others may show themselves behind it
            is_of_claude = True
            continue
        if isinstance(value.get("stenolog"), int):
            return "stenolog"
        if is_nostr(value):
            return "nostr"
        if value.get("type") in _CODEX and isinstance(value.get("payload"), dict):
            return "codex"
        if _is_claude(value):
            return "claude-code"
        if are_messages(value.get("messages")):
            return "openai-chat"
        if is_row(value):
            return "conversation-messages"
        if is_message(value):
            return _openai_lines(_records(stream))
        passed.append(value)
    if is_of_claude:
        return "claude-stream"
    told = [value for value in passed if "session_id" not in value]
    aside = any(_CLAUDE_ASIDE.get(str(value.get("type"))) in value for value in told)
    others = any("parts" in as_dict(value.get("message")) for value in passed)
    return "claude-code" if aside and not others else None


def _openai_lines(records: Iterator[Record]) -> Format:
    for record in records:
        if not isinstance(record.value.get("role"), str):
            raise UnknownFormatError(
                f"expected an OpenAI chat message on each line, found on line {record.line} "
                f"{described(record.value)}"
            )
    return "openai-chat"


def _is_claude(value: JsonObject) -> bool:
    return (
        value.get("type") in ("user", "assistant")
        and "content" in as_dict(value.get("message"))
        and ("sessionId" in value or "parentUuid" in value)
    )
