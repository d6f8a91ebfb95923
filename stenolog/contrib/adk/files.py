"""Files of ADK: exports of sessions, evaluation sets, and the databases of its session services.

An export is one session, a list of them, or one on each line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO

from stenolog.importers import (
    SQLITE,
    Importer,
    Json,
    JsonLinesReader,
    Record,
    SourceConversation,
    agent_called,
    as_dict,
    as_str,
)

from .cards import with_logs
from .database import sessions_in
from .evaluation import AGENT, cases_in, is_evaluation
from .events import USER, field
from .session import AdkSession

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


def read(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield the conversations of a file."""
    start = stream.read(len(SQLITE))
    stream.seek(0)
    if start == SQLITE:
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
                there = place if session is document else place._replace(number=number, unit="item")
                reading.skip(there, "a session or an evaluation set", session)


def _of_session(session: dict[str, Any], unit: str = "event") -> SourceConversation:
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
) -> SourceConversation:
    """Return a conversation of events; its main agent is the one that speaks first."""
    records = [Record(str(nth), event) for nth, event in enumerate(events, 1) if isinstance(event, dict)]
    ignored["not an object"] += len(events) - len(records)
    authors = (as_str(record.value.get("author")) for record in records)
    app = as_str(field(about, "app_name"))
    main = next((author for author in authors if author not in ("", USER)), "") or app or AGENT
    facts = {"app": app, "user": as_str(field(about, "user_id"))}
    make = partial(AdkSession, main=agent_called(main, AGENT), about=facts)
    return SourceConversation(name, records, make, +ignored, failed=failed, unit=unit)


ADK = Importer(
    "adk",
    read=read,
    is_document=is_document,
    is_record=is_session,
)
