"""Sessions as opencode stores them: session, messages, parts.

Source: `message-v2.ts`, `storage.ts` and `session.sql.ts` of anomalyco/opencode.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

from stenolog.importers import JsonObject, as_dict, as_int, as_str, key_of

_DEFAULT_TITLE = re.compile(r"(New|Child) session - \d{4}-")
"""The title of a session that has not been named yet."""


class StoredMessage(NamedTuple):
    """One message: its data, and its parts in order."""

    id: str
    info: JsonObject
    parts: list[JsonObject]

    @property
    def created(self) -> int:
        """Its start in milliseconds; 0 if unknown."""
        return as_int(as_dict(self.info.get("time")).get("created"))

    @property
    def is_open(self) -> bool:
        """True if an answer may still be written."""
        completed = as_dict(self.info.get("time")).get("completed")
        ended = completed or self.info.get("error") or self.info.get("finish")
        return self.info.get("role") == "assistant" and not ended


class StoredSession(NamedTuple):
    """A session's data; messages name it by its id."""

    id: str
    info: JsonObject

    @property
    def parent(self) -> str:
        return as_str(self.info.get("parentID"))

    @property
    def title(self) -> str:
        """Its given title; empty for the initial one."""
        title = as_str(self.info.get("title"))
        return "" if _DEFAULT_TITLE.match(title) else title


class Storage(Protocol):
    """A place with sessions; what it cannot read is skipped, with the reason."""

    def sessions(self) -> Sequence[StoredSession]: ...

    def messages(self, session: str) -> list[StoredMessage]: ...


class SessionTree:
    """A session and those of its sub-agents, with their messages."""

    def __init__(self, storage: Storage, sessions: Sequence[StoredSession]) -> None:
        self.root = sessions[0]
        self.sessions = sessions
        # All is read at once: a database is closed as soon as its last session has been asked for.
        found = {each.id: storage.messages(each.id) for each in sessions}
        self.messages = {
            id: sorted(messages, key=lambda each: (each.created, each.id)) for id, messages in found.items()
        }
        """The messages of each session, by its id, in order."""

    @cached_property
    def ids(self) -> frozenset[str]:
        """The ids of all messages and parts."""
        messages = [message for found in self.messages.values() for message in found]
        parts = (part_id(part) for message in messages for part in message.parts)
        return frozenset((*(message.id for message in messages), *parts))


def part_id(part: JsonObject) -> str:
    """Return a part's id as a valid entry id."""
    return key_of(as_str(part.get("id")))


def trees(storage: Storage) -> Iterator[SessionTree]:
    """Yield the sessions that are no sub-agents', each with those below it."""
    sessions = {session.id: session for session in storage.sessions()}
    below: dict[str, list[StoredSession]] = {}
    for session in sessions.values():
        below.setdefault(_root(session, sessions), []).append(session)
    for root, members in below.items():
        others = [session for session in members if session.id != root]
        yield SessionTree(storage, [sessions[root], *others])


def _root(session: StoredSession, sessions: dict[str, StoredSession]) -> str:
    """Return a session's topmost ancestor; of a cycle, the least member."""
    seen: dict[str, None] = {}
    while session.id not in seen:
        seen[session.id] = None
        if (parent := sessions.get(session.parent)) is None:
            return session.id
        session = parent
    circle = list(seen)[list(seen).index(session.id) :]
    return min(circle)


def message_of(info: JsonObject, parts: Sequence[JsonObject], name: str) -> StoredMessage:
    """Return a message in today's form; one without an id gets this name, its parts a number too."""
    id = key_of(as_str(info.get("id"))) or key_of(name)
    if not parts and isinstance(info.get("parts"), list):
        info, parts = _from_first_form(info)
    named = [{**part, "id": part_id(part) or f"{id}-{nth}"} for nth, part in enumerate(parts)]
    return StoredMessage(id, info, named)


def _from_first_form(info: JsonObject) -> tuple[JsonObject, list[JsonObject]]:
    """Return a message of the first releases, which holds its parts, in today's form."""
    about = as_dict(info.get("metadata"))
    answer, tools = as_dict(about.get("assistant")), as_dict(about.get("tool"))
    facts = {**answer, "id": info.get("id"), "role": info.get("role"), "time": about.get("time")}
    if about.get("error"):
        facts["error"] = about["error"]
    parts = [_part_from_first_form(as_dict(part), tools) for part in info["parts"]]
    return facts, [part for part in parts if part]


def _part_from_first_form(part: JsonObject, tools: JsonObject) -> JsonObject:
    match part:
        case {"type": "tool-invocation", "toolInvocation": {"toolCallId": str(id), **call}}:
            about = as_dict(tools.get(id))
            state: JsonObject = {"status": "running", "input": call.get("args"), "time": about.get("time")}
            if call.get("state") == "result":
                failed = about.get("error") is True
                state |= {"status": "error" if failed else "completed"}
                state |= {"error" if failed else "output": call.get("result")}
            return {"type": "tool", "callID": id, "tool": call.get("toolName"), "state": state}
        case {"type": "file", "url": str()}:
            return {**part, "mime": part.get("mediaType")}
        case _:
            return part
