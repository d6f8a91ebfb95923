"""Detection of a file's format by its content, never by its name, and the transcripts in a folder."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO

from stenolog.domain.errors import StenologError, UnknownFormatError
from stenolog.projections.messages.json_fields import as_dict

from .claude import agent_notes
from .claude.stream import is_stream, is_stream_record, other_stream
from .door import SQLITE, decompressed, regular_file, tables_in
from .formats import IMPORTERS, MAPPING_SUFFIXES, FolderFormat, Importer
from .json_lines import Json, JsonLinesReader, JsonObject, Record
from .openai.messages import are_messages, conversations_in, is_message
from .other_formats import NO_IMPORTER, described

LOOKED_AT = 200
"""The number of records by which a file's format is recognised."""
NAMED_BY = 20
"""The number of records that describe a file of an unknown format in an error."""
_HEAD = 64 * 1024
"""In how many bytes the first good line must begin, where the very first is none."""
_CODEX = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_MCP = (b"STDIN: {", b"STDOUT: {", b"STDERR: ")
"""The beginnings of what goose's tests record of an MCP server's streams."""
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
    titles = dict.fromkeys(IMPORTERS[name].title for name in others)
    return f"{', '.join(titles)}, or {IMPORTERS[own].title}"


def recognise(source: str | os.PathLike[str] | bytes) -> str:
    """Return the format of a file, given its path, or of the bytes themselves.

    Raises `UnknownFormatError`, saying what was expected and what was found.
    """
    if isinstance(source, bytes):
        return recognise_stream(io.BytesIO(source))
    with regular_file(Path(source)) as stream, decompressed(stream) as content:
        return recognise_stream(content)


def recognise_stream(stream: BinaryIO) -> str:
    """Return the format of a stream, which is left at its beginning."""
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
    if first.startswith(SQLITE):
        there = ", ".join([*tables_in(stream)][:6]) or "none"
        raise UnknownFormatError(f"expected {supported()}, found an SQLite database with the tables {there}")
    if first.startswith(b"PK\x03\x04"):
        raise UnknownFormatError(f"expected {supported()}, found a ZIP archive, as Inspect keeps its logs in")
    if first.startswith(b"["):
        return _of_list(stream)
    if first.startswith(b"{"):
        return _of_objects(stream)
    if b"\n{" in first:
        with suppress(UnknownFormatError):
            return _of_objects(stream)
    raise UnknownFormatError(f"expected {supported()}, found {_beginning(first)}")


def _beginning(first: bytes) -> str:
    """Say how a file begins that is no transcript."""
    if first.startswith(_MCP):
        return f"a recording of an MCP server, {NO_IMPORTER}"
    text = first[:20].decode(errors="replace")
    words = (text[:-1] if len(first) > 20 and text.endswith("\N{REPLACEMENT CHARACTER}") else text).strip()
    is_text = all(char.isprintable() or char.isspace() for char in words)
    if not is_text or "\N{REPLACEMENT CHARACTER}" in words:
        return "a file that is no text"
    return f"text that begins with {' '.join(words.split())!r}"


def _plugins() -> Iterator[tuple[str, Importer]]:
    """Yield the importers that recognise files by themselves; the others are recognised here."""
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
    """Return the format of one list, or of one on each line, as a relay sends them."""
    try:
        return _of_document(JsonLinesReader().document(stream))
    except UnknownFormatError:
        stream.seek(0)
        lists = [value for _, value in islice(JsonLinesReader().values(stream), LOOKED_AT)]
        for name, importer in _plugins():
            if any(map(importer.is_record, lists)):
                return name
        if len(lists) > 1 and all(isinstance(value, list) for value in lists[:2]):
            raise UnknownFormatError(f"expected {supported()}, found {_lists(lists)}") from None
        raise


def _lists(lines: list[Json]) -> str:
    """Describe a file with a list on each line."""
    calls = [line for line in lines if len(line) == 2 and str(line[0]).startswith("client.")]
    return f"a LangSmith recording of API calls, {NO_IMPORTER}" if calls else "a list on each line"


def _of_objects(stream: BinaryIO) -> str:
    """Return JSON Lines, unless the whole file is one object, on a single line or over many."""
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
    """Yield the first records as they are asked for: mostly, the first ones decide."""
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
            raise UnknownFormatError(f"expected {supported()}, found {name}, {NO_IMPORTER}")
        if is_stream_record(value):  # others may show themselves behind it
            is_of_claude = True
            continue
        if isinstance(value.get("stenolog"), int):
            return "stenolog"
        if value.get("type") in _CODEX and isinstance(value.get("payload"), dict):
            return "codex"
        if _is_claude(value):
            if "uuid" not in value and any(map(_is_normalised, _records(stream))):
                raise UnknownFormatError(f"expected {supported()}, found normalised logs, {NO_IMPORTER}")
            return "claude-code"
        if are_messages(value.get("messages")):
            if "." in str(value.get("type") or value.get("event") or ""):
                raise UnknownFormatError(f"expected {supported()}, found telemetry, {NO_IMPORTER}")
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


