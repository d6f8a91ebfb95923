"""Files of ADK: exports of sessions, evaluation sets, and the databases of its session services.

An export is one session, a list of them, or one on each line.

A case of an evaluation set is the conversation that it expects. A set has its cases in `eval_cases`. Earlier
releases had a list of cases with their turns in `data`, or the bare list of one conversation's turns, each
a `query` with the tools and the `reference` that are expected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO, NamedTuple

from stenolog.importers import (
    SQLITE,
    Importer,
    Json,
    JsonLinesReader,
    Record,
    SourceConversation,
    agent_called,
    as_dict,
    as_list,
    as_str,
)

from .database import sessions_in
from .events import USER, details_of, field, with_logs
from .session import AdkSession

AGENT = "agent"
"""The name of an agent that a case does not name."""
OF_TURNS = frozenset({"query", "expected_tool_use", "expected_intermediate_agent_responses", "reference"})
"""The fields of a turn as the first releases wrote it."""


class EvaluationCase(NamedTuple):
    """A case: its name, its events, and the facts about its session; `failed` says why it has no events."""

    name: str
    events: list[dict[str, Any]]
    about: dict[str, Any]
    failed: str = ""


def is_evaluation(document: Json) -> bool:
    """Return whether a document is an evaluation set, of this or an earlier release."""
    if isinstance(document, dict):
        return isinstance(field(document, "eval_cases"), list) and field(document, "eval_set_id") is not None
    each = as_dict(document[0]) if isinstance(document, list) and document else {}
    return _is_turn(each) or (isinstance(each.get("data"), list) and any(_is_turn(t) for t in each["data"]))


def _is_turn(value: Json) -> bool:
    """Return whether a value is a turn of the first releases, and no other pair of question and answer."""
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
    """Yield the events of one turn: question, calls with the results that are known, answer."""
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
    """Yield the calls of a turn as one event, and their results as another."""
    for name, values in (("function_call", uses), ("function_response", results)):
        if parts := [{name: each} for each in values if isinstance(each, dict)]:
            yield {**common, "id": f"{id}-{name}", "author": agent, "content": {"parts": parts}}


def _of_turns(turns: list[Json], agent: str) -> Iterator[dict[str, Any]]:
    """Yield the events of turns as the first releases wrote them."""
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
