"""Message histories of pydantic-ai, as its `ModelMessagesTypeAdapter` writes them.

A file is one list of messages, or one on each line, as `new_messages_json()` gives for each run. The events
are those of `append_pydantic_ai`, so `to_pydantic_ai` returns the messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, BinaryIO

from stenolog import importers
from stenolog.events import AssistantMessage, Known, ModeSwitch, NewEntry, ToolResult, UserMessage
from stenolog.frameworks import pydantic_ai_entries
from stenolog.importers import Blobs, Json, Record, as_dict, as_list, as_str

SYSTEM = "pydantic-ai"
OLD_NAMES = {"request_tokens": "input_tokens", "response_tokens": "output_tokens"}
"""The names of tokens in histories before version 1."""


class MessageHistory(importers.SessionConverter):
    """Converter of a pydantic-ai history, at its end.

    A message depends on others: its results are in the order of earlier calls.
    """

    system, main = SYSTEM, "assistant"

    def __init__(self, log: importers.ExistingLog) -> None:
        super().__init__(log)
        self._messages: list[dict[str, Any]] = []
        self._keys: list[str] = []
        """For each entry that the messages become, its id."""

    def take(self, record: Record) -> list[importers.Step]:
        """Keep a message for the end."""
        message = _renamed(record.value)
        key, count = f"#{record.line}", len(message["parts"])
        self._messages.append(message)
        if message["kind"] == "response":
            self._keys.append(key)
        else:
            self._keys += [f"{key}:{nth}" if nth else key for nth in range(count)]
        return []

    def end(self) -> list[importers.Step]:
        """Return the steps for all messages."""
        blobs: Blobs = {}
        keys = iter(self._keys)
        responses = iter([m for m in self._messages if m["kind"] == "response"])
        for draft in pydantic_ai_entries(self._messages, blobs, agent=self.main):
            if isinstance(draft.event, ModeSwitch):
                self._configure(draft.event)
                continue
            if isinstance(draft.event, AssistantMessage):
                self._answered_by(next(responses))
            self._write(draft, next(keys), blobs)
        return self.writer.drain()

    def _configure(self, switch: ModeSwitch) -> None:
        """Use the agent's instructions; responses have the rest of its card."""
        for card in switch.cards.values():
            if card is not None:
                self.setup.card(self.main, persona=card.persona)

    def _answered_by(self, response: dict[str, Any]) -> None:
        changes = {
            "model": as_str(response.get("model_name")),
            "provider": as_str(response.get("provider_name")),
        }
        self.setup.card(self.main, **{name: value for name, value in changes.items() if value})

    def _write(self, draft: NewEntry, key: str, blobs: Blobs) -> None:
        self.time = draft.time or self.time
        event = self._placed(draft.event, key)
        if isinstance(event, UserMessage) and event.author_kind == "person":
            self.name_after(event.text)
        self.put(event, key, dict(_needed(event, blobs)))

    def _placed(self, event: Any, key: str) -> Known:
        source = replace(event.source, lines=(key,))
        if isinstance(event, ToolResult):
            call = self.writer.closed(event.call_id)
            name = event.name or (call.name if call else "")
            return replace(event, call=call.ref if call else None, name=name, source=source)
        placed: Known = replace(event, source=source)
        return placed


def _needed(event: Known, blobs: Blobs) -> Iterator[tuple[str, bytes]]:
    for part in getattr(event, "parts", ()):
        if (name := getattr(part, "blob", "")) in blobs:
            yield name, blobs[name]


def _renamed(message: dict[str, Any]) -> dict[str, Any]:
    usage = {OLD_NAMES.get(name, name): value for name, value in as_dict(message.get("usage")).items()}
    renamed = {name: value for name, value in message.items() if name not in ("usage", "vendor_id")}
    if usage:
        renamed["usage"] = usage
    if "vendor_id" in message and "provider_response_id" not in message:
        renamed["provider_response_id"] = message["vendor_id"]
    return renamed


KINDS = ("request", "response")


def is_message(value: Json) -> bool:
    """Return whether a value is a request or response with parts of their kinds."""
    message = as_dict(value)
    parts = message.get("parts")
    return (
        message.get("kind") in KINDS
        and isinstance(parts, list)
        and all(isinstance(as_dict(part).get("part_kind"), str) for part in parts)
    )


def is_history(value: Json) -> bool:
    """Return whether a value is a list of messages; some may be damaged."""
    return isinstance(value, list) and any(as_dict(m).get("parts") and is_message(m) for m in value)


def read(stream: BinaryIO, reading: importers.JsonLinesReader) -> Iterator[importers.SourceConversation]:
    """Yield the one conversation of a file."""
    messages = [*_messages(stream, reading)]
    records = [*_sound(messages, reading)]
    named = (as_str(record.value.get("conversation_id")) for record in records)
    yield importers.SourceConversation(next(filter(None, named), ""), records, MessageHistory, Counter())


def _messages(stream: BinaryIO, reading: importers.JsonLinesReader) -> Iterator[Json]:
    for place, value in reading.documents(stream):
        if isinstance(value, list):
            yield from value
        else:
            reading.skip(place, "a list of messages", value)


def _sound(messages: list[Json], reading: importers.JsonLinesReader) -> Iterator[Record]:
    for number, message in enumerate(messages, 1):
        if not isinstance(message, dict):
            fault = f"expected an object, found {type(message).__name__}"
        elif message.get("kind") not in KINDS:
            fault = f"expected the kind request or response, found {message.get('kind')!r:.40}"
        elif not isinstance(message.get("parts"), list):
            fault = f"expected a list of parts, found {type(message.get('parts')).__name__}"
        else:
            yield Record(str(number), _with_sound_parts(number, message, reading))
            continue
        reading.skipped.append(importers.Skipped(number, fault, "message"))


def _with_sound_parts(
    number: int, message: dict[str, Any], reading: importers.JsonLinesReader
) -> dict[str, Any]:
    """Return the message's parts that have a kind; calls without id or name get one."""
    parts: list[dict[str, Any]] = []
    for nth, part in enumerate(as_list(message["parts"]), 1):
        kind = as_dict(part).get("part_kind")
        if not isinstance(kind, str):
            reading.skipped.append(
                importers.Skipped(number, f"part {nth}: expected a part_kind, found {kind!r:.40}", "message")
            )
        elif kind == "tool-call":
            id = as_str(part.get("tool_call_id")) or f"{number}-{nth}"
            parts.append({**part, "tool_call_id": id, "tool_name": as_str(part.get("tool_name"))})
        else:
            parts.append(part)
    return {**message, "parts": parts}


PYDANTIC_AI = importers.Importer("pydantic-ai", read=read, is_document=is_history, is_record=is_history)
