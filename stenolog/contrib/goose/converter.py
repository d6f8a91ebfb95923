"""Messages of a goose session as events.

goose rewrites a session when it compacts it, and row ids change. So a message's key is a digest of its role,
time and content, and its number among equal ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import NamedTuple

from stenolog import importers
from stenolog.events import AssistantMessage, ErrorCategory
from stenolog.importers import (
    Blobs,
    Json,
    JsonObject,
    Record,
    as_dict,
    as_list,
    as_str,
    as_time,
    compact_json,
)
from stenolog.parts import AssistantPart, TextPart, ToolCall, UserPart

SYSTEM = "goose"
CALLS = ("toolRequest", "frontendToolRequest")
NOTES = ("contextLengthExceeded", "conversationCompacted", "summarizationRequested", "systemNotification")
"""The types of items that goose shows to people and never sends to a model."""
UNREADABLE = "unreadable_call"
"""The name of a tool in a call whose name and arguments goose could not read."""
ASIDE = ("actionRequired", "toolConfirmationRequest")
"""The types of items with which goose asks a person for leave."""


class CallResult(NamedTuple):
    """A call's id, its output's parts, and whether it is an error."""

    call_id: str
    parts: tuple[UserPart, ...]
    is_error: bool


class Failure(NamedTuple):
    """A failed model call: its kind, and goose's words for it."""

    category: ErrorCategory
    message: str


_FAILURES: dict[str, ErrorCategory] = {
    "authentication": "unauthorized",
    "contextLengthExceeded": "context_length",
    "creditsExhausted": "budget",
}


def _call(item: JsonObject, _: importers.BlockContext) -> ToolCall | None:
    id, call = item.get("id"), item.get("toolCall")
    if not (isinstance(id, str) and isinstance(call, dict)):
        return None
    value = as_dict(call.get("value")) or call  # a stream has the call without its status
    name = as_str(value.get("name")) or UNREADABLE
    return ToolCall(id=id, name=name, arguments=importers.arguments(value.get("arguments")))


def _resource(item: JsonObject, _: importers.BlockContext) -> TextPart | None:
    text = as_dict(item.get("resource")).get("text")
    return TextPart(text=text) if isinstance(text, str) else None


_text = importers.text_maker()
ANSWERS = importers.PartTable[AssistantPart](
    SYSTEM,
    {
        "text": _text,
        "thinking": importers.reasoning_maker(text="thinking", signature="signature"),
        "reasoning": importers.reasoning_maker(text="text"),
        "redactedThinking": importers.reasoning_maker(encrypted="data"),
        **dict.fromkeys(CALLS, _call),
    },
)
INPUTS = importers.PartTable[UserPart](
    SYSTEM,
    {**dict.fromkeys(("image", "audio", "document"), importers.media_maker()), "resource": _resource},
    _text,
)
"""Makers of what a person said, and of a tool's output."""


def failed_call(item: JsonObject) -> CallResult | None:
    """Return goose's answer to a call that it could not read; None for other items."""
    call = as_dict(item.get("toolCall"))
    if call.get("status") != "error":
        return None
    return CallResult(as_str(item.get("id")), (TextPart(text=as_str(call.get("error"))),), True)


def response(item: JsonObject, blobs: Blobs) -> CallResult:
    """Return a `toolResponse`'s result; before MCP's form it was the bare list of contents."""
    result = as_dict(item.get("toolResult"))
    if result.get("status") == "error":
        return CallResult(as_str(item.get("id")), (TextPart(text=_as_text(result.get("error"))),), True)
    value = result.get("value", item.get("toolResult"))
    contents = as_list(value if isinstance(value, list) else as_dict(value).get("content"))
    parts = tuple(INPUTS.parts(contents, blobs))
    structured = as_dict(value).get("structuredContent")
    if not parts and structured is not None:
        parts = (TextPart(text=compact_json(structured)),)
    return CallResult(as_str(item.get("id")), parts, as_dict(value).get("isError") is True)


def failure_in(items: Iterable[JsonObject]) -> Failure | None:
    """Return the failure that goose shows in place of an answer; None for an answer."""
    for item in items:
        if item.get("type") == "error" and (words := as_str(item.get("message"))):
            return Failure(_FAILURES.get(as_str(item.get("kind"))) or importers.error_category(words), words)
    return None


def note_in(item: JsonObject) -> str:
    """Return the words of an item that only people see; empty for other items."""
    return as_str(item.get("msg")) if item.get("type") in NOTES else ""


def _as_text(value: Json) -> str:
    return value if isinstance(value, str) else compact_json(value)


USER = "user"
_ABOUT = ("session_type", "schedule_id", "parent_session_id")
_TOKENS = ("accumulated_input_tokens", "accumulated_output_tokens", "accumulated_total_tokens")


def is_message(record: JsonObject) -> bool:
    """Return whether a record is a message, not a session's head."""
    return as_str(record.get("role")) != "" and "content" in record


