"""Rows of `conversation_messages` to events: one workflow is one conversation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from stenolog.events import (
    EPOCH,
    UNCHANGED,
    AgentCard,
    AssistantMessage,
    Known,
    ModeSwitch,
    Origin,
    ToolResult,
    TurnPolicy,
    UserMessage,
    address,
)
from stenolog.importers import (
    EventWriter,
    ExistingLog,
    Json,
    Record,
    Step,
    agent_called,
    as_str,
    as_time,
    compact_json,
    key_of,
)

SYSTEM = "conversation_messages"
WORKFLOWS = ("workflowId", "workflow_id", "workflowid")
TIMES = ("createdAt", "created_at", "createdat")
KNOWN = {"id", "role", "content", "agent", *WORKFLOWS, *TIMES}
AGENTS = ("assistant", "agent", "ai", "model")
LONGEST_ID = 150
NEVER = datetime(1, 1, 1, tzinfo=UTC)


def workflow_of(row: dict[str, Any]) -> str | int | None:
    """The workflow that a row belongs to; None where it names none."""
    found = next((row[name] for name in WORKFLOWS if name in row), None)
    return found if isinstance(found, str | int) else None


def at_of(row: dict[str, Any]) -> datetime | None:
    """Return a row's time; None if it has none, or it cannot be read."""
    found = next((row[name] for name in TIMES if name in row), None)
    if isinstance(found, str) and found.strip().isdecimal():
        found = float(found)
    at = as_time(found, NEVER)
    return None if at is NEVER else at


def _speaker(row: dict[str, Any]) -> str:
    """The lane that a row is said on; empty where no agent says it."""
    if as_str(row.get("role")).casefold() not in AGENTS:
        return ""
    agent, _, task = as_str(row.get("agent")).partition("/")
    return address(agent_called(agent), task)


def _followed_by(speakers: Sequence[str]) -> list[str]:
    """For each row the lane that speaks next behind it; empty where none does."""
    found, following = [], ""
    for speaker in reversed(speakers):
        found.append(following)
        following = speaker or following
    return found[::-1]


def _addressed(agent: str) -> TurnPolicy:
    """Turns by address, and this agent's where a message names nobody."""
    return TurnPolicy(rule="addressed", options={"default": [agent]})


class WorkflowRows:
    """Takes the rows of one workflow, its `records` in order, and gives the steps that take them down.

    What a user says is for whoever speaks next; where nobody does, for the first who ever spoke. What the
    system says to an agent that has not spoken yet is its persona, the first time. A row without an id is
    known by its own words. Where a row has no time, it has that of the row before it.
    """

    def __init__(self, log: ExistingLog, records: Sequence[Record]) -> None:
        self.scribe = EventWriter(SYSTEM, "", log)
        self.beyond: Counter[str] = Counter()
        self.decided: Counter[str] = Counter()
        self._at = EPOCH
        self._opened = False
        self._known = set(log.agents)
        self._seen: Counter[str] = Counter()
        speakers = [_speaker(record.value) for record in records]
        self._first = next(filter(None, speakers), "")
        self._next = dict(zip((record.line for record in records), _followed_by(speakers), strict=True))

    def take(self, record: Record) -> list[Step]:
        """Return the steps for a row."""
        row = record.value
        self._at = at_of(row) or self._at
        if not self._opened:
            self._opened = True
            turns = _addressed(self._first.partition("/")[0]) if self._first else UNCHANGED
            opening = ModeSwitch(mode="chat", turns=turns, source=self.scribe.source("", "settings"))
            self.scribe.write(opening, "settings", self._at)
        key = self._key(row)
        self.scribe.write(self._event(row, key, self._next[record.line]), key, self._at)
        return self.scribe.drain()

    def end(self) -> list[Step]:
        """Return the steps left at the end of the rows."""
        return self.scribe.drain()

    def _key(self, row: dict[str, Any]) -> str:
        id = str(row.get("id", ""))
        if not 0 < len(id) <= LONGEST_ID:
            id = sha256(compact_json(row).encode()).hexdigest()[:16]
        key = key_of(f"row-{id}")
        self._seen[key] += 1
        return key if self._seen[key] == 1 else f"{key}-{self._seen[key]}"

    def _event(self, row: dict[str, Any], key: str, next_one: str) -> Known:
        """The event of a row, behind which `next_one` speaks."""
        role, words = as_str(row.get("role")).casefold(), self._content(row.get("content"))
        named = as_str(row.get("agent"))
        source = self.scribe.source(str(row.get("id", "")), role, key)
        meta = self._meta(row)
        match role:
            case role if role in AGENTS:
                agent, _, task = _speaker(row).partition("/")
                self._known.add(agent)
                return AssistantMessage(agent=agent, task=task, text=words, meta=meta, source=source)
            case "tool" | "function":
                return ToolResult(call_id=key, name=named, text=words, meta=meta, source=source)
            case "system" | "developer":
                return self._system(named, words, meta, source)
            case "user" | "human":
                to = [next_one] if next_one else []
                return UserMessage(text=words, author=named, to=to, meta=meta, source=source)
            case _:
                self.decided[f"role {role[:40]!r}, taken as the system's words"] += 1
                return UserMessage(text=words, author=named, author_kind="system", meta=meta, source=source)

    def _system(self, named: str, words: str, meta: Json, source: Origin) -> Known:
        agent = agent_called(named.partition("/")[0])
        if not named or agent in self._known:
            return UserMessage(text=words, author=named, author_kind="system", meta=meta, source=source)
        self._known.add(agent)
        return ModeSwitch(cards={agent: AgentCard(persona=words)}, meta=meta, source=source)

    def _content(self, content: Json) -> str:
        if isinstance(content, str):
            return content
        self.decided["content that is no text, taken as JSON"] += 1
        return compact_json(content)

    def _meta(self, row: dict[str, Any]) -> dict[str, Json]:
        """Return the fields without a place in the event, including a time that cannot be read."""
        rest = {name: value for name, value in row.items() if name not in KNOWN}
        if at_of(row) is None:
            rest |= {name: row[name] for name in TIMES if name in row}
        return {SYSTEM: rest} if rest else {}
