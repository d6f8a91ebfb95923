"""Convert the messages of a goose session to events.

goose writes a session anew when it compacts it, and row ids change with that. So a message is known by what
it says: a digest of its role, time and content, and its number among those of the same digest.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256

from stenolog.events import AssistantMessage
from stenolog.importers import (
    Blobs,
    ExistingLog,
    JsonObject,
    Record,
    SessionConverter,
    Step,
    as_dict,
    as_str,
    as_time,
    blocks_in,
    compact_json,
    position_ranges,
    text_parts,
    title_of,
)
from stenolog.parts import TextPart

from .content import (
    ANSWERS,
    ASIDE,
    INPUTS,
    SYSTEM,
    CallResult,
    Failure,
    failed_call,
    failure_in,
    note_in,
    response,
)

USER = "user"
_ABOUT = ("session_type", "schedule_id", "parent_session_id")
_TOKENS = ("accumulated_input_tokens", "accumulated_output_tokens", "accumulated_total_tokens")


def is_message(record: JsonObject) -> bool:
    """Return whether a record is a message, rather than the head of a session."""
    return as_str(record.get("role")) != "" and "content" in record


class Goose(SessionConverter):
    """Takes the records of one session and gives the steps that take it down."""

    system = main = SYSTEM

    def __init__(self, log: ExistingLog) -> None:
        super().__init__(log)
        self._hidden: set[int] = set()
        """The positions that are out of context, summaries' aside."""
        self._leaving: set[int] = set()
        """The positions of messages that the agent no longer sees, until the next one that it sees."""

    def take(self, record: Record) -> list[Step]:
        """Return the steps for a record: the head of the session, or a message."""
        if is_message(record.value):
            self._message(record.value)
        elif {"working_dir", "description", "name"} & record.value.keys():
            self._head(record.value)
        else:
            self.ignored["record"] += 1
        return self.writer.drain()

    def end(self) -> list[Step]:
        """Return the steps left at the end of the file."""
        self._hide("end")
        return self.writer.drain()

    def _head(self, head: JsonObject) -> None:
        """Take what the session says of itself: its first line, or its row."""
        self.time = as_time(head.get("created_at"), self.time)
        self.setup.title = title_of(as_str(head.get("name")) or as_str(head.get("description"))) or None
        config = _object(head.get("model_config_json") or head.get("model_config"))
        provider, model = as_str(head.get("provider_name")), as_str(config.get("model_name"))
        self.setup.card(self.main, provider=provider, model=model)
        recipe = _object(head.get("recipe_json") or head.get("recipe"))
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
        items = blocks_in(message.get("content"))
        if is_for_agent and not is_for_user and self._leaving and message.get("role") == USER:
            self._summarise(key, items)
            return
        if is_for_agent:
            self._hide(key)
        written = self._assistant(key, items) if message.get("role") != USER else self._user(key, items)
        if not is_for_agent:
            self._leaving.update(written)

    def _key(self, message: JsonObject) -> str:
        told = [message.get(name) for name in ("role", "created", "content")]
        digest = sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:24]
        return self.unique(digest)

    def _assistant(self, key: str, items: Sequence[JsonObject]) -> list[int]:
        """Write an answer, and what goose answered at once to calls that it could not read."""
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
        """Write a model call that failed, with what had come of the answer."""
        card = self.setup.cards[self.main]
        parts = ANSWERS.parts(items, provider=card.provider, model=card.model)
        category, asked = failure.category, self.writer.last_question(self.main)
        return self.write_error(
            key, failure.message, category, parts, message=key, model=card.model, cause=asked
        )

    def _user(self, key: str, items: Sequence[JsonObject]) -> list[int]:
        """Write what a person said, and the results that goose puts into a message in the person's name."""
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
                self.write_user(f"{key}/{nth}", text_parts(words), "system", role="note", **shown)
            else:
                others.append(item)
        return others

    def _summarise(self, key: str, items: Sequence[JsonObject]) -> None:
        """Write the summary that the agent sees in the place of the messages that it no longer sees."""
        calls = set(self.writer.open_calls(self.main)) & self._leaving
        covers = tuple(position_ranges(self._leaving - calls, set()))
        self._hidden |= calls
        self._leaving = set()
        self._set_hides()
        words = "\n".join(part.text for part in map(_text, items) if part)
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
        """Take the messages out of context that the agent no longer sees, and that no summary stands for."""
        if self._leaving:
            self._hidden |= self._leaving
            self._leaving = set()
            self._set_hides()
            self.setup.settle(key, self.time)

    def _set_hides(self) -> None:
        if self._hidden:
            self.setup.hides = tuple(position_ranges(self._hidden, set()))


def _text(item: JsonObject) -> TextPart | None:
    return TextPart(text=item["text"]) if isinstance(item.get("text"), str) else None


def _object(value: object) -> JsonObject:
    """Return an object, which a database holds as its JSON text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return as_dict(value)
