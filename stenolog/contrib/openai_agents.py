"""The database of a `SQLiteSession`: its signature, and its sessions' items.

Tables may have any name; messages are in the one with the columns `session_id` and `message_data`. An
`AdvancedSQLiteSession` adds branches and tokens of turns.

The events are those of an `OpenAIAgentsSession`, which returns the items unchanged. Successive items of a
model are one message.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, BinaryIO, NamedTuple

from stenolog import importers
from stenolog.contrib.programs import OPENAI_AGENTS_COLUMNS
from stenolog.errors import DuplicateIdError, UnknownFormatError
from stenolog.events import AssistantMessage, Known, ToolResult, Usage, UserMessage
from stenolog.frameworks import openai_agents_events
from stenolog.importers import Blobs, Record, as_dict, as_int, as_str, as_time

USER = "user"
SYSTEM = "openai-agents"
PROVIDER = "openai"
INPUT_ROLES = ("user", "system", "developer")


class ItemRow(NamedTuple):
    """An item of a session: key, time, and the tokens of the turn that it ends."""

    key: str
    item: dict[str, Any]
    time: datetime
    usage: Usage | None


class AgentsSession(importers.SessionConverter):
    """Converter of a session of the OpenAI Agents SDK; `rows` are its row numbers in order.

    Raises `DuplicateIdError` for rows that do not continue the log.
    """

    system, main, provider = SYSTEM, "assistant", PROVIDER

    def __init__(self, log: importers.ExistingLog, rows: Sequence[int]) -> None:
        self._rows = rows
        super().__init__(log)
        self._log = log
        self._answer: list[ItemRow] = []
        """The items of the answer that is still going on, as far as they are one entry."""
        self._source_id = ""
        """The key of that answer's first item, which its later entries share."""

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for an item; an answer waits for what follows it."""
        self._check_goes_on()
        self.time = as_time(record.value.get("time"), self.time)
        row = ItemRow(f"#{record.line}", record.value["item"], self.time, _tokens(record.value.get("usage")))
        if _is_input(row.item):
            self._close()
            self._source_id = ""
            self._input(row)
        else:
            if self._answer and self._entry_of(self._answer[-1]) != self._entry_of(row):
                self._close()
            self._source_id = self._source_id or row.key
            self._answer.append(row)
        return self.writer.drain()

    def end(self) -> list[importers.Step]:
        """Return the remaining steps; items removed since an earlier import are hidden."""
        self._close()
        if removed := self.writer.hide_missing(self.time):
            self.decisions["taken out of the session"] += removed
        return self.writer.drain()

    def _check_goes_on(self) -> None:
        """Check once that rows are known, or all new. Raises `DuplicateIdError`."""
        rows, self._rows = self._rows, ()
        existing = [int(id[1:]) for id in self._log.positions if re.fullmatch(r"#\d+", id)]
        if rows and existing and not {*rows} & {*existing} and rows[0] <= max(existing):
            raise DuplicateIdError(
                f"expected a row that was imported before, or rows behind {max(existing)}, found row "
                f"{rows[0]}: is it another session? Then give it another name"
            )

    def _entry_of(self, row: ItemRow) -> str:
        existing = self._log.answers.get(row.key)
        return existing.id if existing else ""

    def _close(self) -> None:
        rows, self._answer = self._answer, []
        if not rows:
            return
        about = (as_dict(row.item.get("provider_data")) for row in rows)
        if model := next((found for each in about if (found := as_str(each.get("model")))), ""):
            self.setup.card(self.main, model=model)
        self.setup.settle(rows[0].key, rows[0].time)
        blobs: Blobs = {}
        for event in openai_agents_events([row.item for row in rows], self.main, model, blobs):
            assert isinstance(event, AssistantMessage)
            answer = replace(
                event,
                to=(USER,),
                usage=next((row.usage for row in reversed(rows) if row.usage), None),
                source=self.writer.source(self._source_id, self.main, *(row.key for row in rows)),
            )
            self.writer.write(answer, rows[0].key, rows[0].time, blobs)

    def _input(self, row: ItemRow) -> None:
        blobs: Blobs = {}
        for event in openai_agents_events([row.item], self.main, "", blobs):
            placed = self._placed(event, row)
            self.put(placed, row.key, blobs)

    def _placed(self, event: Any, row: ItemRow) -> Known:
        if isinstance(event, ToolResult):
            call = self.writer.closed(event.call_id)
            source = self.writer.source(event.call_id, "tool", row.key)
            name = call.name if call else ""
            is_error = row.item.get("status") == "failed" or _has_failed(row.item.get("output"))
            ref = call.ref if call else None
            return replace(event, call=ref, name=name, is_error=is_error, source=source)
        assert isinstance(event, UserMessage)
        if event.author_kind == "person":
            self.name_after(event.text)
        role = as_str(row.item.get("role"))
        return replace(
            event, to=(self.main,), source=self.writer.source(as_str(row.item.get("id")), role, row.key)
        )


def _is_input(item: dict[str, Any]) -> bool:
    """Return whether the model was given an item, rather than wrote it."""
    kind = as_str(item.get("type"))
    id = item.get("id") if kind == "local_shell_call_output" else item.get("call_id")
    return item.get("role") in INPUT_ROLES or (kind.endswith("_output") and isinstance(id, str))


def _has_failed(output: object) -> bool:
    return isinstance(output, str) and output.startswith("An error occurred while running the tool")


def _tokens(turn: object) -> Usage | None:
    counted = as_dict(turn)
    numbers: dict[str, Any] = {
        "input": as_int(counted.get("input_tokens")),
        "output": as_int(counted.get("output_tokens")),
        "cache_read": as_int(importers.object_in(counted.get("input_tokens_details")).get("cached_tokens")),
        "reasoning": as_int(
            importers.object_in(counted.get("output_tokens_details")).get("reasoning_tokens")
        ),
    }
    return Usage(**numbers) if any(numbers.values()) else None


STRUCTURE, USAGE = "message_structure", "turn_usage"
MAIN_BRANCH = "main"
OUTPUT = "_output"
"""The end of the type of an item that a tool wrote."""


class SessionBranch(NamedTuple):
    """A branch of a session; its name is empty in a database without branches."""

    session: str
    name: str

    @property
    def conversation(self) -> str:
        """The name of its conversation: that of the session, for its main branch."""
        return self.session if self.name in ("", MAIN_BRANCH) else f"{self.session}~{self.name}"


def read(stream: BinaryIO, reading: importers.JsonLinesReader) -> Iterator[importers.SourceConversation]:
    """Yield a conversation for each session and each of its other branches."""
    names = importers.tables_in(stream)
    tables = [name for name, columns in names.items() if columns >= OPENAI_AGENTS_COLUMNS]
    with importers.sqlite_database(stream, *tables, STRUCTURE, USAGE) as connection:
        for table in (f'"{name.replace(chr(34), chr(34) * 2)}"' for name in tables):
            for branch in _branches(connection, table, has_structure=STRUCTURE in names):
                usage = _usage(connection, branch) if USAGE in names and branch.name else {}
                records = list(_records(connection, table, branch, usage, reading))
                make = partial(AgentsSession, rows=[record.number for record in records])
                yield importers.SourceConversation(branch.conversation, records, make, Counter(), unit="row")


def _branches(connection: sqlite3.Connection, table: str, *, has_structure: bool) -> list[SessionBranch]:
    """Return branches by their sessions' first messages, main ones first."""
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
    reading: importers.JsonLinesReader,
) -> Iterator[Record]:
    """Yield a branch's items with their times; report rows that hold none."""
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
            reading.skipped.append(importers.Skipped(id if has_id else 0, fault, "row"))
        else:
            yield Record(str(id), {"item": item, "time": time, "usage": usage.get(id)})