def _is_normalised(record: Record) -> bool:
    """Return whether a record is of a log that gives the sessions of several programs one form."""
    return record.value.get("type") == "tool" and "tool_output" in record.value


def _is_claude(value: JsonObject) -> bool:
    return (
        value.get("type") in ("user", "assistant")
        and "content" in as_dict(value.get("message"))
        and ("sessionId" in value or "parentUuid" in value)
    )


SUFFIXES = frozenset({".jsonl", ".ndjson", ".json", ".csv", ".traj", ".zst", ".zstd"})
"""The suffixes, in small letters, of the files that are looked for in a folder."""
DATABASES = frozenset({".db", ".sqlite", ".sqlite3"})
"""The suffixes of files that are imported from a folder if they hold a program's sessions."""
_SETTINGS = frozenset({"settings.json", "projects.json", "state.json", "installation_id"})
"""Files that programs keep beside their sessions."""


def files_in(path: Path, *, passed_over: Callable[[Path], object] = lambda _: None) -> Iterator[Path]:
    """Yield the files to import at a path: the file itself, or those in and below the folder.

    A folder of conversations in a format of its own counts as one file. Hidden files and folders are
    skipped, as are settings of programs. No folder is entered twice, whatever links lead to it; a folder
    that cannot be entered is yielded itself, to be refused. A folder's own files come before those below
    it, by their names, sub-agents' files of Claude Code after their sessions', those of agents that
    others started after theirs. For a note of Claude Code on a sub-agent its file is yielded.
    `passed_over` is called with each file that is skipped for its suffix.
    """
    if path.is_dir():
        yield from _inside(path, set(), passed_over)
    else:
        yield agent_notes.file_of(path) or path


def folder_of(path: Path) -> tuple[Path, Importer | None]:
    """Return the folder that a path belongs to, and its importer; None if no importer has it.

    Raises `UnknownFormatError` for a folder in which no importer finds a conversation.
    """
    refused: UnknownFormatError | None = None
    for importer, format in _folder_formats():
        try:
            if (found := format.find(path)) is not None:
                return found, importer
        except UnknownFormatError as error:
            refused = refused or error
    if refused is not None:
        raise refused
    return path, None


def _folder_formats() -> Iterator[tuple[Importer, FolderFormat]]:
    """Yield the importers whose format is a folder."""
    for name in IMPORTERS:
        if (importer := IMPORTERS[name]).folder is not None:
            yield importer, importer.folder


def _inside(
    folder: Path, entered: set[tuple[int, int]], passed_over: Callable[[Path], object]
) -> Iterator[Path]:
    there = folder.stat()
    if (there.st_dev, there.st_ino) in entered:
        return
    entered.add((there.st_dev, there.st_ino))
    try:
        with os.scandir(folder) as found:
            seen = sorted((each for each in found if each.name[0] != "."), key=_sort_key)
        is_one = any(each.holds(folder) for _, each in _folder_formats())
    except OSError:
        is_one = True  # it is refused where it is read; its neighbours are read
    if is_one:
        yield folder
        return
    for file in (Path(each) for each in seen if each.is_file()):
        notes = (agent_notes.NOTE, *MAPPING_SUFFIXES)
        is_wanted = file.suffix.lower() in SUFFIXES and file.name not in _SETTINGS
        if (is_wanted or _is_session(file)) and not file.name.endswith(notes):
            yield file
        elif agent_notes.file_of(file) is None:
            passed_over(file)
    for each in seen:
        if each.is_dir():
            yield from _inside(Path(each), entered, passed_over)


def _is_session(file: Path) -> bool:
    """Return whether a database, or a file named like settings, holds conversations; not so a log."""
    if file.suffix.lower() not in DATABASES and file.name not in _SETTINGS:
        return False
    with suppress(StenologError, OSError):
        return recognise(file) != "stenolog-db"
    return False


def _sort_key(each: os.DirEntry[str]) -> tuple[bool, int, str]:
    is_agent = each.name.startswith(agent_notes.SUB_AGENT) and not each.name.endswith(agent_notes.NOTE)
    return is_agent, agent_notes.depth_of(Path(each)) if is_agent else 0, each.name


def size_of(path: Path) -> int:
    """Return the bytes to read of a file, or of a format's folder; 0 if that is unknown."""
    files: Iterable[Path] = [path]
    if path.is_dir():
        files = chain.from_iterable(each.files(path) for _, each in _folder_formats())
    with suppress(OSError):
        return sum(found.stat().st_size for found in files)
    return 0
