"""The database of a `SQLiteSession`: how it is recognised, and the items of its sessions.

The tables may have any name; the messages are in the one with the columns `session_id` and `message_data`.
An `AdvancedSQLiteSession` adds the branches of a session and the tokens of its turns.
"""

from __future__ import annotations

import io
import sqlite3
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO, NamedTuple

from stenolog.contrib.programs import OPENAI_AGENTS_COLUMNS
from stenolog.errors import UnknownFormatError
from stenolog.importers import (
    Importer,
    JsonLinesReader,
    Record,
    Skipped,
    SourceConversation,
    as_dict,
    sqlite_database,
    tables_in,
)

from .items import AgentsSession

STRUCTURE, USAGE = "message_structure", "turn_usage"
MAIN_BRANCH = "main"
OUTPUT = "_output"
"""The end of the type of an item that a tool wrote."""


class SessionBranch(NamedTuple):
    """One branch of a session; its name is empty in a database without branches."""

    session: str
    name: str

    @property
    def conversation(self) -> str:
        """The name of its conversation: that of the session, for its main branch."""
        return self.session if self.name in ("", MAIN_BRANCH) else f"{self.session}~{self.name}"


def read(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield a conversation for each session of a database, and for each of its other branches."""
    names, tables = tables_in(stream), _tables(stream)
    with sqlite_database(stream, *tables, STRUCTURE, USAGE) as connection:
        for table in (f'"{name.replace(chr(34), chr(34) * 2)}"' for name in tables):
            for branch in _branches(connection, table, has_structure=STRUCTURE in names):
                usage = _usage(connection, branch) if USAGE in names and branch.name else {}
                records = list(_records(connection, table, branch, usage, reading))
                make = partial(AgentsSession, rows=[record.number for record in records])
                yield SourceConversation(branch.conversation, records, make, Counter(), unit="row")


def _tables(stream: BinaryIO) -> list[str]:
    """Return the tables that hold messages."""
    return [name for name, columns in tables_in(stream).items() if columns >= OPENAI_AGENTS_COLUMNS]


def _branches(connection: sqlite3.Connection, table: str, *, has_structure: bool) -> list[SessionBranch]:
    """Return the branches in the order of their sessions' first messages, main branches first."""
    sessions = f"SELECT session_id, MIN(id) FROM {table} GROUP BY session_id ORDER BY 2"
    found = [SessionBranch(str(session), "") for session, _ in connection.execute(sessions)]
    if not has_structure:
        return found
    chosen = f"SELECT branch_id, MIN(id) FROM {STRUCTURE} WHERE session_id = ? GROUP BY branch_id ORDER BY 2"
    all_of_it: list[SessionBranch] = []
    for session, _ in found:
        names = [str(name) for name, _ in connection.execute(chosen, (session,))]
        names.sort(key=MAIN_BRANCH.__ne__)
        all_of_it += [SessionBranch(session, name) for name in names] or [SessionBranch(session, "")]
    return all_of_it


def _records(
    connection: sqlite3.Connection,
    table: str,
    branch: SessionBranch,
    usage: dict[int, dict[str, Any]],
    reading: JsonLinesReader,
) -> Iterator[Record]:
    """Yield the items of a branch, each with its time; rows that hold none are skipped and reported."""
    if branch.name:
        rows = connection.execute(
            f"SELECT m.id, m.message_data, m.created_at FROM {table} m JOIN {STRUCTURE} s"
            " ON s.message_id = m.id WHERE s.session_id = ? AND s.branch_id = ?"
            " ORDER BY s.sequence_number, m.id",
            (branch.session, branch.name),
        )
    else:
        rows = connection.execute(
            f"SELECT id, message_data, created_at FROM {table} WHERE session_id = ? ORDER BY id",
            (branch.session,),
        )
    for id, data, time in rows:
        has_id = isinstance(id, int)
        item, fault = _item(data, reading) if has_id else (None, "expected a number as its id")
        if item is None:
            reading.skipped.append(Skipped(id if has_id else 0, fault, "row"))
        else:
            yield Record(str(id), {"item": item, "time": time, "usage": usage.get(id)})


def _item(data: object, reading: JsonLinesReader) -> tuple[dict[str, Any] | None, str]:
    """Return the item of a row, or None with the reason why it has none."""
    if not isinstance(data, str | bytes):
        return None, f"expected an item as JSON, found {type(data).__name__}"
    parser = JsonLinesReader()
    try:
        item = parser.document(io.BytesIO(data.encode("utf-8", "replace") if isinstance(data, str) else data))
    except UnknownFormatError as error:
        return None, str(error)
    reading.repaired += parser.repaired
    if not isinstance(item, dict):
        return None, f"expected an object, found {type(item).__name__}"
    if "__enc__" in item:
        return None, "expected an item, found one that an EncryptedSession has encrypted"
    return item, ""


def _usage(connection: sqlite3.Connection, branch: SessionBranch) -> dict[int, dict[str, Any]]:
    """Return the tokens of each turn, by the row of the last item that its model wrote."""
    query = (
        f"SELECT user_turn_number, MAX(message_id) FROM {STRUCTURE} WHERE session_id = ? AND branch_id = ?"
        f" AND message_type NOT IN ('user', 'other') AND message_type NOT LIKE '%{OUTPUT}'"
        " GROUP BY user_turn_number"
    )
    last: dict[Any, int] = dict(connection.execute(query, branch))
    cursor = connection.execute(f"SELECT * FROM {USAGE} WHERE session_id = ? AND branch_id = ?", branch)
    names = [column[0] for column in cursor.description]
    turns = [dict(zip(names, row, strict=True)) for row in cursor]
    return {
        last[turn["user_turn_number"]]: as_dict(turn) for turn in turns if turn["user_turn_number"] in last
    }


OPENAI_AGENTS = Importer("openai-agents", read=read)
