"""Trace of a value: every entry, blob, request, agent, provider, answer and table it reached.

It is found as written, and as JSON escapes it, not in other encodings or words. The same trace is made of a
subject, without regard to case, and of an author.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from pydantic_core import from_json

from stenolog.adapters.conversation.log import Conversation, Log
from stenolog.adapters.conversation.queries.requests.sent_forms import in_sent_form
from stenolog.adapters.store.contract.blobs import unpacked
from stenolog.adapters.store.sqlite.inspection import inspecting
from stenolog.adapters.store.sqlite.recorder import SqliteLogRecorder
from stenolog.domain.codec import load_event
from stenolog.domain.entry import Record, to_entry
from stenolog.domain.errors import CallerError, StenologError
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.lanes.state import address
from stenolog.domain.values import Receipt
from stenolog.projections.analysis.quotes import folded, readings
from stenolog.projections.requests.request import Request, sent_under

What: TypeAlias = Literal["name", "entry", "request", "answer", "blob", "draft", "claim", "table"]
ESCAPED = 2
"""So deep is JSON inside of JSON looked through: the arguments of a tool call are a string in an event."""


AUTHORS = {"user_message": "author", "assistant_message": "agent", "llm_error": "agent"}
"""The kinds of event that have an author, and the field that names it."""
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
    return _trace(log, _Value(_checked(text)))


def trace_subject(log: Log, text: str) -> Trace:
    """Return every place that names a subject, by `folded`; otherwise as `trace_value`."""
    return _trace(log, _Subject(_checked(text)))


def trace_author(log: Log, name: str) -> Trace:
    """Return every entry by an author, a person or an agent, and the requests that were made of them."""
    return _trace(log, _Author(_checked(name)))


def _checked(text: str) -> str:
    if not text.strip():
        raise CallerError("expected a text to look for, found none")
    return text


def _trace(log: Log, value: _Value) -> Trace:
    tainted = {sha for sha in log.blobs if value.is_in(unpacked(log.blobs, sha))}
    reached = [
        place for name in log.names(archived=True) for place in _conversation(log[name], value, tainted)
    ]
    reached += [Reached("blob", where=sha) for sha in sorted(tainted)]
    return Trace((*reached, *_beside(log, value)))


class _Value:
    def __init__(self, text: str) -> None:
        self.text = text
        forms = {text}
        for _ in range(ESCAPED):
            forms |= {json.dumps(form, ensure_ascii=ascii)[1:-1] for form in forms for ascii in (True, False)}
        self.forms = tuple(forms)
        self._bytes = tuple(form.encode(errors="surrogatepass") for form in forms)

    def is_in(self, content: bytes) -> bool:
        return any(form in content for form in self._bytes)

    def is_among(self, text: str) -> bool:
        """Return whether a string or a name has it."""
        return any(form in text for form in self.forms)

    def entry_pointers(self, record: Record, tainted: Iterable[str]) -> Iterator[str]:
        """Yield JSON pointers into an entry that is not erased, to all that has it."""
        try:
            event = from_json(record.payload) if self.is_in(record.payload) else None
        except ValueError:
            yield ""
        else:
            yield from (f"/event{pointer}" for pointer in self.pointers(event))
        yield from (f"/blobs/{sha}" for sha in sorted(tainted) if sha.encode() in record.payload)

    def is_sent(self, request: Request, reached: Collection[int], tainted: Iterable[str]) -> bool:
        """Return whether a request has it; `reached` are the positions that do."""
        body = json.dumps(request.body, ensure_ascii=False).encode(errors="surrogatepass")
        return self.is_in(body) or any(sha.encode() in body for sha in tainted)

    def pointers(self, value: Any, pointer: str = "") -> Iterator[str]:
        """Yield JSON pointers to strings and keys with the text."""
        match value:
            case str() if self.is_among(value):
                yield pointer
            case int() | float() if json.dumps(value) in self.forms:  # a temperature, a card's number
                yield pointer
            case list():
                for nth, inner in enumerate(value):
                    yield from self.pointers(inner, f"{pointer}/{nth}")
            case dict():
                for key, inner in value.items():
                    if self.is_among(key):
                        yield pointer
                    yield from self.pointers(inner, f"{pointer}/{key}")
            case _:
                pass


class _Subject(_Value):
    """A text that is found in any case and form, and in JSON inside of JSON."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._folded = folded(_checked(folded(text)))

    def is_in(self, content: bytes) -> bool:
        return self.is_among(content.decode(errors="replace"))

    def is_among(self, text: str) -> bool:
        return any(self._folded in folded(each) for each in readings(text))

    def entry_pointers(self, record: Record, tainted: Iterable[str]) -> Iterator[str]:
        found = list(super().entry_pointers(record, tainted))
        # In the text as a whole, but in none of its strings: it spans two of them, or is a number.
        yield from found or ([""] if self.is_in(record.payload) or self._is_split(record.payload) else [])

    def _is_split(self, payload: bytes) -> bool:
        """Return whether it spans parts of text."""
        try:
            parts = from_json(payload).get("parts", []) if payload.count(b'"text":') > 1 else []
        except ValueError:
            return False
        return self.is_among("".join(part["text"] for part in parts if isinstance(part.get("text"), str)))


