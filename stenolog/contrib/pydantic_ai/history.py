"""A history of pydantic-ai to events, those that `append_pydantic_ai` writes.

So `to_pydantic_ai` gives the messages of an imported file back as they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from stenolog.events import AssistantMessage, Known, ModeSwitch, NewEntry, ToolResult, UserMessage
from stenolog.frameworks import pydantic_ai_entries
from stenolog.importers import (
    Blobs,
    ExistingLog,
    Record,
    SessionConverter,
    Step,
    as_dict,
    as_str,
)

SYSTEM = "pydantic-ai"
OLD_NAMES = {"request_tokens": "input_tokens", "response_tokens": "output_tokens"}
"""The names of tokens in histories before version 1."""


class MessageHistory(SessionConverter):
    """Takes the messages of one history and gives the steps that take it down, at its end.

    A message is written in view of the others: its results stand in the order of the calls before it.
    """

    system, main = SYSTEM, "assistant"

    def __init__(self, log: ExistingLog) -> None:
        super().__init__(log)
        self._messages: list[dict[str, Any]] = []
        self._keys: list[str] = []
        """For each entry that the messages become, its id."""

    def take(self, record: Record) -> list[Step]:
        """Keep a message for the end."""
        message = _renamed(record.value)
        key, count = f"#{record.line}", len(message["parts"])
        self._messages.append(message)
        if message["kind"] == "response":
            self._keys.append(key)
        else:
            self._keys += [f"{key}:{nth}" if nth else key for nth in range(count)]
        return []

    def end(self) -> list[Step]:
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
        """Take over the agent's instructions; what else its card says, each response tells."""
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
        """Return the event with the record that it was made of, and a result with its call."""
        source = replace(event.source, lines=(key,))
        if isinstance(event, ToolResult):
            call = self.writer.closed(event.call_id)
            name = event.name or (call.name if call else "")
            return replace(event, call=call.ref if call else None, name=name, source=source)
        placed: Known = replace(event, source=source)
        return placed


def _needed(event: Known, blobs: Blobs) -> Iterator[tuple[str, bytes]]:
    """Yield the blobs that the parts of an event name."""
    for part in getattr(event, "parts", ()):
        if (name := getattr(part, "blob", "")) in blobs:
            yield name, blobs[name]


def _renamed(message: dict[str, Any]) -> dict[str, Any]:
    """Return the message with the names of its fields that are in use now."""
    usage = {OLD_NAMES.get(name, name): value for name, value in as_dict(message.get("usage")).items()}
    renamed = {name: value for name, value in message.items() if name not in ("usage", "vendor_id")}
    if usage:
        renamed["usage"] = usage
    if "vendor_id" in message and "provider_response_id" not in message:
        renamed["provider_response_id"] = message["vendor_id"]
    return renamed
