"""opencode's SQLite database, `opencode.db`, which replaced the storage folder."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any, BinaryIO

from stenolog import importers
from stenolog.errors import UnknownFormatError
from stenolog.importers import JsonObject, as_dict, as_list, as_str, compact_json

from .converter import conversations
from .stored import StoredMessage, StoredSession, message_of

_TABLES = ("session", "message", "part")
_SECOND = "session_message"
"""The table that later releases keep messages in, beside or instead of the first two."""
_INFO = {
    "id": "id",
    "projectID": "project_id",
    "parentID": "parent_id",
    "directory": "directory",
    "title": "title",
    "version": "version",
    "revert": "revert",
}
"""The fields of a session, and their columns."""


class DatabaseStorage:
    """The sessions in a database."""

    def __init__(self, connection: Any, reading: importers.JsonLinesReader) -> None:
        self._connection = connection
        self._reading = reading
        self._number = 0
        self._has_second = bool(_columns(connection, _SECOND))

    def sessions(self) -> list[StoredSession]:
        """Return the sessions, in the order in which they began."""
        found_columns = _columns(self._connection, "session")
        columns = {name: column for name, column in _INFO.items() if column in found_columns}
        order = "time_created, id" if "time_created" in found_columns else "id"
        rows = self._connection.execute(f"SELECT {', '.join(columns.values())} FROM session ORDER BY {order}")
        found = [dict(zip(columns, row, strict=True)) for row in rows]
        for info in found:
            if info.get("revert"):
                info["revert"] = self._json("session", info["id"], info["revert"])
        return [StoredSession(as_str(info["id"]), info) for info in found]

    def messages(self, session: str) -> list[StoredMessage]:
        """Return the messages of a session."""
        with self._connection.at_one_moment():
            return self._messages(session)

    def _messages(self, session: str) -> list[StoredMessage]:
        rows = self._select("message", "id, data", "session_id = ? ORDER BY id", session)
        found = [message_of({**info, "id": id}, self._parts(id), id) for id, info in rows]
        if found or not self._has_second:
            return found
        rows = self._select(_SECOND, "id, data, type", "session_id = ? ORDER BY seq, id", session)
        return [message_of_row(info, id, type) for id, info, type in rows]

    def _parts(self, message: str) -> list[JsonObject]:
        rows = self._select("part", "id, data", "message_id = ? ORDER BY id", message)
        return [{**part, "id": id} for id, part in rows]

    def _select(self, table: str, columns: str, where: str, value: str) -> Iterator[tuple[Any, ...]]:
        rows = self._connection.execute(f"SELECT {columns} FROM {table} WHERE {where}", (value,)).fetchall()
        for id, data, *others in rows:
            if found := self._json(table, id, data):
                yield as_str(id), found, *others

    def _json(self, table: str, id: Any, data: Any) -> JsonObject:
        self._number += 1
        try:
            value = self._reading.cell(data)
        except UnknownFormatError as error:
            return self._skip(f"{table} {id!r:.60}: {error}")
        if not isinstance(value, dict):
            return self._skip(f"{table} {id!r:.60}: expected an object, found {type(value).__name__}")
        return value

    def _skip(self, reason: str) -> JsonObject:
        self._reading.skipped.append(importers.Skipped(self._number, reason, "row"))
        return {}


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


def read(stream: BinaryIO, reading: importers.JsonLinesReader) -> Iterator[importers.SourceConversation]:
    """Yield the sessions of a database, each as it is at one moment."""
    with importers.sqlite_database(stream, *_TABLES, _SECOND) as connection:
        yield from conversations(DatabaseStorage(connection, reading))


OPENCODE_DB = importers.Importer("opencode-db", read=read)


def message_of_row(data: JsonObject, id: str, type: str) -> StoredMessage:
    """Return the message of a `session_message` row; one without content gets a role that no message has.

    Source: `packages/core/src/session/message.ts` of anomalyco/opencode.
    """
    about: JsonObject = {"id": id, "time": data.get("time"), "agent": data.get("agent")}
    text = as_str(data.get("text"))
    match type:
        case "user":
            parts = [_text(text), *(_file(as_dict(each)) for each in as_list(data.get("files")))]
            return message_of({**about, "role": "user"}, parts, id)
        case "synthetic" | "system":
            return message_of({**about, "role": "user"}, [{**_text(text), "synthetic": True}], id)
        case "shell":
            wording = f"Ran `{as_str(data.get('command'))}`\n{as_str(data.get('output'))}"
            return message_of({**about, "role": "user"}, [_text(wording)], id)
        case "assistant":
            facts = ("model", "cost", "tokens", "finish")
            info = {**about, "role": "assistant", **{name: data.get(name) for name in facts}}
            if data.get("error"):
                info["error"] = data["error"]
            content = [as_dict(part) for part in as_list(data.get("content"))]
            return message_of(
                info, [_part(part, f"{id}-{nth}") for nth, part in enumerate(content) if part], id
            )
        case "compaction":
            wording = "\n\n".join(filter(None, (as_str(data.get("summary")), as_str(data.get("recent")))))
            info = {**about, "role": "assistant", "summary": True, "finish": "stop"}
            return message_of(info, [_text(wording)], id)
        case _:
            return message_of({**about, "role": type}, [], id)


def _text(wording: str) -> JsonObject:
    return {"type": "text", "text": wording}


def _file(file: JsonObject) -> JsonObject:
    url = as_str(file.get("uri")) or as_str(file.get("url"))
    name = as_str(file.get("name")) or as_str(file.get("filename"))
    return {"type": "file", "url": url, "mime": file.get("mime"), "filename": name}


def _part(part: JsonObject, id: str) -> JsonObject:
    """Return an answer's part; its ids are unique only within the answer."""
    match part.get("type"):
        case "tool":
            return {**_tool(part), "id": id}
        case "reasoning":
            return {**part, "id": id, "metadata": part.get("providerMetadata")}
        case _:
            return {**part, "id": id}


def _tool(part: JsonObject) -> JsonObject:
    state, times = as_dict(part.get("state")), as_dict(part.get("time"))
    raw = state.get("input")
    converted: JsonObject = {"status": state.get("status")}
    converted |= {"raw": raw} if isinstance(raw, str) else {"input": raw}
    converted["time"] = {
        "start": times.get("ran") or times.get("created"),
        "end": times.get("completed"),
        "compacted": times.get("pruned"),
    }
    content = [as_dict(each) for each in as_list(state.get("content"))]
    converted["output"] = "\n".join(as_str(each.get("text")) for each in content if "text" in each) or (
        compact_json(state["structured"]) if state.get("structured") else ""
    )
    files = [each for each in content if each.get("type") in ("file", "media", "image")]
    converted["attachments"] = [
        _file(each) for each in (*files, *map(as_dict, as_list(state.get("attachments"))))
    ]
    converted["error"] = state.get("error")
    return {
        "type": "tool",
        "callID": part.get("id"),
        "tool": part.get("name"),
        "state": converted,
        "metadata": as_dict(part.get("provider")).get("metadata"),
    }
