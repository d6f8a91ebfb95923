"""Files of NeuroCrew Lab, `chat_<id>.json`, as events.

A file is an object around the list of messages or, older, the bare list.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Any, BinaryIO

from stenolog import events, importers
from stenolog.errors import DuplicateIdError, UnknownFormatError
from stenolog.importers import Json, Record, as_dict, as_list, as_str, as_time, compact_json

AGENT = "agent"
PASS = "....."
TURNS = events.TurnPolicy(rule="round_robin", options={"pass_token": PASS})
NAMES = ("role_display_name", "role_name", "agent_name")
"""The fields with an agent's name, the displayed name first."""
NAMED = frozenset(NAMES)
_SAID = ("content", "text")
_USERS = ("user", "human")
_AGENTS = (AGENT, "assistant")
_SYSTEM = ("system", "developer")
_IDS = ("id", "message_id")
_TIMES = ("timestamp", "created_at", "time")
_ID = re.compile(r"((?:\d+-)?[0-9a-f]{32})(?:-\d+)?")
"""The id of a message: its key, and its number if more have it."""


def role_of(message: dict[str, Any]) -> str:
    """Return the role, an agent's if only an agent is named; empty if none."""
    return as_str(message.get("role")) or (AGENT if message.keys() & NAMED else "")


def kind_of(message: dict[str, Any]) -> str:
    """Return the role to compare by, however it is written."""
    return role_of(message).strip().casefold()


def content_of(message: dict[str, Any]) -> Json:
    """Return the content of a message; None if it has none."""
    return next((message[name] for name in _SAID if message.get(name) is not None), None)


def agent_of(message: dict[str, Any]) -> str:
    """Return the agent: its displayed name, else the role if it is not a standard one."""
    names = [as_str(message.get(name)) for name in (*NAMES, "name")]
    role = "" if kind_of(message) in _AGENTS else as_str(message.get("role"))
    return importers.agent_called(next(filter(None, (*names, role)), ""))


def _ids(keys: Sequence[str], held: Iterable[str]) -> list[str]:
    """Return the entry ids of messages with these keys, given the log's.

    Numbers distinguish equal keys. While the list matches the log's end, ids come from there, so that
    messages cut off at its start still count.
    """
    known = [found for found in map(_ID.fullmatch, held) if found]
    before = [found[1] for found in known]
    start = next((nth for nth in range(len(before)) if _goes_on(keys, before, nth)), len(before))
    ids = [found[0] for found in known[start : start + len(keys)]]
    seen = Counter(before if ids else ())
    for key in keys[len(ids) :]:
        seen[key] += 1
        ids.append(key if seen[key] == 1 else f"{key}-{seen[key]}")
    return ids


def _known_id(record: Record, log: importers.ExistingLog) -> str:
    own = as_str(record.value.get("id"))
    return own if own in log.positions else ""


def _goes_on(keys: Sequence[str], before: Sequence[str], start: int) -> bool:
    """Return whether the keys continue `before` from `start`, as far as both reach."""
    both = range(min(len(keys), len(before) - start))
    return all(keys[nth] == before[start + nth] for nth in both)


def _key(record: Record) -> str:
    """Return a digest of a message, with its place if it has no time or id."""
    digest = _digest(record.value)
    is_told_apart = any(record.value.get(name) for name in (*_TIMES, *_IDS))
    return digest if is_told_apart else f"{record.line}-{digest}"


