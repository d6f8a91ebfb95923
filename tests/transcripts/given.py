"""Transcripts made up for the tests, record by record, and the log they are imported into."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import stenolog
from stenolog import Conversation, Entry, Event, Log, ModeSwitch
from stenolog.importers import Report, import_file

Json = dict[str, Any]
SESSION = "11111111-2222-3333-4444-555555555555"


def record(type: str, uuid: str, parent: str | None, **fields: Any) -> Json:
    """Return a record of a Claude Code session."""
    return {
        "type": type,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": SESSION,
        "timestamp": "2026-01-02T03:04:05.678Z",
        "isSidechain": False,
        **fields,
    }


def user(uuid: str, parent: str | None, content: Any, **fields: Any) -> Json:
    return record("user", uuid, parent, message={"role": "user", "content": content}, **fields)


def assistant(uuid: str, parent: str | None, *blocks: Json, id: str = "", **fields: Any) -> Json:
    message = {"role": "assistant", "id": id or f"msg_{uuid}", "model": "claude-x", "content": list(blocks)}
    return record("assistant", uuid, parent, message=message, **fields)


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def tool_use(id: str, name: str = "Bash", **input: Any) -> Json:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def tool_result(id: str, content: Any = "done", **fields: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **fields}


def meta(**payload: Any) -> Json:
    """Return the first record of a Codex rollout."""
    return codex("session_meta", id=SESSION, **payload)


def codex(kind: str, /, **payload: Any) -> Json:
    """Return a record of a Codex rollout."""
    return {"timestamp": "2026-01-02T03:04:05.678Z", "type": kind, "payload": payload}


def item(kind: str, /, **fields: Any) -> Json:
    return codex("response_item", type=kind, **fields)


def message(role: str, words: str) -> Json:
    """Return a message in a Codex rollout."""
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": words}])


def screen(kind: str, /, **fields: Any) -> Json:
    """Return a record that a Codex rollout keeps for the screen."""
    return codex("event_msg", type=kind, **fields)


def lines(*records: Json | str | bytes) -> bytes:
    """Return records, or raw lines, as JSON Lines."""
    return b"".join(_line(record) + b"\n" for record in records)


def _line(record: Json | str | bytes) -> bytes:
    if isinstance(record, dict):
        return json.dumps(record).encode()
    return record.encode() if isinstance(record, str) else record


class Import:
    """A log, and what the import of the last file did to it."""

    def __init__(self, log: Log, folder: Path) -> None:
        self.log = log
        self._folder = folder
        self.report: Report

    def file(self, content: bytes, name: str = "talk.jsonl", **options: Any) -> Import:
        path = self._folder / name
        path.write_bytes(content)
        self.report = import_file(self.log, path, **options)
        return self

    def records(self, *records: Json | str | bytes, **options: Any) -> Import:
        return self.file(lines(*records), **options)

    @property
    def conversation(self) -> Conversation:
        """The first conversation of the file."""
        return self.log[self.report.conversations[0].name]

    @property
    def entries(self) -> list[Entry]:
        return list(self.conversation.entries())

    @property
    def said(self) -> list[Event]:
        """The events of the first conversation, without its settings."""
        return [entry.event for entry in self.entries if not isinstance(entry.event, ModeSwitch)]

    @property
    def settings(self) -> list[ModeSwitch]:
        return [entry.event for entry in self.entries if isinstance(entry.event, ModeSwitch)]


@contextmanager
def importing(folder: Path) -> Iterator[Import]:
    """Open an empty log in memory, to import into."""
    with stenolog.open(":memory:") as log:
        yield Import(log, folder)