class Goose(importers.SessionConverter):
    """Converter of a goose session."""

    system = main = SYSTEM

    def __init__(self, log: importers.ExistingLog) -> None:
        super().__init__(log)
        self._hidden: set[int] = set()
        """The positions that are out of context, summaries' aside."""
        self._leaving: set[int] = set()
        """The positions of messages that the agent no longer sees, until the next one that it sees."""

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for a record: session head or message."""
        if is_message(record.value):
            self._message(record.value)
        elif {"working_dir", "description", "name"} & record.value.keys():
            self._head(record.value)
        else:
            self.ignored["record"] += 1
        return self.writer.drain()

    def end(self) -> list[importers.Step]:
        """Return the steps left at the end of the file."""
        self._hide("end")
        return self.writer.drain()

    def _head(self, head: JsonObject) -> None:
        self.time = as_time(head.get("created_at"), self.time)
        self.setup.title = (
            importers.title_of(as_str(head.get("name")) or as_str(head.get("description"))) or None
        )
        config = importers.object_in(head.get("model_config_json") or head.get("model_config"))
        provider, model = as_str(head.get("provider_name")), as_str(config.get("model_name"))
        self.setup.card(self.main, provider=provider, model=model)
        recipe = importers.object_in(head.get("recipe_json") or head.get("recipe"))
        if instructions := as_str(recipe.get("instructions")):
            self.setup.card(self.main, persona=instructions)
        about = {"cwd": as_str(head.get("working_dir"))} | {name: head.get(name) for name in _ABOUT}
        self.setup.about(
            self.system, {**about, "tokens": {name: head[name] for name in _TOKENS if head.get(name)}}
        )

    def _message(self, message: JsonObject) -> None:
        key = self._key(message)
        self.time = as_time(message.get("created"), self.time)
        seen = as_dict(message.get("metadata"))
        is_for_agent, is_for_user = (
            seen.get(f"{who}Visible", True) is not False for who in ("agent", "user")
        )
        inference = as_dict(seen.get("inference"))
        if model := as_str(inference.get("requestedModel")):
            self.setup.card(self.main, model=model, provider=as_str(inference.get("provider")))
        items = importers.blocks_in(message.get("content"))
        if is_for_agent and not is_for_user and self._leaving and message.get("role") == USER:
            self._summarise(key, items)
            return
        if is_for_agent:
            self._hide(key)
        written = self._assistant(key, items) if message.get("role") != USER else self._user(key, items)
        if not is_for_agent:
            self._leaving.update(written)

    def _key(self, message: JsonObject) -> str:
        fields = [message.get(name) for name in ("role", "created", "content")]
        digest = sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:24]
        return self.unique(digest)

    def _assistant(self, key: str, items: Sequence[JsonObject]) -> list[int]:
        """Write an answer, and goose's replies to calls that it could not read."""
        items = self._without_notes(key, items)
        if (failure := failure_in(items)) is not None:
            return [self._fail(key, failure, [item for item in items if item.get("type") != "error"])]
        card = self.setup.cards[self.main]
        blobs: Blobs = {}
        parts = ANSWERS.parts(items, blobs, provider=card.provider, model=card.model)
        if not parts:
            return []
        asked = self.writer.last_question(self.main)
        written = [self.write_whole(key, parts, blobs=blobs, model=card.model, cause=asked)]
        for nth, failed in enumerate(map(failed_call, items)):
            if failed is not None:
                written.append(self._result(f"{key}/{nth}", failed))
        return written

    def _fail(self, key: str, failure: Failure, items: Sequence[JsonObject]) -> int:
        card = self.setup.cards[self.main]
        parts = ANSWERS.parts(items, provider=card.provider, model=card.model)
        category, asked = failure.category, self.writer.last_question(self.main)
        return self.write_error(
            key, failure.message, category, parts, message=key, model=card.model, cause=asked
        )

    def _user(self, key: str, items: Sequence[JsonObject]) -> list[int]:
        """Write a person's words, and the results that goose puts into such a message."""
        items = self._without_notes(key, items)
        blobs: Blobs = {}
        written = []
        for nth, item in enumerate(items):
            if item.get("type") == "toolResponse":
                written.append(self._result(f"{key}/{nth}", response(item, blobs), blobs))
        parts = INPUTS.parts([item for item in items if item.get("type") != "toolResponse"], blobs)
        if not parts:
            return written
        return [*written, self.write_user(key, parts, blobs=blobs)]

    def _result(self, key: str, found: CallResult, blobs: Blobs | None = None) -> int:
        return self.write_result(key, found.call_id, found.parts, blobs=blobs, is_error=found.is_error)

    def _without_notes(self, key: str, items: Sequence[JsonObject]) -> list[JsonObject]:
        """Write the notes among the items, out of context, and return the others."""
        others = []
        for nth, item in enumerate(items):
            if item.get("type") in ASIDE:
                self.ignored[as_str(item["type"])] += 1
            elif words := note_in(item):
                shown: JsonObject = {"author": self.system, "in_context": False}
                self.write_user(f"{key}/{nth}", importers.text_parts(words), "system", role="note", **shown)
            else:
                others.append(item)
        return others

    def _summarise(self, key: str, items: Sequence[JsonObject]) -> None:
        calls = set(self.writer.open_calls(self.main)) & self._leaving
        covers = tuple(importers.position_ranges(self._leaving - calls, set()))
        self._hidden |= calls
        self._leaving = set()
        self._set_hides()
        words = "\n".join(item["text"] for item in items if isinstance(item.get("text"), str))
        summary = AssistantMessage(
            agent=self.main,
            purpose="summary",
            covers=covers,
            text=words or compact_json(list(items)),
            to=(USER,),
            source=self.writer.source(key, "compacted", key),
        )
        self.put(summary, key)
        self.decisions["compaction as a summary"] += 1

    def _hide(self, key: str) -> None:
        """Take out of context messages that the agent no longer sees and no summary covers."""
        if self._leaving:
            self._hidden |= self._leaving
            self._leaving = set()
            self._set_hides()
            self.setup.settle(key, self.time)

    def _set_hides(self) -> None:
        if self._hidden:
            self.setup.hides = tuple(importers.position_ranges(self._hidden, set()))