class _Author(_Value):
    """The name of the author of an entry."""

    def is_in(self, content: bytes) -> bool:
        return False

    def is_among(self, text: str) -> bool:
        return False

    def entry_pointers(self, record: Record, tainted: Iterable[str]) -> Iterator[str]:
        event = load_event(record.topic, record.payload)
        if event.kind in AUTHORS and folded(getattr(event, AUTHORS[event.kind])) == folded(self.text):
            yield "/event"

    def is_sent(self, request: Request, reached: Collection[int], tainted: Iterable[str]) -> bool:
        return bool({*request.read} & {*reached})


def _conversation(conversation: Conversation, value: _Value, tainted: set[str]) -> Iterator[Reached]:
    name = conversation.name
    if value.is_among(name):
        yield Reached("name", name)
    own = _inherited(conversation)
    reached: list[int] = []
    for record in conversation.records():
        # An erased mode switch has its effects left, and names in them.
        pointers = list(value.entry_pointers(record, tainted)) if record.payload else []
        if pointers:
            reached.append(record.position)
        if record.position > own:
            yield from (Reached("entry", name, record.position, where=pointer) for pointer in pointers)
            if reached:
                yield from _request(conversation, record, reached, value, tainted)


def _inherited(conversation: Conversation) -> int:
    segments = conversation.log.recorder.lineage(conversation.stream)
    return segments[-1].after if segments else 0


def _request(
    conversation: Conversation, record: Record, reached: list[int], value: _Value, tainted: Iterable[str]
) -> Iterator[Reached]:
    try:
        event = to_entry(conversation.name, record).event
    except StenologError:
        return
    receipt = event.receipt if isinstance(event, AssistantMessage | LlmError) else None
    if not isinstance(event, AssistantMessage | LlmError) or not isinstance(receipt, Receipt):
        return
    if receipt.view < reached[0]:
        return
    api = receipt.api.partition("@")[0]
    reason = ""
    try:
        request = conversation.request(
            event.agent, at=receipt.view, api=api, task=event.task, policy=sent_under(receipt)
        )
        request = in_sent_form(conversation, request, receipt)
        if not value.is_sent(request, reached, tainted):
            return
    except StenologError as error:
        reason = f"it cannot be built again: {error}"
    lane = address(event.agent, event.task)
    who: Mapping[str, str] = {"agent": lane, "provider": api, "model": event.model, "reason": reason}
    yield Reached("request", conversation.name, receipt.view, **who)
    yield Reached("answer", conversation.name, record.position, **who)


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
