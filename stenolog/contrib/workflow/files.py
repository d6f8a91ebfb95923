"""Readers of workflow tables: an SQLite database, CSV with a header, JSON, or a cursor."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any, BinaryIO

from stenolog import Log
from stenolog.errors import UnknownFormatError
from stenolog.events import check_json
from stenolog.importers import (
    LONGEST_LINE,
    SQLITE,
    Importer,
    Json,
    JsonLinesReader,
    JsonObject,
    Record,
    Report,
    Skipped,
    SourceConversation,
    as_list,
    import_conversations,
    name_of,
    sqlite_database,
)

from .rows import WorkflowRows, at_of, workflow_of

TABLE = "conversation_messages"
NEEDED = frozenset(("role", "content"))


def is_row(value: Json) -> bool:
    """Return whether it is a row of such a table: it names a workflow, a role, and content."""
    return isinstance(value, dict) and value.keys() >= NEEDED and workflow_of(value) is not None


def are_rows(document: Json) -> bool:
    """Return whether it is a list of rows."""
    return bool(as_list(document)) and all(map(is_row, as_list(document)))


def is_csv(first: bytes) -> bool:
    """Return whether the first line is a header with the columns of the table."""
    header = first.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0].decode("utf-8", "replace")
    return is_row(dict.fromkeys(next(csv.reader([header]), []), ""))


def check_database(stream: BinaryIO) -> None:
    """Raises `UnknownFormatError` where a database has no such table, or is a log of ours."""
    with sqlite_database(stream) as connection:
        names = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
        found = [name for (name,) in connection.execute(names)]
    if TABLE not in found:
        there = ", ".join(found[:6]) or "none"
        raise UnknownFormatError(
            f"expected an SQLite database with a table {TABLE}, found the tables {there}"
        )


def read(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[SourceConversation]:
    """The conversations of a file that was recognised as such rows."""
    first = stream.read(len(SQLITE))
    stream.seek(0)
    if first == SQLITE:
        rows: Iterable[JsonObject] = _from_database(stream)
    elif first.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        rows = reading.document(stream)
    elif first.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        rows = (record.value for record in reading.records(stream))
    else:
        rows = _from_csv(stream)
    yield from source_conversations(rows, reading)


def source_conversations(
    rows: Iterable[Mapping[str, Any]], reading: JsonLinesReader
) -> Iterator[SourceConversation]:
    """The conversations of rows, each in the order of its times; what is no row is skipped, with a reason."""
    conversations: dict[str, list[Record]] = {}
    for number, row in enumerate(rows, 1):
        value = {str(name): _plain(value) for name, value in row.items() if value is not None}
        value.setdefault("content", "")
        if fault := _fault(value):
            reading.skipped.append(Skipped(number, fault, "row"))
        else:
            conversations.setdefault(str(workflow_of(value)), []).append(Record(str(number), value))
    for name, records in conversations.items():
        ordered = _in_order(records)
        yield SourceConversation(name_of(name), ordered, partial(WorkflowRows, records=ordered), unit="row")


def _fault(row: JsonObject) -> str:
    if not is_row(row):
        return f"expected a workflow and a role, found {', '.join(row) or 'nothing'}"
    try:
        check_json(row)
    except ValueError as error:
        return f"cannot be written: {error}"
    return ""


def _in_order(records: list[Record]) -> list[Record]:
    """By time; a row without one stays behind the one before it."""
    last: datetime | None = None
    placed: list[tuple[datetime | None, Record]] = []
    for record in records:
        last = at_of(record.value) or last
        placed.append((last, record))
    timed = [one for one in placed if one[0] is not None]
    early = [record for at, record in placed if at is None]
    return early + [record for _, record in sorted(timed, key=lambda one: one[0] or datetime.min)]


def _from_database(stream: BinaryIO) -> Iterator[JsonObject]:
    with sqlite_database(stream) as connection:
        found = connection.execute(f'SELECT * FROM "{TABLE}"')
        names = [column[0] for column in found.description]
        for row in found:
            yield dict(zip(names, row, strict=True))


def _from_csv(stream: BinaryIO) -> Iterator[JsonObject]:
    """The rows of CSV; an empty field is one that is not there."""
    csv.field_size_limit(LONGEST_LINE)
    text = io.TextIOWrapper(stream, "utf-8-sig", errors="replace", newline="")
    try:
        for row in csv.DictReader(text, restkey="more"):
            yield {name: value for name, value in row.items() if value not in ("", None)}
    except csv.Error as error:
        raise UnknownFormatError(f"expected CSV: {error}") from None
    finally:
        text.detach()


def _plain(value: Any) -> Json:
    """A value of a database as JSON: times in ISO 8601, bytes as text, others in words."""
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case str() | bool() | int() | float() | None:
            return value
        case list():
            return [_plain(one) for one in value]
        case dict():
            return {str(name): _plain(one) for name, one in value.items()}
        case bytes() | memoryview():
            return bytes(value).decode("utf-8", "replace")
        case datetime():
            return value.isoformat()
        case _:
            return str(value)


def import_rows(log: Log, rows: Iterable[Any], *, name: str | None = None) -> Report:
    """Import rows of a table of messages: mappings, or the cursor of a database that has selected them.

    Each workflow (`workflowId`) becomes a conversation of that name; `name` as in `import_file`. What the log
    holds already is not appended again. Columns that are not known are kept in `meta`.
    """
    reading = JsonLinesReader()
    described = getattr(rows, "description", None)
    names = [column[0] for column in described] if described else []
    given = (dict(zip(names, row, strict=True)) if isinstance(row, tuple) else row for row in rows)
    found = source_conversations(given, reading)
    return import_conversations(log, found, reading, source="rows", format=WORKFLOW.name, name=name)


def _is_start(first: bytes, stream: BinaryIO) -> bool:
    """Return whether a file begins as a database, which must have the table, or as CSV with its columns."""
    if first.startswith(SQLITE):
        check_database(stream)
        return True
    return is_csv(first)


WORKFLOW = Importer(
    "conversation-messages",
    "a table conversation_messages",
    read,
    is_document=are_rows,
    is_record=is_row,
    is_start=_is_start,
    precedence=1,  # its rows may look like a chat too
)
