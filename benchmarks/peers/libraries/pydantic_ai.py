"""pydantic-ai: its messages, a row of its own JSON for each. It ships no store, so the SQL is by hand."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, ClassVar

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from benchmarks.peers.peer import Peer
from benchmarks.peers.workload import STEPS, Alphabet, Event, Said, events

SCHEMA = """
CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY, conversation TEXT NOT NULL, json BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS of_conversation ON messages (conversation, id);
"""
INSERT = "INSERT INTO messages (conversation, json) VALUES (?, ?)"
SELECT = "SELECT json FROM messages WHERE conversation = ? ORDER BY id LIMIT ?"


class PydanticAI(Peer):
    packages: ClassVar[tuple[str, ...]] = ("pydantic-ai-slim", "pydantic")

    def open(self, path: Path) -> None:
        self.database = sqlite3.connect(path, timeout=30, isolation_level=None)
        self.database.execute("PRAGMA journal_mode = WAL")
        self.database.execute("PRAGMA synchronous = FULL")
        self.database.executescript(SCHEMA)

    def close(self) -> None:
        self.database.close()

    def append(self, event: Event) -> None:
        self.database.execute(INSERT, _row(event))

    def fill(self, conversation: str, turns: int, alphabet: Alphabet = "latin") -> None:
        self.database.execute("BEGIN")
        self.database.executemany(INSERT, map(_row, events(conversation, turns, alphabet)))
        self.database.execute("COMMIT")

    def messages(self, conversation: str) -> list[ModelMessage]:
        return self._first(conversation, -1)

    def said(self, messages: Any) -> list[Said]:
        return [read(message) for message in messages]

    def at(self, conversation: str, turn: int) -> list[ModelMessage]:
        return self._first(conversation, turn * STEPS)

    def _first(self, conversation: str, limit: int) -> list[ModelMessage]:
        rows = self.database.execute(SELECT, (conversation, limit))
        return [one for (json,) in rows for one in ModelMessagesTypeAdapter.validate_json(json)]


def _row(event: Event) -> tuple[str, bytes]:
    return event.conversation, ModelMessagesTypeAdapter.dump_json([message(event)])


def message(event: Event) -> ModelMessage:
    """Return an event as a message of pydantic-ai."""
    match event.kind:
        case "user":
            return ModelRequest(parts=[UserPromptPart(event.text)])
        case "result":
            part = ToolReturnPart(tool_name=event.tool, content=event.text, tool_call_id=event.answers)
            return ModelRequest(parts=[part])
        case "calls":
            return ModelResponse(
                parts=[ToolCallPart(call.name, call.arguments, tool_call_id=call.id) for call in event.calls]
            )
        case "answer":
            return ModelResponse(parts=[TextPart(event.text)])


def read(message: ModelMessage) -> Said:
    """Return a message of pydantic-ai as it is compared."""
    match message.parts[0]:
        case UserPromptPart(content=text):
            return ("user", text)
        case ToolReturnPart(tool_call_id=id, content=text):
            return ("result", id, text)
        case TextPart(content=text):
            return ("answer", text)
        case _:
            calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
            return ("calls", *((call.tool_call_id, call.tool_name, call.args) for call in calls))
