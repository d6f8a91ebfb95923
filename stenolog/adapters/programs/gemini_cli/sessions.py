"""Chats of Gemini CLI as events: JSON Lines, or one JSON document of earlier releases.

A message is written again, under its id, once its calls have run; `$set` replaces the list of all messages,
`$rewindTo` takes back a message and later ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from stenolog.adapters.importers.conversion.converter import SourceConversation
from stenolog.adapters.importers.conversion.steps import ExistingLog, Step
from stenolog.adapters.importers.door.json_lines import JsonLinesReader, JsonObject, Record
from stenolog.adapters.importers.door.times import as_time
from stenolog.adapters.importers.formats import Importer, LineFormat
from stenolog.domain.parts import AssistantPart, ReasoningPart, ToolCall
from stenolog.projections.formats.gemini.read import answer_parts, parts_in, responses, text_in, usage
from stenolog.projections.messages import json_fields

from .gemini_session import GeminiSession

_CONTEXT = re.compile(r"\s*<session_context>")
_FOLDER = re.compile(r"Workspace Directories:\*\*\s+- (.+)")
FAILED = ("error", "cancelled")
"""The states of a call that did not succeed."""
_SPOKEN = ("user", "gemini", "model")
"""The types of messages, those of answers last."""


class GeminiCli(GeminiSession):
    """Converter of a Gemini CLI chat."""

    system = "gemini-cli"
    main = "gemini"
    provider = "gemini"

    def __init__(self, log: ExistingLog) -> None:
        super().__init__(log)
        self._waiting: JsonObject = {}
        """The last answer, whose calls may still be written."""
        self._list: list[JsonObject] = []
        """The list that is to replace all messages; a resumed chat begins with one that lacks them."""

    def take(self, record: Record) -> list[Step]:
        """Return the steps for a record; an answer waits for the next message."""
        value = record.value
        if "$rewindTo" in value:
            self._rewind(json_fields.key_of(json_fields.as_str(value["$rewindTo"])))
        elif isinstance(value.get("$set"), dict):
            self._update(value["$set"])
        elif json_fields.as_str(value.get("id")):
            self._message(value)
        elif "sessionId" in value:
            self._begin(value)
        elif value.get("type") in _SPOKEN:
            self._message({**value, "id": f"line-{record.line}"})
        else:
            self.ignored["record"] += 1
        return self.writer.drain()

    def end(self) -> list[Step]:
        """Return the steps left at the end of the file."""
        self._flush()
        self._replace()
        self._flush()
        return super().end()

    def _begin(self, value: JsonObject) -> None:
        """Read a chat's head, which is repeated when the chat is resumed."""
        self.time = as_time(value.get("startTime"), self.time)
        self.setup.about(self.system, {"kind": json_fields.as_str(value.get("kind"))})
        self._update(value)

    def _update(self, changes: JsonObject) -> None:
        if title := json_fields.title_of(json_fields.as_str(changes.get("summary"))):
            self.setup.title = title
        numbered = enumerate(
            filter(None, map(json_fields.as_dict, json_fields.as_list(changes.get("messages")))), 1
        )
        # A message without an id is known by its place.
        if messages := [each if _id(each) else {**each, "id": f"message-{nth}"} for nth, each in numbered]:
            self._flush()
            self._list = messages

    def _message(self, value: JsonObject) -> None:
        self._replace()
        id, kind = _id(value), json_fields.as_str(value.get("type"))
        if _id(self._waiting) not in ("", id):
            self._flush()
        if kind in _SPOKEN[1:]:
            self._waiting = value
            if id in self.positions:
                self._flush()
        elif kind == "user":
            if id not in self.positions:
                self._user(id, value)
        else:
            self.ignored[kind or "message"] += 1

    def _user(self, id: str, value: JsonObject) -> None:
        self.time = as_time(value.get("timestamp"), self.time)
        content = value.get("content")
        blobs: json_fields.Blobs = {}
        self.positions.setdefault(id, [])
        for nth, response in enumerate(responses(content, self.provider, blobs)):
            self.add_result(f"{id}:{nth}", id, response, blobs, failed=False)
        words = [part for part in parts_in(content) if "functionResponse" not in part]
        if not words:
            return
        text = text_in(words)
        is_context = bool(_CONTEXT.match(text))
        if is_context and (folder := _FOLDER.search(text)):
            self.setup.also(self.system, {"cwd": folder[1].strip()})
        self.add_user_message(id, words, "system" if is_context else "person")

    def _flush(self) -> None:
        """Write the waiting answer: words, calls, and results stored with it."""
        value, self._waiting = self._waiting, {}
        if not value:
            return
        id, model = _id(value), json_fields.as_str(value.get("model"))
        self.time = as_time(value.get("timestamp"), self.time)
        words, calls = self._parts(id, value, model)
        counted = json_fields.as_dict(value.get("tokens"))
        if id not in self.positions and (words or calls):
            thoughts = counted.get("thoughts")
            output = sum(n for n in (counted.get("output"), thoughts) if isinstance(n, int))
            used = usage(counted.get("input"), output, counted.get("cached"), thoughts)
            self.add_answer(id, [*words, *calls], model, used)
        self.positions.setdefault(id, [])
        # An earlier import, or an earlier record, may have seen the answer before it had its calls.
        later = [call for call in calls if self.writer.find_call(call.id) is None]
        if later:
            self.add_answer(f"{id}:{later[0].id}"[-180:], later, model, None, id)
        for nth, call in enumerate(map(json_fields.as_dict, json_fields.as_list(value.get("toolCalls")))):
            blobs: json_fields.Blobs = {}
            self.time = as_time(call.get("timestamp"), self.time)
            for response in responses(call.get("result"), self.provider, blobs):
                failed = call.get("status") in FAILED
                self.add_result(f"{id}/{nth}", id, response, blobs, failed=failed)

    def _parts(self, id: str, value: JsonObject, model: str) -> tuple[list[AssistantPart], list[ToolCall]]:
        """Return an answer's reasoning and words, and its calls, beside or among them."""
        words: list[AssistantPart] = [
            _thought(each) for each in map(json_fields.as_dict, json_fields.as_list(value.get("thoughts")))
        ]
        calls: dict[str, ToolCall] = {}
        content = value.get("content") or value.get("parts")
        for made in answer_parts(content, self.provider, model, lambda nth, _: f"{id}-{nth}"):
            if isinstance(made, ToolCall):
                calls[made.id] = made
            else:
                words.append(made)
        for nth, call in enumerate(map(json_fields.as_dict, json_fields.as_list(value.get("toolCalls")))):
            call_id, name = (
                json_fields.as_str(call.get("id")) or f"{id}-{nth}",
                json_fields.as_str(call.get("name")),
            )
            calls[call_id] = ToolCall(
                id=call_id, name=name, arguments=json_fields.arguments(call.get("args"))
            )
        return words, [*calls.values()]

    def _replace(self) -> None:
        """Read the new list of messages: missing ones are gone, or summarised in the first."""
        messages, self._list = self._list, []
        if not messages:
            return
        ids = [_id(message) for message in messages]
        gone = {id for id in self.in_context if id not in ids}
        first = next((nth for nth, id in enumerate(ids) if id in self.positions), len(ids))
        text = next((text_in(m.get("content")) for m in messages[:first] if m.get("type") == "user"), "")
        if gone and text:
            self.summarise(ids[0], text, [id for id in ids if id in self.positions])
            self.positions |= {id: [] for id in ids[:first] if id not in self.positions}
        elif gone:
            self.hide(gone)
        for message in messages:
            if _id(message) not in self.positions:
                self._message(message)

    def _rewind(self, id: str) -> None:
        self._flush()
        self._replace()
        self._flush()
        ids = list(self.in_context)
        self.hide(set(ids[ids.index(id) if id in ids else 0 :]))


