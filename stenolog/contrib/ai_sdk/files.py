"""Chats of the Vercel AI SDK: a list of UI messages, an object around it, or either on lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from hashlib import sha256
from itertools import groupby
from typing import Any, BinaryIO

from stenolog import importers
from stenolog.errors import DuplicateIdError
from stenolog.events import AssistantMessage, Known, LlmError, Usage, UserMessage
from stenolog.importers import Blobs, Json, Record, as_dict, as_int, as_list, as_str, as_time, compact_json
from stenolog.parts import AssistantPart, ToolCall

from .parts import (
    ANSWERS,
    INPUTS,
    STEP,
    STREAMING,
    SYSTEM,
    ToolInvocation,
    attachment,
    call_in,
    is_part,
    parts_of,
    result_parts,
)

USER = "user"
BESIDE = ("annotations", "attachments", "data", "experimental_attachments", "metadata")
"""The fields of a message beside its words, which are kept in `meta`."""
CUT_OFF = "cut-off"


class AiSdkChat(importers.SessionConverter):
    """Converter of a chat of the AI SDK; `is_named`: it has an id."""

    system, main = SYSTEM, "assistant"

    def __init__(self, log: importers.ExistingLog, title: str = "", *, is_named: bool = False) -> None:
        super().__init__(log)
        self.setup.title = importers.title_of(title) or None
        self._log = log
        self._keys: Counter[str] = Counter()
        self._has_begun = False
        self._is_named = is_named

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for a message."""
        message = record.value
        key, role = self._key(record), as_str(message.get("role"))
        self.time = _time(message, self.time)
        match role:
            case "system":
                self._system(message, key)
            case "user":
                self._user(message, key)
            case "assistant":
                self._assistant(message, key)
            case _:
                self.ignored[f"role {role or message.get('role')!r:.40}"] += 1
        return self.writer.drain()

    def end(self) -> list[importers.Step]:
        """Return the remaining steps; messages replaced by an answer or an edit are hidden."""
        if removed := self.writer.hide_missing(self.time):
            self.decisions["taken out of the chat"] += removed
        return self.writer.drain()

    def _key(self, record: Record) -> str:
        """Return the id of a message's first entry: its own if unique."""
        own = importers.key_of(as_str(record.value.get("id")))
        self._keys[own] += 1
        return own if own and self._keys[own] == 1 else f"#{record.line}"

    def _system(self, message: dict[str, Any], key: str) -> None:
        """Put leading instructions on the card; later ones are a system message."""
        texts = [as_str(part.get("text")) for part in parts_of(message) if part.get("type") == "text"]
        if not self._has_begun:
            self.setup.card(self.main, persona="".join(texts))
            return
        self._input(UserMessage(text="".join(texts), author_kind="system", to=(self.main,)), message, key, {})

    def _user(self, message: dict[str, Any], key: str) -> None:
        blobs: Blobs = {}
        attached = map(attachment, map(as_dict, as_list(message.get("experimental_attachments"))))
        event = UserMessage(parts=INPUTS.parts([*parts_of(message), *attached], blobs), to=(self.main,))
        self.name_after(event.text)
        self._input(event, message, key, blobs)

    def _input(self, event: UserMessage, message: dict[str, Any], key: str, blobs: Blobs) -> None:
        id = self._id(key, event, message.get("parts") or message.get("content"))
        source = self.writer.source(as_str(message.get("id")), as_str(message.get("role")), id)
        fields: dict[str, Any] = {name: getattr(event, name) for name in ("parts", "author_kind", "to")}
        self.put(UserMessage(**fields, meta=_meta(message), source=source), id, blobs)

    def _id(self, key: str, event: Known, raw: Json) -> str:
        """Return an entry's id, with a digest if the log has other words of that message.

        The entry with those words is missing in the file, and hidden. Raises `DuplicateIdError` if the log's
        chat of that name begins otherwise and no id shows that it is the same.
        """
        id = key
        if self.writer.holds_other(key, event):
            id = f"{key}:{sha256(compact_json(raw).encode()).hexdigest()[:8]}"
        is_first, self._has_begun = not self._has_begun, True
        if is_first and self._log.imported and not (self._is_named or self.writer.holds(id)):
            raise DuplicateIdError(
                "expected a chat that begins as it was imported before, found other words: "
                "is it another chat? Then give it another name"
            )
        return id

    def _assistant(self, message: dict[str, Any], key: str) -> None:
        """Write an answer's steps; facts about the whole go to the last."""
        metadata = as_dict(message.get("metadata"))
        if model := as_str(metadata.get("model")) or as_str(metadata.get("modelId")):
            self.setup.card(self.main, model=model)
        steps = list(_steps(parts_of(message)))
        for nth, parts in enumerate(steps):
            id = f"{key}:{nth}" if nth else key
            is_last = nth == len(steps) - 1
            usage, meta = (_usage(metadata), _meta(message)) if is_last else (None, {})
            common: dict[str, Any] = {"agent": self.main, "model": model, "meta": meta}
            common["source"] = self.writer.source(as_str(message.get("id")), self.main, id)
            self._step(common, parts, id, usage)

    def _step(self, common: dict[str, Any], raw: list[dict[str, Any]], key: str, usage: Usage | None) -> None:
        parts: list[AssistantPart] = []
        calls: list[ToolInvocation] = []
        for nth, part in enumerate(raw):
            call = call_in(part, f"{key}-{nth}")
            if call is None or call.is_unfinished:
                parts += ANSWERS.parts(part)
            else:
                calls.append(call)
                parts.append(ToolCall(id=call.id, name=call.name, arguments=call.arguments))
        event: AssistantMessage | LlmError
        if _is_streaming(raw) and not calls:
            event = LlmError(**common, category="cancelled", message="the answer was cut off", parts=parts)
        else:
            event = AssistantMessage(**common, parts=parts, to=(USER,), usage=usage)
        is_error = isinstance(event, LlmError)
        id = self._id(f"{key}:{CUT_OFF}" if is_error else key, event, raw)
        self.put(replace(event, source=replace(common["source"], lines=(id,))), id)
        ids = Counter[str]()
        for call in calls:
            ids[call.id] += 1
            if call.is_answered:
                nth = ids[call.id]
                self._result(
                    call, importers.key_of(f"{id}:{call.id}" if nth == 1 else f"{id}:{call.id}:{nth}")
                )

    def _result(self, call: ToolInvocation, id: str) -> None:
        blobs: Blobs = {}
        parts, failed = result_parts(call, blobs), call.has_failed
        self.write_result(id, call.id, parts, name=call.name, blobs=blobs, is_error=failed)


