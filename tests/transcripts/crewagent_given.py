"""Folders of CrewAgent's conversations, made up for the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stenolog import Conversation, Event, Log
from stenolog.contrib.crewagent.export import export_crewagent
from stenolog.importers import Report, import_file

Message = dict[str, Any]


def message(id: str, role: str, content: Any, part_type: str = "text", **fields: Any) -> Message:
    """Return a message with every field that the schema has."""
    return {
        "id": id,
        "createdAt": "2026-01-02T03:04:05.678Z",
        "role": role,
        "content": content,
        "includeInContext": True,
        "partType": part_type,
        "mode": "chat",
        **fields,
    }


def call(id: str = "c1", name: str = "read", arguments: str = '{"path": "a.py"}') -> Message:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def folder(place: Path, **conversations: Any) -> Path:
    """Return a folder with these conversations: their messages, or the text of the file as it is."""
    made = place / "conversations"
    made.mkdir(parents=True)
    entries = [
        {"id": id, "title": id.title(), "createdAt": "2026-01-02T03:00:00.000Z"} for id in conversations
    ]
    index(made, {"conversations": entries})
    for id, messages in conversations.items():
        (made / id).mkdir()
        keep(made, id, messages)
    return made


def index(made: Path, document: Any) -> None:
    _write(made / "index.json", document)


def keep(made: Path, id: str, messages: Any) -> None:
    """Write the messages of a conversation that has a folder."""
    _write(made / id / "messages.json", messages)


def read(made: Path, id: str = "talk") -> Any:
    """Return the messages in the folder."""
    return json.loads((made / id / "messages.json").read_text())


def _write(path: Path, document: Any) -> None:
    path.write_text(document if isinstance(document, str) else json.dumps(document))


def imported(log: Log, path: Path, **options: Any) -> Report:
    """Import a folder of which nothing may be refused."""
    report = import_file(log, path, **options)
    assert [(conversation.skipped, conversation.failed) for conversation in report.conversations] == [
        ([], "") for _ in report.conversations
    ]
    assert report.skipped == []
    return report


def there_and_back(log: Log, place: Path, messages: list[Message]) -> list[Message]:
    """Return messages after an import and an export."""
    imported(log, folder(place / "in", talk=messages))
    export_crewagent(log["talk"], place / "out")
    found: list[Message] = read(place / "out")
    return found


def told(conversation: Conversation) -> list[tuple[str, Any, Event]]:
    """Return id, time and event of every entry."""
    return [(entry.id, entry.time, entry.event) for entry in conversation.entries()]
