"""The floors: what one writes without a library. A row of JSON for each event, committed when it happens."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from benchmarks.peers.libraries import chat
from benchmarks.peers.peer import Peer
from benchmarks.peers.workload import STEPS, Alphabet, Event, Said, events

SCHEMA = """
CREATE TABLE IF NOT EXISTS messages
    (id INTEGER PRIMARY KEY, conversation TEXT NOT NULL, message TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS of_conversation ON messages (conversation, id);
"""
INSERT = "INSERT INTO messages (conversation, message) VALUES (?, ?)"
SELECT = "SELECT message FROM messages WHERE conversation = ? ORDER BY id LIMIT ?"


class Floor(Peer):
    """Every list is read from the store anew."""

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

    def messages(self, conversation: str) -> list[dict[str, Any]]:
        return self._first(conversation, -1)

    def said(self, messages: Any) -> list[Said]:
        return chat.said(messages)

    def at(self, conversation: str, turn: int) -> list[dict[str, Any]]:
        return self._first(conversation, turn * STEPS)

    def fork(self, conversation: str, turn: int, name: str) -> None:
        copy = f"INSERT INTO messages (conversation, message) SELECT ?, message FROM ({SELECT})"
        self.database.execute(copy, (name, conversation, turn * STEPS))

    def _first(self, conversation: str, limit: int) -> list[dict[str, Any]]:
        return [json.loads(text) for (text,) in self.database.execute(SELECT, (conversation, limit))]


class FloorCached(Floor):
    """The list is held in memory, and right for as long as no other process writes."""

    def open(self, path: Path) -> None:
        super().open(path)
        self.held: dict[str, list[dict[str, Any]]] = {}

    def append(self, event: Event) -> None:
        held = self._held(event.conversation)
        message = chat.message(event)
        self.database.execute(INSERT, (event.conversation, json.dumps(message)))
        held.append(message)

    def messages(self, conversation: str) -> list[dict[str, Any]]:
        return list(self._held(conversation))

    def kept(self, conversation: str) -> list[Said]:
        return self.said(self._first(conversation, -1))

    def _held(self, conversation: str) -> list[dict[str, Any]]:
        if conversation not in self.held:
            self.held[conversation] = super().messages(conversation)
        return self.held[conversation]


def _row(event: Event) -> tuple[str, str]:
    return event.conversation, json.dumps(chat.message(event))
