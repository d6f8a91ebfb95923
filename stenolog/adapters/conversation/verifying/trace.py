"""Trace of a value: every entry, blob, request, agent, provider, answer and table it reached.

It is found as written, and as JSON escapes it, not in other encodings or words.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from pydantic_core import from_json

from stenolog.adapters.conversation.log import Conversation, Log
from stenolog.adapters.conversation.queries.requests.sent_forms import in_sent_form
from stenolog.adapters.store.sqlite.inspection import inspecting
from stenolog.adapters.store.sqlite.recorder import SqliteLogRecorder
from stenolog.domain.entry import Record, to_entry
from stenolog.domain.errors import CallerError, StenologError
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.lanes.state import address
from stenolog.domain.values import Receipt
from stenolog.projections.requests.request import sent_under

What: TypeAlias = Literal["name", "entry", "request", "answer", "blob", "draft", "claim", "table"]
ESCAPED = 2
"""So deep is JSON inside of JSON looked through: the arguments of a tool call are a string in an event."""


TABLES = "SELECT name FROM stenolog_tables ORDER BY name"
HAS_TABLES = "SELECT 1 FROM sqlite_master WHERE name = 'stenolog_tables'"


class Reached(NamedTuple):
    """A place that the value reached.

    A `request` is at its position, an `answer` where the model answered such a request. `where` is a JSON
    pointer into an entry, a blob's sha256, or a table's name. `reason` says why a request could not be
    rebuilt and may have had the value.
    """

    what: What
    conversation: str = ""
    position: int = 0
    agent: str = ""
    provider: str = ""
    model: str = ""
    where: str = ""
    reason: str = ""


class Trace(NamedTuple):
    """All places that a value reached, in the log's order; then blobs, drafts and tables."""

    reached: tuple[Reached, ...]

    @property
    def agents(self) -> tuple[str, ...]:
        """Agents whose models were sent the value."""
        return _distinct(one.agent for one in self.reached if one.what == "request")

    @property
    def providers(self) -> tuple[str, ...]:
        """The APIs that the value was sent to, each with the model."""
        sent = (one for one in self.reached if one.what == "answer")
        return _distinct(" ".join(filter(None, (one.provider, one.model))) for one in sent)


def trace_value(log: Log, text: str) -> Trace:
    """Return every place of a log that a text reached. Raises `CallerError` for an empty text."""
    if not text.strip():
        raise CallerError("expected a text to look for, found none")
    value = _Value(text)
    tainted = {sha for sha in log.blobs if value.is_in(_blob(log, sha))}
    reached = [
        place for name in log.names(archived=True) for place in _conversation(log[name], value, tainted)
    ]
    reached += [Reached("blob", where=sha) for sha in sorted(tainted)]
    return Trace((*reached, *_beside(log, value)))


class _Value:
    def __init__(self, text: str) -> None:
        forms = {text}
        for _ in range(ESCAPED):
            forms |= {json.dumps(form, ensure_ascii=ascii)[1:-1] for form in forms for ascii in (True, False)}
        self.forms = tuple(forms)
        self._bytes = tuple(form.encode(errors="surrogatepass") for form in forms)

    def is_in(self, content: bytes) -> bool:
        return any(form in content for form in self._bytes)

    def pointers(self, value: Any, pointer: str = "") -> Iterator[str]:
        """Yield JSON pointers to strings and keys with the text."""
        match value:
            case str() if any(form in value for form in self.forms):
                yield pointer
            case int() | float() if json.dumps(value) in self.forms:  # a temperature, a card's number
                yield pointer
            case list():
                for nth, inner in enumerate(value):
                    yield from self.pointers(inner, f"{pointer}/{nth}")
            case dict():
                for key, inner in value.items():
                    if any(form in key for form in self.forms):
                        yield pointer
                    yield from self.pointers(inner, f"{pointer}/{key}")
            case _:
                pass


