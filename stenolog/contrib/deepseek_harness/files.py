"""Files of dsh: a session's lines, plain or compressed, and its database of events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, TypeAlias

from stenolog import importers
from stenolog.errors import UnknownFormatError
from stenolog.importers import Json, JsonObject, Record, as_dict, as_int, as_str

from .converter import DeepseekHarness
from .vocabulary import PACKED, is_event, is_header


def is_session(record: Json) -> bool:
    """Return whether a record is of a session; its head may be lost."""
    value = as_dict(record)
    return is_header(value) or is_event(value)


def session_of(record: JsonObject, _has_begun: bool) -> str:
    """Return the session that a record begins."""
    return as_str(record.get("id")) if is_header(record) else ""


DEEPSEEK_HARNESS = importers.Importer(
    "deepseek-harness",
    lines=importers.LineFormat(DeepseekHarness, session_of),
    is_record=is_session,
)


Plain: TypeAlias = Callable[[bytes], bytes]
"""A function that decompresses, within the budget of a file."""
_HEAD = {
    "id": "id",
    "version": "version",
    "created_at": "createdAt",
    "cwd": "cwd",
    "parent_session": "parentSession",
    "origin": "origin",
    "delegation_depth": "delegationDepth",
    "agent_preset": "agentPreset",
}
"""The columns of a session, and what its file calls them."""


def read(stream: BinaryIO, reader: importers.JsonLinesReader) -> Iterator[importers.SourceConversation]:
    """Yield a conversation for each session of a database."""
    spool = importers.RecordSpool()
    with importers.sqlite_database(stream, "sessions", "events") as connection:
        connection.row_factory = importers.dict_row
        for row in connection.execute("SELECT * FROM sessions ORDER BY created_at, id"):
            head = {
                name: row[column]
                for column, name in _HEAD.items()
                if isinstance(row.get(column), str | int | float)
            }
            spool.add(str(row["id"]), Record("0", {"type": "session", **head}))
        for row in connection.execute("SELECT * FROM events ORDER BY session_id, seq"):
            if (event := _event(row, reader, connection.plain_bytes)) is not None:
                spool.add(str(row["session_id"]), Record(str(row["seq"]), event))
    for name in spool:
        yield importers.SourceConversation(name, spool.records(name), DeepseekHarness, unit="record")


def _event(row: JsonObject, reader: importers.JsonLinesReader, plain: Plain) -> JsonObject | None:
    try:
        data = reader.cell(_plain(row["data"], plain))
        surface = reader.cell(_plain(row["surface_op"] or "null", plain))
    except UnknownFormatError as error:
        reader.skipped.append(importers.Skipped(as_int(row["seq"]), str(error), "record"))
        return None
    row = {name: value for name, value in row.items() if not isinstance(value, bytes)}
    if not isinstance(row.get("seq"), int):
        reader.skipped.append(importers.Skipped(0, "expected a number as its seq", "record"))
        return None
    if row.get("type") in PACKED:
        return {"type": row["type"], "seq0": row["seq"], "time0": row.get("time"), "data": data}
    event = {
        "type": row.get("type"),
        "seq": row["seq"],
        "time": row.get("time"),
        "data": data,
        "surfaceOp": surface,
    }
    return event | ({"ignorable": True} if row.get("ignorable") == 1 else {})


def _plain(value: object, plain: Plain) -> object:
    return plain(value) if isinstance(value, bytes) else value


DATABASE = importers.Importer("deepseek-harness-db", read=read)
