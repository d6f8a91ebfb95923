"""Workflow tables from SQLite, CSV, JSON or a cursor, as events by workflow."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import Any, BinaryIO

from stenolog import Log, events, importers
from stenolog.contrib.programs import WORKFLOW_IDS
from stenolog.importers import Json, JsonObject, Record, as_list, as_str, as_time, compact_json

from .rows import columns_of, messages_in

SYSTEM = "conversation_messages"
TIMES = ("createdAt", "created_at", "createdat")
KNOWN = {"id", "role", "content", "agent", *WORKFLOW_IDS, *TIMES}
AGENTS = ("assistant", "agent", "ai", "model")
LONGEST_ID = 150
QUARTER = 15 * 60
"""Seconds; time zones differ by some of these."""
NEVER = datetime(1, 1, 1, tzinfo=UTC)


def workflow_of(row: dict[str, Any]) -> str | int | None:
    """Return a row's workflow; None if it names none."""
    found = next((row[name] for name in WORKFLOW_IDS if name in row), None)
    return found if isinstance(found, str | int) else None


def at_of(row: dict[str, Any]) -> datetime | None:
    """Return a row's time; None if missing or invalid."""
    found = next((row[name] for name in TIMES if name in row), None)
    if isinstance(found, str) and found.strip().isdecimal():
        found = float(found)
    at = as_time(found, NEVER)
    return None if at is NEVER else at


def _speaker(row: dict[str, Any]) -> str:
    if as_str(row.get("role")).casefold() not in AGENTS:
        return ""
    agent, _, task = as_str(row.get("agent")).partition("/")
    return events.address(importers.agent_called(agent), task)


def _followed_by(speakers: Sequence[str]) -> list[str]:
    found, following = [], ""
    for speaker in reversed(speakers):
        found.append(following)
        following = speaker or following
    return found[::-1]


def _addressed(agent: str) -> events.TurnPolicy:
    return events.TurnPolicy(rule="addressed", options={"default": [agent]})


def _identity_of(row: Mapping[str, Any], at: datetime) -> tuple[str, str, str, int]:
    role, agent, content = (as_str(row.get(name)) for name in ("role", "agent", "content"))
    return role, agent, content.replace("\0", "\ufffd"), int(at.timestamp()) % QUARTER


class WorkflowRows(importers.RecordConverter):
    """Converter of a table's rows, one workflow's `records` in order.

    A user's words are for the next speaker, else for the first who ever speaks. The system's first words to
    an agent that has not spoken are its persona. A row without an id is known by its words; one without a
    time has the previous row's. Rows that `WorkflowFollower` wrote of this log are skipped.
    """

    def __init__(self, log: importers.ExistingLog, records: Sequence[Record]) -> None:
        super().__init__(importers.EventWriter(SYSTEM, "", log))
        self._at = events.EPOCH
        self._opened = log.own[:1] == [log.first]  # begun here: its turns are its own
        own = (message for entry in log.own for message in messages_in(entry))
        self._own = Counter(_identity_of(columns_of(message), message["createdAt"]) for message in own)
        self._known = set(log.agents)
        self._seen: Counter[str] = Counter()
        speakers = [_speaker(record.value) for record in records]
        self._first = next(filter(None, speakers), "")
        self._next = dict(zip((record.line for record in records), _followed_by(speakers), strict=True))

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for a row."""
        row = record.value
        self._at = at_of(row) or self._at
        if self._own[identity := _identity_of(row, self._at)] > 0:
            self._own[identity] -= 1
            return []
        if not self._opened:
            self._opened = True
            turns = _addressed(self._first.partition("/")[0]) if self._first else events.UNCHANGED
            opening = events.ModeSwitch(mode="chat", turns=turns, source=self.writer.source("", "settings"))
            self.writer.write(opening, "settings", self._at)
        key = self._key(row)
        self.writer.write(self._event(row, key, self._next[record.line]), key, self._at)
        return self.writer.drain()

    def _key(self, row: dict[str, Any]) -> str:
        id = str(row.get("id", ""))
        if not 0 < len(id) <= LONGEST_ID:
            id = sha256(compact_json(row).encode()).hexdigest()[:16]
        key = importers.key_of(f"row-{id}")
        self._seen[key] += 1
        return key if self._seen[key] == 1 else f"{key}-{self._seen[key]}"

    def _event(self, row: dict[str, Any], key: str, next_one: str) -> events.Known:
        role, words = as_str(row.get("role")).casefold(), self._content(row.get("content"))
        named = as_str(row.get("agent"))
        source = self.writer.source(str(row.get("id", "")), role, key)
        meta = self._meta(row)
        match role:
            case role if role in AGENTS:
                agent, _, task = _speaker(row).partition("/")
                self._known.add(agent)
                return events.AssistantMessage(agent=agent, task=task, text=words, meta=meta, source=source)
            case "tool" | "function":
                return events.ToolResult(call_id=key, name=named, text=words, meta=meta, source=source)
            case "system" | "developer":
                return self._system(named, words, meta, source)
            case "user" | "human":
                to = [next_one] if next_one else []
                return events.UserMessage(text=words, author=named, to=to, meta=meta, source=source)
            case _:
                self.decisions[f"role {role[:40]!r}, taken as the system's words"] += 1
                return events.UserMessage(
                    text=words, author=named, author_kind="system", meta=meta, source=source
                )

    def _system(self, named: str, words: str, meta: Json, source: events.Origin) -> events.Known:
        agent = importers.agent_called(named.partition("/")[0])
        if not named or agent in self._known:
            return events.UserMessage(
                text=words, author=named, author_kind="system", meta=meta, source=source
            )
        self._known.add(agent)
        return events.ModeSwitch(cards={agent: events.AgentCard(persona=words)}, meta=meta, source=source)

    def _content(self, content: Json) -> str:
        if isinstance(content, str):
            return content
        self.decisions["content that is no text, taken as JSON"] += 1
        return compact_json(content)

    def _meta(self, row: dict[str, Any]) -> dict[str, Json]:
        """Return fields without a place in the event, such as an invalid time."""
        rest = {name: value for name, value in row.items() if name not in KNOWN}
        if at_of(row) is None:
            rest |= {name: row[name] for name in TIMES if name in row}
        return {SYSTEM: rest} if rest else {}


TABLE = "conversation_messages"
NEEDED = frozenset(("role", "content"))


def is_row(value: Json) -> bool:
    """Return whether it names a workflow, a role and content."""
    return isinstance(value, dict) and value.keys() >= NEEDED and workflow_of(value) is not None


def are_rows(document: Json) -> bool:
    """Return whether it is a list of rows."""
    return bool(as_list(document)) and all(map(is_row, as_list(document)))


def is_csv(first: bytes) -> bool:
    """Return whether the first line is a header with the table's columns."""
    header = first.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0].decode("utf-8", "replace")
    try:
        return is_row(dict.fromkeys(next(csv.reader([header]), []), ""))
    except csv.Error:
        return False


