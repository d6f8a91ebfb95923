"""Files of Google ADK: session exports, evaluation sets and session databases.

An export is one session, a list, or one on each line.

An evaluation set has its cases in `eval_cases`. Earlier releases had a list of cases with turns in `data`, or
one conversation's turns: `query`, expected tools and `reference`.
"""

from __future__ import annotations

import io
import pickle
import sqlite3
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO, NamedTuple

from stenolog import importers
from stenolog.errors import UnknownFormatError
from stenolog.importers import Json, JsonLinesReader, Record, as_dict, as_list, as_str

from .events import USER, details_of, field, with_logs
from .session import AdkSession

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
    """Yield a database's sessions in export form, oldest first.

    If sessions share an id, the first keeps it; the others add application and user.
    """
    seen: Counter[str] = Counter()
    order = "create_time, rowid" if "create_time" in importers.tables_in(stream)["sessions"] else "rowid"
    with importers.sqlite_database(stream, "sessions", "events") as connection:
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
    cursor = connection.execute(
        "SELECT rowid, * FROM events WHERE app_name = ? AND user_id = ? AND session_id = ?"
        " ORDER BY timestamp, rowid",
        session,
    )
    for row in cursor:
        columns = importers.dict_row(cursor, row)
        try:
            yield _event(columns, reading)
        except UnknownFormatError as error:
            reading.skipped.append(importers.Skipped(int(row[0]), str(error), "row"))


def _event(columns: dict[str, Any], reading: JsonLinesReader) -> dict[str, Any]:
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
    return reading.cell(text)


class _Inert:
    """An instance of any class and the result of any call."""

    def __new__(cls, *arguments: object, **named: object) -> _Inert:
        return super().__new__(cls)

    def __init__(self, *arguments: object, **named: object) -> None:
        self.fields: dict[str, Any] = {}

    def __setstate__(self, state: object) -> None:
        if isinstance(state, dict):
            inner = state.get(FIELDS, state)
            self.fields = inner if isinstance(inner, dict) else {}


class _InertUnpickler(pickle.Unpickler):
    """Unpickler that gives meaning only to containers, texts and numbers."""

    def find_class(self, module: str, name: str) -> Any:
        return _Inert


def fields_in(data: object) -> dict[str, Any]:
    """Return a pickled model's fields as JSON; empty if unreadable. Runs nothing.

    Each class or function that a pickle names is replaced by one that only keeps its arguments.
    """
    if not isinstance(data, bytes):
        return {}
    try:
        value = _PlainValues().of(_InertUnpickler(io.BytesIO(data)).load())
    except Exception:  # a damaged pickle may raise anything
        return {}
    return value if isinstance(value, dict) else {}


class _PlainValues:
    """Converter of values to JSON. Limits their number, since a pickle may repeat one value."""

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def of(self, value: object) -> Any:
        """Return the value as JSON, None if JSON cannot express it. Raises `ValueError` for too many."""
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


AGENT = "agent"
"""The name of an agent that a case does not name."""
OF_TURNS = frozenset({"query", "expected_tool_use", "expected_intermediate_agent_responses", "reference"})
"""The fields of a turn as the first releases wrote it."""


class EvaluationCase(NamedTuple):
    """A case: name, events, facts about its session; `failed` is the reason for no events."""

    name: str
    events: list[dict[str, Any]]
    about: dict[str, Any]
    failed: str = ""


def is_evaluation(document: Json) -> bool:
    """Return whether a document is an evaluation set of any release."""
    if isinstance(document, dict):
        return isinstance(field(document, "eval_cases"), list) and field(document, "eval_set_id") is not None
    each = as_dict(document[0]) if isinstance(document, list) and document else {}
    return _is_turn(each) or (isinstance(each.get("data"), list) and any(_is_turn(t) for t in each["data"]))


def _is_turn(value: Json) -> bool:
    turn = as_dict(value)
    is_alone = turn.keys() <= OF_TURNS and "reference" in turn
    return isinstance(turn.get("query"), str) and ("expected_tool_use" in turn or is_alone)


def cases_in(document: Json) -> Iterator[EvaluationCase]:
    """Yield the cases of an evaluation set."""
    if isinstance(document, dict):
        yield from map(_case, map(as_dict, as_list(field(document, "eval_cases"))))
    elif document and _is_turn(document[0]):
        yield EvaluationCase("", [*_of_turns(as_list(document), AGENT)], {})
    else:
        for each in map(as_dict, as_list(document)):
            about = as_dict(each.get("initial_session"))
            agent = as_str(about.get("app_name")) or AGENT
            yield EvaluationCase(
                as_str(each.get("name")), [*_of_turns(as_list(each.get("data")), agent)], about
            )


def _case(case: dict[str, Any]) -> EvaluationCase:
    name, about = as_str(field(case, "eval_id")), as_dict(field(case, "session_input"))
    values = field(case, "conversation")
    if not isinstance(values, list):
        return EvaluationCase(
            name, [], about, "expected a conversation, found a scenario that a model is to play"
        )
    agent = as_str(field(about, "app_name")) or AGENT
    events = [
        {**details_of(turn).get(as_str(event.get("author")), {}), **event}
        for nth, turn in enumerate(map(as_dict, values), 1)
        for event in _of_invocation(turn, nth, agent)
    ]
    return EvaluationCase(name, events, about)