def _steps(parts: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    for is_break, run in groupby(parts, key=lambda part: part.get("type") == STEP):
        if not is_break:
            yield list(run)


def _is_streaming(parts: list[dict[str, Any]]) -> bool:
    calls = (call_in(part, "") for part in parts)
    return any(part.get("state") == STREAMING for part in parts) or any(c.is_unfinished for c in calls if c)


def _meta(message: dict[str, Any]) -> dict[str, Any]:
    beside = {name: message[name] for name in BESIDE if message.get(name)}
    beside.pop("experimental_attachments", None)
    return {SYSTEM: beside} if beside else {}


def _time(message: dict[str, Any], default: datetime) -> datetime:
    raw = message.get("createdAt", as_dict(message.get("metadata")).get("createdAt"))
    return as_time(raw, default)


def _usage(metadata: dict[str, Any]) -> Usage | None:
    counted = as_dict(metadata.get("totalUsage")) or as_dict(metadata.get("usage"))
    read, written = as_dict(counted.get("inputTokenDetails")), as_dict(counted.get("outputTokenDetails"))
    numbers: dict[str, Any] = {
        "input": as_int(counted.get("inputTokens") or counted.get("promptTokens")),
        "output": as_int(counted.get("outputTokens") or counted.get("completionTokens")),
        "cache_read": as_int(read.get("cacheReadTokens") or counted.get("cachedInputTokens")),
        "cache_write": as_int(read.get("cacheWriteTokens")),
        "reasoning": as_int(written.get("reasoningTokens") or counted.get("reasoningTokens")),
    }
    return Usage(**numbers) if any(numbers.values()) else None


ROLES = ("system", "user", "assistant", "data")
MESSAGES = "messages"
IDS = ("id", "chatId")


def is_message(value: Json) -> bool:
    """Return whether a value is a UI message, not a provider's.

    Its parts have types of the SDK. Version 4 may have calls beside the content instead.
    """
    message = as_dict(value)
    if message.get("role") not in ROLES:
        return False
    parts = as_list(message.get("parts"))
    if parts:
        return all(map(is_part, parts))
    calls = [as_dict(each) for each in as_list(message.get("toolInvocations"))]
    return bool(calls) and all({"toolCallId", "state"} <= call.keys() for call in calls)


def is_chat(value: Json) -> bool:
    """Return whether a value is a list of messages or an object with one; some may be damaged."""
    messages = value if isinstance(value, list) else as_list(as_dict(value).get(MESSAGES))
    roles = [as_dict(message).get("role") for message in messages]
    return any(map(is_message, messages)) and sum(isinstance(role, str) for role in roles) * 2 > len(roles)


def is_record(value: Json) -> bool:
    """Return whether a line is a message or a chat."""
    return is_message(value) or (isinstance(value, dict) and is_chat(value))


def is_document(value: Json) -> bool:
    """Return whether a document is a chat, or a list of chats."""
    return is_chat(value) or (isinstance(value, list) and bool(value) and all(is_record(v) for v in value))


def read(stream: BinaryIO, reading: importers.JsonLinesReader) -> Iterator[importers.SourceConversation]:
    """Yield the chats of a file."""
    loose: list[Json] = []
    for place, value in reading.items(stream):
        if isinstance(as_dict(value).get(MESSAGES), list):
            yield _conversation(value[MESSAGES], value, reading)
        elif isinstance(value, dict):
            loose.append(value)
        else:
            reading.skip(place, "a chat or a message", value)
    chats: dict[str, list[Json]] = {}
    for message in loose:
        chats.setdefault(as_str(as_dict(message).get("chatId")), []).append(message)
    for id, messages in chats.items():
        yield _conversation(messages, {"id": id}, reading)


def _conversation(
    messages: list[Json], chat: dict[str, Any], reading: importers.JsonLinesReader
) -> importers.SourceConversation:
    name = next(filter(None, (as_str(chat.get(key)) for key in IDS)), "")
    records: list[Record] = []
    for number, message in enumerate(messages, 1):
        if isinstance(message, dict):
            records.append(Record(str(number), message))
        else:
            found = f"expected a message, found {type(message).__name__}"
            reading.skipped.append(importers.Skipped(number, found, "message"))
    ignored = Counter(key for key in chat if key not in (MESSAGES, "title", "createdAt", *IDS))
    return importers.SourceConversation(
        name, records, partial(AiSdkChat, title=as_str(chat.get("title")), is_named=name != ""), ignored
    )


AI_SDK = importers.Importer("ai-sdk", read=read, is_document=is_document, is_record=is_record)
