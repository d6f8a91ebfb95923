"""Log of a Burr application as events: what its steps add to the chat history in its state."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from stenolog import importers
from stenolog.events import AssistantMessage, LlmError, ToolResult, UserMessage
from stenolog.importers import Blobs, Json, JsonObject, Record, as_dict, as_str, as_time, compact_json
from stenolog.parts import AssistantPart, ImagePart, UserPart

NAMES = ("chat_history", "messages", "history", "chat", "conversation")
"""The usual names of the field, the usual ones first; any other field of the same form does too."""
_KINDS = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
_PREFIX = re.compile(r"(human|user|ai|assistant|system): ?", re.IGNORECASE)


def kind_of(role: str) -> str:
    """Return the role as user, assistant, system or tool; an unknown one is assistant."""
    return _KINDS.get(role.strip().casefold(), "assistant")


def message_of(item: Json) -> JsonObject | None:
    """Return a history item as a message: an object with a role, or a text such as `Human: Hi`."""
    if isinstance(item, str) and (found := _PREFIX.match(item)):
        return {"role": found[1].casefold(), "content": item[found.end() :]}
    if isinstance(item, dict) and not item.keys().isdisjoint(_CONTENTS):
        role = as_str(item.get("role")) or as_str(item.get("type"))
        return {**item, "role": role} if "role" in item or role.casefold() in _KINDS else None
    return None


_CONTENTS = ("content", "text", "tool_calls")


def history_in(state: JsonObject, field: str) -> tuple[str, list[JsonObject]]:
    """Return the chat history's field and messages; an empty name if the state has none.

    `field`, found before, is kept: what is no message in it counts as system.
    """
    for name in dict.fromkeys([field] if field else [*(n for n in NAMES if n in state), *state]):
        items = state.get(name)
        if isinstance(items, list) and items:
            messages = [message_of(item) for item in items]
            if field or None not in messages:
                others = ({"role": "system", "content": compact_json(item)} for item in items)
                return name, [message or other for message, other in zip(messages, others, strict=True)]
    return field, []


class HistoryChange(NamedTuple):
    """A change of a history: the number of first messages dropped, then kept; the rest is new."""

    gone: int
    stays: int


def change(known: list[JsonObject], now: list[JsonObject]) -> HistoryChange:
    """Compare a history with the previous one: grown, truncated at its start, or different from a point."""
    for gone in range(len(known)):
        kept = known[gone:]
        if now[: len(kept)] == kept:
            return HistoryChange(gone, len(kept))
    same = next((nth for nth, (one, two) in enumerate(zip(known, now, strict=False)) if one != two), None)
    return HistoryChange(0, min(len(known), len(now)) if same is None else same)


SYSTEM = "burr"
USER = "user"
_USED = frozenset(("role", "content", "text", "tool_calls", "tool_call_id", "name"))
"""The fields of a message that have a place in its event; the others are kept in `meta`."""
_TYPES = ("begin_entry", "end_entry", "begin_span", "end_span", "attribute")


class Burr(importers.SessionConverter):
    """Converter of a Burr application's log."""

    system, main = SYSTEM, "assistant"

    def __init__(self, log: importers.ExistingLog) -> None:
        super().__init__(log)
        self.setup.mode = "chat"
        self._field = ""
        self._history: list[JsonObject] = []
        self._placed: list[int] = []
        """The position of each message of the history; 0 for the persona, which is none."""
        self._hidden: set[int] = set()
        self._count = 0
        self._begun: dict[Any, JsonObject] = {}
        self._steps: list[JsonObject] = []
        """The steps since the last message."""

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for a record; messages come with the end of a step."""
        value = record.value
        match value.get("type"):
            case "begin_entry":
                self._begun[_key(value)] = as_dict(value.get("inputs"))
            case "end_entry":
                self._end_step(value)
            case kind:
                self.ignored[as_str(kind) or "record"] += 1
        return self.writer.drain()

    def end(self) -> list[importers.Step]:
        """Return the steps left at the end of the file."""
        if self._steps:
            self.ignored["step without a message"] += len(self._steps)
        return self.writer.drain()

    def _end_step(self, value: JsonObject) -> None:
        self.time = as_time(value.get("end_time"), self.time)
        inputs = self._begun.pop(_key(value), {})
        step = {"action": as_str(value.get("action")), "sequence_id": value.get("sequence_id")}
        self._steps.append({**step, "inputs": inputs} if inputs else step)
        self._field, now = history_in(as_dict(value.get("state")), self._field)
        if now or self._field:
            self._compare(now, step)
        if failure := as_str(value.get("exception")):
            self._fail(failure, value)

    def _compare(self, now: list[JsonObject], step: JsonObject) -> None:
        gone, stays = change(self._history, now)
        leaving = [*self._placed[:gone], *self._placed[gone + stays :]]
        self._history, self._placed = now, self._placed[gone : gone + stays]
        if any(leaving):
            self._hidden.update(position for position in leaving if position)
            self.setup.hides = tuple(importers.position_ranges(self._hidden, set()))
            self.decisions["messages that left the history"] += len(leaving)
        for message in now[stays:]:
            self._count += 1
            self._placed.append(self._message(message, step))

    def _message(self, message: JsonObject, step: JsonObject) -> int:
        key = f"{self._count}-{_digest(message)}"
        kind = kind_of(as_str(message.get("role")))
        content = message.get("content", message.get("text"))
        if kind == "system" and self._count == 1:
            self.setup.card(self.main, persona=content if isinstance(content, str) else json.dumps(content))
            return 0
        if kind == "user" and isinstance(content, str):
            self.name_after(content)
        steps, self._steps = self._steps[:-1], []
        others = {name: each for name, each in message.items() if name not in _USED}
        shown_fields = {
            **step,
            **({"steps": steps} if steps else {}),
            **({"fields": others} if others else {}),
        }
        blobs: Blobs = {}
        event = self._event(kind, key, message, content, {SYSTEM: shown_fields}, blobs)
        return self.put(event, key, blobs)

    def _event(
        self, kind: str, key: str, message: JsonObject, content: Json, meta: JsonObject, blobs: Blobs
    ) -> UserMessage | AssistantMessage | ToolResult:
        name = as_str(message.get("name"))
        if kind == "assistant":
            return AssistantMessage(
                agent=importers.agent_called(name, self.main),
                parts=_answer(key, {**message, "content": content}),
                to=(USER,),
                cause=self.writer.last_question(self.main),
                meta=meta,
                source=self.writer.source(key, "assistant", key),
            )
        if kind == "tool":
            call = self.writer.closed(as_str(message.get("tool_call_id")))
            return ToolResult(
                call_id=as_str(message.get("tool_call_id")),
                call=call.ref if call else None,
                name=name or (call.name if call else ""),
                to=() if call else (self.main,),
                parts=importers.openai_user_parts(content, blobs),
                meta=meta,
                source=self.writer.source(key, "tool", key),
            )
        return UserMessage(
            parts=_user_parts(message, content, blobs),
            author=name,
            author_kind="system" if kind == "system" else "person",
            to=(self.main,),
            meta=meta,
            source=self.writer.source(key, as_str(message.get("role")), key),
        )

    def _fail(self, failure: str, value: JsonObject) -> None:
        key = self.unique(f"exception-{value.get('sequence_id')}")
        last = failure.strip().rpartition("\n")[2][:1000]
        steps, self._steps = self._steps, []
        last_step: JsonObject = {**(steps or [{}])[-1], "steps": steps[:-1], "traceback": failure}
        error = LlmError(
            agent=self.main,
            category=importers.error_category(last),
            message=last,
            meta={SYSTEM: last_step},
            source=self.writer.source(key, "exception", key),
        )
        self.put(error, key)


def _key(value: JsonObject) -> str:
    return f"{value.get('sequence_id')} {value.get('action')}"


def _digest(message: JsonObject) -> str:
    return sha256(json.dumps(message, sort_keys=True).encode()).hexdigest()[:16]


def _answer(key: str, message: JsonObject) -> list[AssistantPart]:
    content = message["content"]
    as_text = (
        message if isinstance(content, str | list | None) else {**message, "content": json.dumps(content)}
    )
    return [*importers.openai_answer_parts(as_text), *importers.openai_calls(message, key)]


def _user_parts(message: JsonObject, content: Json, blobs: Blobs) -> tuple[UserPart, ...]:
    if message.get("type") == "image" and as_str(content).startswith("http"):
        return (ImagePart(url=content),)
    return importers.openai_user_parts(content, blobs)


def is_record(record: Json) -> bool:
    """Return whether a record is one of a Burr log."""
    value = as_dict(record)
    if value.get("type") in ("begin_entry", "end_entry"):
        return {"action", "sequence_id"} <= value.keys()
    return value.get("type") in _TYPES and "action_sequence_id" in value


def read(stream: BinaryIO, reader: importers.JsonLinesReader) -> Iterator[importers.SourceConversation]:
    """Yield the one conversation of a log, which does not name its application."""
    yield importers.SourceConversation("", importers.StreamedRecords(stream, reader), Burr, unit="line")


def _name_of(path: Path) -> str:
    return path.absolute().parent.name if path.name == "log.jsonl" else path.stem


BURR = importers.Importer("burr", read=read, is_record=is_record, name_of=_name_of)
