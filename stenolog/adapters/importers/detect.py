"""Which format a file has, by its content, never by its name."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from stenolog.adapters.providers.json_fields import as_dict
from stenolog.domain.errors import UnknownFormatError

from .claude.stream import is_stream, is_stream_record, other_stream
from .formats import IMPORTERS, Importer
from .json_lines import Json, JsonLinesReader, JsonObject, Record, regular_file
from .openai.files import are_messages, conversations_in, is_message
from .others import described

LOOKED_AT = 200
"""The number of records by which a file's format is recognised."""
NAMED_BY = 20
"""The number of records that describe a file of an unknown format in an error."""
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


def supported() -> str:
    """Return the titles of all formats that can be imported, for messages."""
    *others, own = sorted(IMPORTERS, key="stenolog".__eq__)
    return f"{', '.join(IMPORTERS[name].title for name in others)}, or {IMPORTERS[own].title}"


def recognise(source: str | os.PathLike[str] | bytes) -> str:
    """The format of a file, given its path, or of the bytes themselves.

    Raises `UnknownFormatError`, saying what was expected and what was found.
    """
    if isinstance(source, bytes):
        return recognise_stream(io.BytesIO(source))
    with regular_file(Path(source)) as stream:
        return recognise_stream(stream)


def recognise_stream(stream: BinaryIO) -> str:
    """The format of what the stream holds; the stream is left at its beginning."""
    try:
        return _recognised(stream)
    finally:
        stream.seek(0)


def _recognised(stream: BinaryIO) -> str:
    first = stream.read(_HEAD).lstrip(b"\xef\xbb\xbf \t\r\n\0")
    stream.seek(0)
    if not first:
        raise UnknownFormatError(f"expected {supported()}, found an empty file")
    if first.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UnknownFormatError("expected UTF-8, found UTF-16")
    if found := _of_start(first, stream):
        return found
    if first.startswith(b"PK\x03\x04"):
        raise UnknownFormatError(f"expected {supported()}, found a ZIP archive, as Inspect keeps its logs in")
    if first.startswith(b"["):
        return _of_list(stream)
    if first.startswith(b"{"):
        return _of_objects(stream)
    if b"\n{" in first:
        with suppress(UnknownFormatError):
            return _of_objects(stream)
    raise UnknownFormatError(f"expected {supported()}, found text that begins with {first[:20]!r}")


def _plugins() -> Iterator[tuple[str, Importer]]:
    """Yield the importers that tell by themselves what is theirs; the others are told apart here."""
    return iter(sorted(IMPORTERS.items(), key=lambda item: -item[1].precedence))


def _of_start(first: bytes, stream: BinaryIO) -> str | None:
    """Return the format that is seen from a file's first bytes; None for text that has to be read."""
    refused: UnknownFormatError | None = None
    for name, importer in _plugins():
        try:
            if importer.is_start(first, stream):
                return name
        except UnknownFormatError as error:
            refused = refused or error
        finally:
            stream.seek(0)
    if refused is not None:
        raise refused
    return None


def _of_list(stream: BinaryIO) -> str:
    """One list, or one on each line: what a relay said."""
    try:
        return _of_document(JsonLinesReader().document(stream))
    except UnknownFormatError:
        stream.seek(0)
        lists = [value for _, value in islice(JsonLinesReader().values(stream), LOOKED_AT)]
        for name, importer in _plugins():
            if any(map(importer.is_record, lists)):
                return name
        if len(lists) > 1 and all(isinstance(value, list) for value in lists[:2]):
            raise UnknownFormatError(f"expected {supported()}, found a list on each line") from None
        raise


def _of_objects(stream: BinaryIO) -> str:
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
        refused = UnknownFormatError(f"expected {supported()}, found {what}")
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


def _of_document(document: Json) -> str:
    for name, importer in _plugins():
        if importer.is_document(document):
            return name
    if is_stream(document):
        return "claude-stream"
    if conversations_in(document) is not None:
        return "openai-chat"
    raise UnknownFormatError(f"expected {supported()}, found {described(document)}")


def _of_lines(stream: BinaryIO) -> str | None:
    passed: list[JsonObject] = []
    is_of_claude = False
    for record in _records(stream):
        value = record.value
        for name, importer in _plugins():
            if importer.is_record(value):
                return name
        if name := other_stream(value):
            raise UnknownFormatError(f"expected {supported()}, found {name}, which has no importer")
        if is_stream_record(value):  # others may show themselves behind it
            is_of_claude = True
            continue
        if isinstance(value.get("stenolog"), int):
            return "stenolog"
        if value.get("type") in _CODEX and isinstance(value.get("payload"), dict):
            return "codex"
        if _is_claude(value):
            return "claude-code"
        if are_messages(value.get("messages")):
            return "openai-chat"
        if is_message(value):
            return _openai_lines(_records(stream))
        passed.append(value)
    if is_of_claude:
        return "claude-stream"
    told = [value for value in passed if "session_id" not in value]
    aside = any(_CLAUDE_ASIDE.get(str(value.get("type"))) in value for value in told)
    others = any("parts" in as_dict(value.get("message")) for value in passed)
    return "claude-code" if aside and not others else None


def _openai_lines(records: Iterator[Record]) -> str:
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