def _item(data: object, reading: importers.JsonLinesReader) -> tuple[dict[str, Any] | None, str]:
    if not isinstance(data, str | bytes):
        return None, f"expected an item as JSON, found {type(data).__name__}"
    try:
        item = reading.cell(data)
    except UnknownFormatError as error:
        return None, str(error)
    if not isinstance(item, dict):
        return None, f"expected an object, found {type(item).__name__}"
    if "__enc__" in item:
        return None, "expected an item, found one that an EncryptedSession has encrypted"
    return item, ""


def _usage(connection: sqlite3.Connection, branch: SessionBranch) -> dict[int, dict[str, Any]]:
    query = (
        f"SELECT user_turn_number, MAX(message_id) FROM {STRUCTURE} WHERE session_id = ? AND branch_id = ?"
        f" AND message_type NOT IN ('user', 'other') AND message_type NOT LIKE '%{OUTPUT}'"
        " GROUP BY user_turn_number"
    )
    last: dict[Any, int] = dict(connection.execute(query, branch))
    cursor = connection.execute(f"SELECT * FROM {USAGE} WHERE session_id = ? AND branch_id = ?", branch)
    turns = [importers.dict_row(cursor, row) for row in cursor]
    return {last[turn["user_turn_number"]]: turn for turn in turns if turn["user_turn_number"] in last}


OPENAI_AGENTS = importers.Importer("openai-agents", read=read)