def _conversation(conversation: Conversation, value: _Value, tainted: set[str]) -> Iterator[Reached]:
    name = conversation.name
    if any(form in name for form in value.forms):
        yield Reached("name", name)
    own = _inherited(conversation)
    first = 0
    for record in conversation.records():
        pointers = list(_pointers(record, value, tainted))
        if pointers and not first:
            first = record.position
        if record.position > own:
            yield from (Reached("entry", name, record.position, where=pointer) for pointer in pointers)
            if first:
                yield from _request(conversation, record, first, value, tainted)


def _inherited(conversation: Conversation) -> int:
    segments = conversation.log.recorder.lineage(conversation.stream)
    return segments[-1].after if segments else 0


def _pointers(record: Record, value: _Value, tainted: Iterable[str]) -> Iterator[str]:
    if record.erased is None:
        try:
            event = from_json(record.payload) if value.is_in(record.payload) else None
        except ValueError:
            yield ""
        else:
            yield from (f"/event{pointer}" for pointer in value.pointers(event))
        yield from (f"/blobs/{sha}" for sha in sorted(tainted) if sha.encode() in record.payload)


def _request(
    conversation: Conversation, record: Record, first: int, value: _Value, tainted: Iterable[str]
) -> Iterator[Reached]:
    try:
        event = to_entry(conversation.name, record).event
    except StenologError:
        return
    receipt = event.receipt if isinstance(event, AssistantMessage | LlmError) else None
    if not isinstance(event, AssistantMessage | LlmError) or not isinstance(receipt, Receipt):
        return
    if receipt.view < first:
        return
    api = receipt.api.partition("@")[0]
    reason = ""
    try:
        request = conversation.request(
            event.agent, at=receipt.view, api=api, task=event.task, policy=sent_under(receipt)
        )
        request = in_sent_form(conversation, request, receipt)
        body = json.dumps(request.body, ensure_ascii=False).encode(errors="surrogatepass")
        if not value.is_in(body) and not any(sha.encode() in body for sha in tainted):
            return
    except StenologError as error:
        reason = f"it cannot be built again: {error}"
    lane = address(event.agent, event.task)
    who: Mapping[str, str] = {"agent": lane, "provider": api, "model": event.model, "reason": reason}
    yield Reached("request", conversation.name, receipt.view, **who)
    yield Reached("answer", conversation.name, record.position, **who)


def _blob(log: Log, sha: str) -> bytes:
    try:
        return log.blobs[sha]
    except StenologError:
        return b""  # damaged: `verify` says so


def _beside(log: Log, value: _Value) -> Iterator[Reached]:
    for name, claim in log.recorder.claims.everywhere():
        if value.is_in(b"".join(log.recorder.drafts.of(claim.fence))):
            yield Reached("draft", name, agent=claim.lane)
        if value.is_in(claim.receipt):
            yield Reached("claim", name, agent=claim.lane)
    for table, name, position in _rows_with(log, value.forms):
        yield Reached("table", name, position, where=table)


def _rows_with(log: Log, texts: Iterable[str]) -> list[tuple[str, str, int]]:
    found: set[tuple[str, str, int]] = set()
    # Only a log in an SQLite file has tables beside it.
    if not isinstance(log.recorder, SqliteLogRecorder):
        return []
    with inspecting(log.datastore) as connection:
        tables = connection.execute(TABLES).fetchall() if connection.execute(HAS_TABLES).fetchone() else []
        for (table,) in tables:
            columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}__rows")')]
            held = " OR ".join(f'instr(r."{column}", ?)' for column in columns)
            statement = f"""SELECT c.name, r.position FROM "{table}__rows" r
                JOIN conversations c ON c.stream = r.stream WHERE {held}"""
            for text in texts:
                rows = connection.execute(statement, [text] * len(columns))
                found.update((table, name, position) for name, position in rows)
    return sorted(found)


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))
