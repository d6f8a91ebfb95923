"""The SQLite databases of ADK's session services, in all versions of their tables.

`event_data` holds a whole event as JSON. Before, each field had a column of its own, the actions a pickle.
"""

from __future__ import annotations

import io
import pickle
import sqlite3
from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO

from stenolog.errors import UnknownFormatError
from stenolog.importers import (
    Json,
    JsonLinesReader,
    Skipped,
    as_dict,
    as_str,
    sqlite_database,
    tables_in,
)

JSON_COLUMNS = (
    "citation_metadata",
    "content",
    "custom_metadata",
    "grounding_metadata",
    "input_transcription",
    "output_transcription",
    "usage_metadata",
)
FLAGS = ("interrupted", "partial", "turn_complete")
MAX_VALUES = 100_000
FIELDS = "__dict__"
"""The key of a model's fields in its state."""


def sessions_in(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[dict[str, Any]]:
    """Yield the sessions of a database in the form of an export, the oldest first.

    Of sessions with one id, the first one keeps it; the others have the application and the user in it, too.
    """
    seen: Counter[str] = Counter()
    order = "create_time, rowid" if "create_time" in tables_in(stream)["sessions"] else "rowid"
    with sqlite_database(stream, "sessions", "events") as connection:
        query = f"SELECT app_name, user_id, id, state FROM sessions ORDER BY {order}"
        for app, user, id, state in connection.execute(query).fetchall():
            name = str(id) if not seen[str(id)] else f"{id} ({app}, {user})"
            seen[str(id)] += 1
            events = list(_events(connection, (app, user, id), reading))
            yield {
                "id": name,
                "app_name": str(app),
                "user_id": str(user),
                "state": _value(state, JsonLinesReader()),
                "events": events,
            }


def _events(
    connection: sqlite3.Connection, session: tuple[Any, Any, Any], reading: JsonLinesReader
) -> Iterator[dict[str, Any]]:
    """Yield the events of a session; a row that holds none is skipped and reported."""
    cursor = connection.execute(
        "SELECT rowid, * FROM events WHERE app_name = ? AND user_id = ? AND session_id = ?"
        " ORDER BY timestamp, rowid",
        session,
    )
    names = [column[0] for column in cursor.description]
    for row in cursor:
        columns = dict(zip(names, row, strict=True))
        try:
            yield _event(columns, reading)
        except UnknownFormatError as error:
            reading.skipped.append(Skipped(int(row[0]), str(error), "row"))


def _event(columns: dict[str, Any], reading: JsonLinesReader) -> dict[str, Any]:
    """Return the event of a row. Raises `UnknownFormatError` for JSON that cannot be read."""
    common = {
        name: columns[name] for name in ("id", "invocation_id", "author", "branch") if columns.get(name)
    }
    if "event_data" in columns:
        event = as_dict(_value(columns["event_data"], reading))
        return {"timestamp": columns["timestamp"], **event, **common}
    json_fields = {name: _value(columns.get(name), reading) for name in JSON_COLUMNS}
    failed = {name: as_str(columns.get(name)) or None for name in ("error_code", "error_message")}
    flags = {name: bool(columns.get(name)) for name in FLAGS}
    actions = fields_in(columns.get("actions"))
    return {"timestamp": columns["timestamp"], **common, **json_fields, **failed, **flags, "actions": actions}


def _value(text: object, reading: JsonLinesReader) -> Json:
    if not isinstance(text, str | bytes) or not text:
        return None
    parser = JsonLinesReader()
    value = parser.document(io.BytesIO(text.encode("utf-8", "replace") if isinstance(text, str) else text))
    reading.repaired += parser.repaired
    return value


class _Inert:
    """Stands for an instance of any class, and for the result of any call."""

    def __new__(cls, *arguments: object, **named: object) -> _Inert:
        return super().__new__(cls)

    def __init__(self, *arguments: object, **named: object) -> None:
        self.fields: dict[str, Any] = {}

    def __setstate__(self, state: object) -> None:
        if isinstance(state, dict):
            inner = state.get(FIELDS, state)
            self.fields = inner if isinstance(inner, dict) else {}


class _InertUnpickler(pickle.Unpickler):
    """Reads a pickle in which nothing has a meaning but containers, texts and numbers."""

    def find_class(self, module: str, name: str) -> Any:
        return _Inert


def fields_in(data: object) -> dict[str, Any]:
    """Return the fields of a pickled model as JSON; empty if it cannot be read. Nothing in it is run.

    Each class or function that a pickle names is replaced by one that only keeps what it is given.
    """
    if not isinstance(data, bytes):
        return {}
    try:
        value = _PlainValues().of(_InertUnpickler(io.BytesIO(data)).load())
    except Exception:  # a damaged pickle may raise anything
        return {}
    return value if isinstance(value, dict) else {}


class _PlainValues:
    """Makes JSON of values. A pickle may name one value many times, so their number is limited."""

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def of(self, value: object) -> Any:
        """Return the value as JSON; what JSON has no form for is None. Raises `ValueError` for too many."""
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"expected at most {MAX_VALUES} values")
        match value:
            case None | bool() | int() | float() | str():
                return value
            case _Inert():
                return self.of(value.fields) or None
            case dict():
                return {str(name): self.of(inner) for name, inner in value.items()}
            case list() | tuple():
                return [self.of(inner) for inner in value]
            case set() | frozenset():
                return sorted(map(self.of, value), key=repr)
            case _:
                return None