def read(stream: BinaryIO, reading: importers.JsonLinesReader) -> Iterator[importers.SourceConversation]:
    """Yield the conversations of a file that was recognised as such rows."""
    first = stream.read(len(importers.SQLITE))
    stream.seek(0)
    if first == importers.SQLITE:
        rows: Iterable[JsonObject] = _from_database(stream)
    elif first.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        rows = reading.document(stream)
    elif first.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        rows = (record.value for record in reading.records(stream))
    else:
        rows = (record.value for record in importers.csv_rows(stream))
    yield from source_conversations(rows, reading)


def source_conversations(
    rows: Iterable[Mapping[str, Any]], reading: importers.JsonLinesReader
) -> Iterator[importers.SourceConversation]:
    """Yield the rows' conversations in order of time; report invalid rows."""
    conversations: dict[str, list[Record]] = {}
    for number, row in enumerate(rows, 1):
        value = {str(name): _plain(value) for name, value in row.items() if value is not None}
        value.setdefault("content", "")
        if fault := _fault(value):
            reading.skipped.append(importers.Skipped(number, fault, "row"))
        else:
            conversations.setdefault(str(workflow_of(value)), []).append(Record(str(number), value))
    for name, records in conversations.items():
        ordered = _in_order(records)
        yield importers.SourceConversation(
            importers.conversation_name(name), ordered, partial(WorkflowRows, records=ordered), unit="row"
        )


def _fault(row: JsonObject) -> str:
    if not is_row(row):
        return f"expected a workflow and a role, found {', '.join(row) or 'nothing'}"
    try:
        events.check_json(row)
    except ValueError as error:
        return f"cannot be written: {error}"
    return ""


def _in_order(records: list[Record]) -> list[Record]:
    """Return rows by time; one without a time follows the previous one."""
    last: datetime | None = None
    placed: list[tuple[datetime | None, Record]] = []
    for record in records:
        last = at_of(record.value) or last
        placed.append((last, record))
    timed = [one for one in placed if one[0] is not None]
    early = [record for at, record in placed if at is None]
    return early + [record for _, record in sorted(timed, key=lambda one: one[0] or datetime.min)]


def _from_database(stream: BinaryIO) -> Iterator[JsonObject]:
    with importers.sqlite_database(stream, TABLE) as connection:
        connection.row_factory = importers.dict_row
        yield from connection.execute(f'SELECT * FROM "{TABLE}"')


def _plain(value: Any) -> Json:
    """Return a database value as JSON: ISO 8601 times, bytes as text, others in words."""
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


def import_rows(log: Log, rows: Iterable[Any], *, name: str | None = None) -> importers.Report:
    """Import message rows: mappings, or a cursor that has selected them.

    Each workflow (`workflowId`) becomes a conversation of that name; `name` as in `import_file`. Rows already
    logged are skipped; unknown columns go to `meta`.
    """
    reading = importers.JsonLinesReader()
    described = getattr(rows, "description", None)
    names = [column[0] for column in described] if described else []
    given = (dict(zip(names, row, strict=True)) if isinstance(row, tuple) else row for row in rows)
    found = source_conversations(given, reading)
    return importers.import_conversations(log, found, reading, source="rows", format=WORKFLOW.name, name=name)


def _is_start(first: bytes, stream: BinaryIO) -> bool:
    return TABLE in importers.tables_in(stream) if first.startswith(importers.SQLITE) else is_csv(first)


WORKFLOW = importers.Importer(
    "conversation-messages",
    read=read,
    is_document=are_rows,
    is_record=is_row,
    is_start=_is_start,
)
