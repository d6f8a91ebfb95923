"""The SQLite database that dsh can keep its sessions in: the events of a session's file, as rows."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from sqlite3 import Connection
from typing import BinaryIO

from stenolog.errors import UnknownFormatError
from stenolog.importers import (
    SQLITE,
    Importer,
    JsonLinesReader,
    JsonObject,
    Record,
    RecordSpool,
    Skipped,
    SourceConversation,
    plain_bytes,
    sqlite_database,
)

from .converter import DeepseekHarness
from .vocabulary import PACKED

_COLUMNS = {
    "persistence_state": frozenset(("store_id",)),
    "sessions": frozenset(("id", "version", "created_at", "incarnation")),
    "events": frozenset(("session_id", "seq", "type", "time", "data", "surface_op")),
}
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


def is_database(first: bytes, stream: BinaryIO) -> bool:
    """Return whether a file is dsh's database of sessions."""
    if not first.startswith(SQLITE):
        return False
    with sqlite_database(stream) as connection:
        return all(wanted <= _columns(connection, table) for table, wanted in _COLUMNS.items())


def _columns(connection: Connection, table: str) -> set[str]:
    return {column[1] for column in connection.execute(f"PRAGMA table_info({table})")}


def read(stream: BinaryIO, reader: JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield a conversation for each session of a database."""
    spool = RecordSpool()
    with sqlite_database(stream) as connection:
        connection.row_factory = lambda cursor, row: {
            column[0]: value for column, value in zip(cursor.description, row, strict=True)
        }
        for row in connection.execute("SELECT * FROM sessions ORDER BY created_at, id"):
            head = {name: row[column] for column, name in _HEAD.items() if row.get(column) is not None}
            spool.add(str(row["id"]), Record("0", {"type": "session", **head}))
        for row in connection.execute("SELECT * FROM events ORDER BY session_id, seq"):
            if (event := _event(row, reader)) is not None:
                spool.add(str(row["session_id"]), Record(str(row["seq"]), event))
    for name in spool:
        yield SourceConversation(name, spool.records(name), DeepseekHarness, unit="record")


def _event(row: JsonObject, reader: JsonLinesReader) -> JsonObject | None:
    """Return a row as the event that a file would hold; one whose data is damaged is skipped."""
    try:
        data = reader.document(BytesIO(_bytes(row["data"])))
        surface = reader.document(BytesIO(_bytes(row["surface_op"] or "null")))
    except UnknownFormatError as error:
        reader.skipped.append(Skipped(row["seq"], str(error), "record"))
        return None
    if row["type"] in PACKED:
        return {"type": row["type"], "seq0": row["seq"], "time0": row["time"], "data": data}
    event = {"type": row["type"], "seq": row["seq"], "time": row["time"], "data": data, "surfaceOp": surface}
    return event | ({"ignorable": True} if row.get("ignorable") == 1 else {})


def _bytes(value: object) -> bytes:
    """Return a value of a row as JSON text, which is compressed where it is long."""
    return plain_bytes(value) if isinstance(value, bytes) else str(value).encode()


DATABASE = Importer(
    "deepseek-harness-db", "deepseek-harness's database of sessions", read, is_start=is_database
)
