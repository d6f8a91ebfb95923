"""Conversations as pydantic-ai's history, and histories as entries to write.

A response and what was asked before it are an exchange; the last may be open. Its requests' entries are read
as one `ModelRequest`. A note in the last entry's `meta` says how pydantic-ai put it. A tool's result may be
written early; its request finds it, and is noted too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stenolog.domain.entry import EPOCH, Entry, NewEntry
from stenolog.domain.events import AssistantMessage, ToolResult, UserMessage
from stenolog.domain.settings import NOTHING, Settings, configure
from stenolog.projections.messages.json_fields import as_dict

from .pydantic_ai_parts import SYSTEM, Json, content_of_parts, lean, plain_part, plain_response
from .shared import apply_patch, context_of

OURS = "pydantic_ai"
"""The key in `meta` of the note about what a message says beyond its events."""


@dataclass
class Exchange:
    """A request with its response, from the position `first`.

    `run` has its requests' entries, `requests` their messages; `noted` counts those that pydantic-ai put into
    messages. `calls` are names of calls it may answer, by id, in order. `ends`: the run ended without a
    response. `is_foreign`: partly not from pydantic-ai, so some fields are missing.
    """

    calls: dict[str, str] = field(default_factory=dict)
    first: int = 0
    run: list[NewEntry] = field(default_factory=list)
    requests: list[Json] = field(default_factory=list)
    noted: int = 0
    response: Json | None = None
    ends: bool = False
    is_foreign: bool = False

    @property
    def early(self) -> list[NewEntry]:
        """The early results that no message has yet."""
        run = self.run[self.noted :] if self.response is None else []
        return run if all(isinstance(draft.event, ToolResult) for draft in run) else []

    @property
    def messages(self) -> list[Json]:
        return self.requests if self.response is None else [*self.requests, self.response]

    def plain(self, after: int, persona: str, blobs: Mapping[str, bytes]) -> list[Json]:
        """Return the request of the entries after so many; results in the order of calls."""
        run = self.run[after:]
        order = {id: nth for nth, id in enumerate(self.calls)}
        results = [draft for draft in run if isinstance(draft.event, ToolResult)]
        results.sort(key=lambda draft: order.get(getattr(draft.event, "call_id", ""), len(order)))
        run = [*results, *(draft for draft in run if not isinstance(draft.event, ToolResult))]
        parts = [self._part(draft, blobs) for draft in run]
        asked = {"instructions": persona} if persona else {}
        return [{"kind": "request", "parts": parts, **asked}] if parts else []

    def _part(self, draft: NewEntry, blobs: Mapping[str, bytes]) -> Json:
        event: Any = draft.event
        part = plain_part(
            event, draft.time or EPOCH, self.calls.get(getattr(event, "call_id", ""), ""), blobs
        )
        if "returned" in note_of(event):
            part["content"] = content_of(returned(event, blobs))
        return part


def note_of(event: Any) -> Json:
    """Return the note on an event; empty if there is none."""
    return as_dict(as_dict(getattr(event, "meta", None)).get(OURS))


def returned(event: ToolResult, blobs: Mapping[str, bytes]) -> Any:
    """Return a tool's result as JSON: a value, or a `ToolReturn` with one."""
    return apply_patch(content_of_parts(event.parts, blobs), as_dict(note_of(event).get("returned")))


def content_of(value: Any) -> Any:
    """Return the content of the part from a tool's result."""
    is_return = isinstance(value, dict) and value.get("kind") == "tool-return" and "return_value" in value
    return value["return_value"] if is_return else value


def read(entries: Iterable[Entry], now: Settings, agent: str, blobs: Mapping[str, bytes]) -> list[Exchange]:
    """Return the exchanges in context under current settings, with lean messages."""
    found, open_one, settings = [], Exchange(), NOTHING
    log, personas = [*entries], dict[int, str]()
    for entry in log:
        settings = configure(settings, entry)
        personas[entry.position] = settings.card_of(agent).persona
    for entry in context_of(log[max(now.context_from_of(agent) - 1, 0) :], now).entries:
        _take(open_one, entry, personas[entry.position], blobs)
        if open_one.response is not None:
            found.append(open_one)
            assert isinstance(entry.event, AssistantMessage)
            open_one = Exchange({call.id: call.name for call in entry.event.tool_calls})
    _settle(open_one, settings.card_of(agent).persona, blobs)
    return [*found, open_one] if open_one.requests else found


def without_early(known: Sequence[Exchange]) -> list[Exchange]:
    """Return the exchanges without early results, whose calls pydantic-ai runs again."""
    if not known or not known[-1].early:
        return [*known]
    *before, last = known
    settled = replace(last, requests=last.requests[:-1])  # the early ones are a request of their own
    return [*before, settled] if settled.requests else before


def _take(exchange: Exchange, entry: Entry, persona: str, blobs: Mapping[str, bytes]) -> None:
    event: Any = entry.event
    note = note_of(event)
    if _is_heard(event):
        exchange.run.append(NewEntry(event, entry.id, entry.time))
        exchange.ends = False
        exchange.first = exchange.first or entry.position
    if "requests" in note:
        exchange.requests = apply_patch(exchange.plain(0, persona, blobs), note["requests"])
        exchange.noted = len(exchange.run)
        exchange.first = exchange.first or entry.position
    if note.keys() - {"returned"}:
        exchange.ends = "ends" in note
    if isinstance(event, AssistantMessage) and event.purpose == "answer":
        _settle(exchange, persona, blobs)
        exchange.first = exchange.first or entry.position
        exchange.response = apply_patch(plain_response(event, entry.time), as_dict(note.get("response")))
        exchange.is_foreign |= "response" not in note


def _settle(exchange: Exchange, persona: str, blobs: Mapping[str, bytes]) -> None:
    """Add the input after the last note as its own request."""
    rest = exchange.plain(exchange.noted, persona, blobs)
    exchange.requests = [*exchange.requests, *rest]
    exchange.is_foreign |= bool(rest)


def _is_heard(event: object) -> bool:
    if not isinstance(event, UserMessage):
        return isinstance(event, ToolResult)
    is_ours = event.source is not None and event.source.system == SYSTEM
    return is_ours or (event.in_context and bool(event.parts))


def exchanges(messages: Iterable[Json]) -> list[Exchange]:
    """Return a pydantic-ai history's exchanges, without entries."""
    found, open_one = [], Exchange()
    for message in map(lean, messages):
        if message["kind"] == "request":
            open_one.requests.append(message)
            continue
        open_one.response = message
        found.append(open_one)
        parts = (part for part in message["parts"] if part["part_kind"] == "tool-call")
        open_one = Exchange({part["tool_call_id"]: part["tool_name"] for part in parts})
    return [*found, open_one] if open_one.requests else found