def _id(value: JsonObject) -> str:
    return json_fields.key_of(json_fields.as_str(value.get("id")))


def _thought(value: JsonObject) -> ReasoningPart:
    subject, words = json_fields.as_str(value.get("subject")), json_fields.as_str(value.get("description"))
    return ReasoningPart(text=f"**{subject}**\n{words}" if subject else words, provider="gemini")


def is_chat(value: json_fields.Json) -> bool:
    """Return whether a record is the head of a chat."""
    return {"sessionId", "projectHash"} <= json_fields.as_dict(value).keys()


def is_whole_chat(value: json_fields.Json) -> bool:
    """Return whether a document is a chat of an earlier release."""
    return is_chat(value) and isinstance(json_fields.as_dict(value).get("messages"), list)


def read_chat(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield the one conversation of a document."""
    value = json_fields.as_dict(reading.document(stream))
    yield SourceConversation(json_fields.as_str(value.get("sessionId")), [Record("1", value)], GeminiCli)


def session_of(record: JsonObject, has_begun: bool) -> str:
    """Return the session that a record begins; later records belong to it."""
    return json_fields.as_str(record.get("sessionId")) if is_chat(record) and not has_begun else ""


GEMINI_CLI = Importer("gemini-cli", lines=LineFormat(GeminiCli, session_of), is_record=is_chat)
GEMINI_CLI_JSON = Importer("gemini-cli-json", read=read_chat, is_document=is_whole_chat)