def _of_invocation(turn: dict[str, Any], nth: int, agent: str) -> Iterator[dict[str, Any]]:
    """Yield a turn's events: question, calls with known results, answer."""
    id = f"#{nth}"  # an invocation's own id may be missing, or repeated
    invocation = as_str(field(turn, "invocation_id")) or id
    common = {"invocation_id": invocation, "timestamp": field(turn, "creation_timestamp")}
    data = as_dict(field(turn, "intermediate_data"))
    yield {**common, "id": f"{id}-user", "author": USER, "content": field(turn, "user_content")}
    for number, event in enumerate(map(as_dict, as_list(field(data, "invocation_events")))):
        yield {**common, **event, "id": f"{id}-{number}"}
    uses, results = as_list(field(data, "tool_uses")), as_list(field(data, "tool_responses"))
    yield from _calls(uses, results, common, agent, id)
    for number, pair in enumerate(as_list(field(data, "intermediate_responses"))):
        author, parts = (*as_list(pair), None, None)[:2]
        replies = {"author": as_str(author) or agent, "content": {"parts": parts}}
        yield {**common, **replies, "id": f"{id}-said-{number}"}
    if answer := field(turn, "final_response"):
        yield {**common, "id": f"{id}-final", "author": agent, "content": answer}


def _calls(
    uses: list[Json], results: list[Json], common: dict[str, Json], agent: str, id: str
) -> Iterator[dict[str, Any]]:
    for name, values in (("function_call", uses), ("function_response", results)):
        if parts := [{name: each} for each in values if isinstance(each, dict)]:
            yield {**common, "id": f"{id}-{name}", "author": agent, "content": {"parts": parts}}


def _of_turns(turns: list[Json], agent: str) -> Iterator[dict[str, Any]]:
    for nth, turn in enumerate(map(as_dict, turns), 1):
        id, common = f"#{nth}", {"invocation_id": str(nth)}
        yield {**common, "id": f"{id}-user", "author": USER, "content": _text(turn.get("query"))}
        values = [as_dict(use) for use in as_list(turn.get("expected_tool_use"))]
        uses = [{"name": as_str(use.get("tool_name")), "args": use.get("tool_input")} for use in values]
        results = [
            {"name": as_str(use.get("tool_name")), "response": {"output": use["mock_tool_output"]}}
            for use in values
            if use.get("mock_tool_output") is not None
        ]
        yield from _calls(uses, results, common, agent, id)
        replies = [as_dict(each) for each in as_list(turn.get("expected_intermediate_agent_responses"))]
        for number, each in enumerate(replies):
            author, content = as_str(each.get("author")) or agent, _text(each.get("text"))
            yield {**common, "id": f"{id}-said-{number}", "author": author, "content": content}
        if isinstance(turn.get("reference"), str):
            yield {**common, "id": f"{id}-final", "author": agent, "content": _text(turn["reference"])}


def _text(text: Json) -> dict[str, Any]:
    return {"parts": [{"text": as_str(text)}] if text else []}


OF_SESSIONS = ("app_name", "user_id", "last_update_time")
OLD = "context"
"""The name of a session's state in the first releases."""
BESIDE = ("artifacts", OLD, "pending_events", "state")
"""The fields of a session that are no messages."""


def is_session(value: Json) -> bool:
    """Return whether a value is the export of a session."""
    session = as_dict(value)
    events = session.get("events")
    if not isinstance(events, list) or not isinstance(session.get("id"), str):
        return False
    has_facts = OLD in session or any(field(session, name) is not None for name in OF_SESSIONS)
    return has_facts and (not events or any(isinstance(as_dict(e).get("author"), str) for e in events))


def is_document(value: Json) -> bool:
    """Return whether a document is a session, a list of sessions, or an evaluation set."""
    are_sessions = isinstance(value, list) and bool(value) and all(map(is_session, value))
    return are_sessions or is_session(value) or is_evaluation(value)


def read(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[importers.SourceConversation]:
    """Yield the conversations of a file."""
    start = stream.read(len(importers.SQLITE))
    stream.seek(0)
    if start == importers.SQLITE:
        yield from (_of_session(session, "row") for session in sessions_in(stream, reading))
        return
    names: Counter[str] = Counter()
    for place, document in reading.documents(stream):
        if is_evaluation(document):
            for case in cases_in(document):
                names[case.name] += 1
                nth = names[case.name]
                name = case.name if nth == 1 else f"{case.name} ({nth})"
                yield _conversation(name, case.events, case.about, Counter(), failed=case.failed)
            continue
        for number, session in enumerate(document if isinstance(document, list) else [document], 1):
            if is_session(session):
                yield _of_session(session)
            else:
                item_place = place if session is document else place._replace(number=number, unit="item")
                reading.skip(item_place, "a session or an evaluation set", session)


def _of_session(session: dict[str, Any], unit: str = "event") -> importers.SourceConversation:
    ignored = Counter(name for name in BESIDE if session.get(name))
    return _conversation(session["id"], with_logs(session), session, ignored, unit=unit)


def _conversation(
    name: str,
    events: list[Json],
    about: dict[str, Any],
    ignored: Counter[str],
    *,
    failed: str = "",
    unit: str = "event",
) -> importers.SourceConversation:
    records = [Record(str(nth), event) for nth, event in enumerate(events, 1) if isinstance(event, dict)]
    ignored["not an object"] += len(events) - len(records)
    authors = (as_str(record.value.get("author")) for record in records)
    app = as_str(field(about, "app_name"))
    main = next((author for author in authors if author not in ("", USER)), "") or app or AGENT
    facts = {"app": app, "user": as_str(field(about, "user_id"))}
    make = partial(AdkSession, main=importers.agent_called(main, AGENT), about=facts)
    return importers.SourceConversation(name, records, make, +ignored, failed=failed, unit=unit)


ADK = importers.Importer(
    "adk",
    read=read,
    is_document=is_document,
    is_record=is_session,
)