class NeuroCrew(importers.RecordConverter):
    """Converter of a NeuroCrew chat's `records`. `about` are the file's other fields."""

    def __init__(self, log: importers.ExistingLog, about: dict[str, Any], records: Sequence[Record]) -> None:
        super().__init__(importers.EventWriter("neurocrew", "", log))
        self._about = about
        ids = _ids([_key(record) for record in records], log.positions)
        # What was said in the log, and came back in its export, has the id that it has there.
        ids = [_known_id(record, log) or id for record, id in zip(records, ids, strict=True)]
        self._ids = dict(zip((record.line for record in records), ids, strict=True))
        agents = [agent_of(record.value) for record in records if _speaks(record.value)]
        self._newcomers = [agent for agent in dict.fromkeys(agents) if agent not in log.agents]
        self._held = log
        self._at = events.EPOCH
        self._opened = False

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for a message, its number as its line. Raises `DuplicateIdError`."""
        message, key = record.value, self._ids[record.line]
        self._at = _time(message, self._at)
        if not self._opened:
            self._check_goes_on()
            self._open()
        said = self._agent(message, key) if _speaks(message) else self._user(message, key)
        self.writer.write(said, key, self._at)
        return self.writer.drain()

    def _check_goes_on(self) -> None:
        """Check that the file begins with the logged messages. Raises `DuplicateIdError`."""
        known = [self.writer.holds(key) for key in self._ids.values()]
        if self._held.head and not any(known):
            raise DuplicateIdError(
                "expected a message that was imported before, found none: is it another chat, or is too much "
                "cut off since? Then give it another name"
            )
        if known != sorted(known, reverse=True):
            line = [*self._ids][known.index(False)]
            raise DuplicateIdError(
                f"expected message {line} as it was imported before, found other words before known ones: "
                "is it another state of the chat? Then give it another name"
            )

    def _open(self) -> None:
        self._opened = True
        key = f"about-{_digest(self._about)}"
        if self.writer.holds(key) and self._newcomers:
            key += f"-{_digest(self._newcomers)}"
        switch = events.ModeSwitch(
            mode=events.UNCHANGED if self._held.head else "chat",
            joins=self._newcomers,
            turns=events.UNCHANGED if self._held.head else TURNS,
            meta={"neurocrew": self._about} if self._about else {},
            source=self.writer.source("", "settings"),
        )
        self.writer.write(switch, key, self._at)

    def _user(self, message: dict[str, Any], key: str) -> events.UserMessage:
        return events.UserMessage(
            text=_text(message),
            author=as_str(message.get("name")),
            author_kind="system" if kind_of(message) in _SYSTEM else "person",
            meta=_other_fields(message),
            source=self.writer.source(_own_id(message), role_of(message), key),
        )

    def _agent(self, message: dict[str, Any], key: str) -> events.AssistantMessage:
        return events.AssistantMessage(
            agent=agent_of(message),
            text=_text(message),
            meta=_other_fields(message),
            source=self.writer.source(_own_id(message), role_of(message), key),
        )


def _speaks(message: dict[str, Any]) -> bool:
    return kind_of(message) not in (*_USERS, *_SYSTEM)


def _text(message: dict[str, Any]) -> str:
    content = content_of(message)
    return content if isinstance(content, str) else compact_json(content)


def _other_fields(message: dict[str, Any]) -> dict[str, Any]:
    words = next(name for name in _SAID if message.get(name) is not None)
    return {"neurocrew": {name: value for name, value in message.items() if name not in ("role", words)}}


def _own_id(message: dict[str, Any]) -> str:
    own = next((message[name] for name in _IDS if isinstance(message.get(name), int | str)), "")
    return str(own)


def _time(message: dict[str, Any], default: datetime) -> datetime:
    return as_time(next((message[name] for name in _TIMES if message.get(name) is not None), None), default)


def _digest(value: Json) -> str:
    return sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:32]


THEIRS = "conversation"
_LISTS = (THEIRS, "messages")
"""The fields of an object that may hold its messages."""
_OTHER_APIS = frozenset(("tool_calls", "tool_call_id", "function_call"))


def is_chat(document: Json) -> bool:
    """Return whether a document is a chat: an object with a chat's id, or a list that names an agent.

    In a list without answers, all messages are users', and have times.
    """
    about = as_dict(document)
    place = _list_in(about)
    messages = [as_dict(message) for message in as_list(about[place] if place else document)]
    if place != THEIRS and any(_is_of_another_api(message) for message in messages):
        return False
    if about:
        return place != "" and "chat_id" in about.keys() | as_dict(about.get("metadata")).keys()
    is_answered = any(message.keys() & NAMED or kind_of(message) == AGENT for message in messages)
    return is_answered or (bool(messages) and all(_is_awaiting(message) for message in messages))


def read(stream: BinaryIO, reading: importers.JsonLinesReader) -> Iterator[importers.SourceConversation]:
    """Yield a recognised file's chat. Raises `UnknownFormatError` without messages."""
    document = reading.document(stream)
    fields = document if isinstance(document, dict) else {}
    place = _list_in(fields)
    given = fields[place] if place else document
    if not isinstance(given, list):
        kind = type(given).__name__
        raise UnknownFormatError(f"expected a NeuroCrew chat with a list in {place!r}, found {kind}")
    records = list(_sound(given, reading))
    about = {name: value for name, value in fields.items() if name != place}
    if fault := _unwritable(about):
        raise UnknownFormatError(f"expected a NeuroCrew chat, found beside its messages {fault}")
    yield importers.SourceConversation(
        _name(about), records, partial(NeuroCrew, about=about, records=records)
    )


def _list_in(document: dict[str, Any]) -> str:
    lists = [name for name in _LISTS if name in document]
    return next((name for name in lists if isinstance(document[name], list)), lists[0] if lists else "")


def _is_of_another_api(message: dict[str, Any]) -> bool:
    return bool(message.keys() & _OTHER_APIS) or isinstance(message.get("content"), list)


def _is_awaiting(message: dict[str, Any]) -> bool:
    return kind_of(message) == "user" and "timestamp" in message and isinstance(content_of(message), str)


def _sound(messages: list[Any], reading: importers.JsonLinesReader) -> Iterator[Record]:
    for number, message in enumerate(messages, 1):
        if fault := _fault(message):
            reading.skipped.append(importers.Skipped(number, fault, "message"))
        else:
            yield Record(str(number), message)


def _fault(message: Json) -> str:
    if not isinstance(message, dict):
        return f"expected an object, found {type(message).__name__}"
    if not kind_of(message):
        return f"expected a role, found {message.get('role')!r:.40}"
    return _unwritable(message) if content_of(message) is not None else "expected content, found none"


def _unwritable(value: Json) -> str:
    try:
        events.check_json(value)
    except ValueError as error:
        return f"what cannot be written: {error}"
    return ""


def _name(about: dict[str, Any]) -> str:
    id = about.get("chat_id", as_dict(about.get("metadata")).get("chat_id"))
    named = str(id) if isinstance(id, int) and not isinstance(id, bool) else as_str(id)
    return f"chat_{named}" if named else ""


NEUROCREW = importers.Importer("neurocrew", read=read, is_document=is_chat)
