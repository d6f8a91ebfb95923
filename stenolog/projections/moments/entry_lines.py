"""Entries as readable JSON Lines that need no escapes in a Python file."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from stenolog.domain.codec import REGISTRY
from stenolog.domain.entry import Entry

NOT_ASCII = re.compile(r"[^\x20-\x7e]")


def written_entries(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield each entry as a line, without salt and digest."""
    for entry in entries:
        line: dict[str, Any] = {
            "position": entry.position,
            "id": entry.id,
            "time": entry.time.isoformat(),
        }
        topic, payload = REGISTRY.dump(entry.event)
        yield written(line | {"topic": topic} | _payload(topic, payload))


def _payload(topic: str, payload: bytes) -> dict[str, Any]:
    if topic in REGISTRY.events:
        return {"event": json.loads(payload)}
    return {"base64": b64encode(payload).decode()}


def read_entries(conversation: str, lines: str) -> Iterator[Entry]:
    """Yield the entries of lines. Raises `CorruptLogError` for an event that does not decode."""
    for line in lines.split("\n"):
        if line:
            found = json.loads(line)
            payload = json.dumps(found["event"]).encode() if "event" in found else b64decode(found["base64"])
            event = REGISTRY.load(found["topic"], payload)
            time = datetime.fromisoformat(found["time"])
            yield Entry(conversation, found["position"], found["id"], time, "", event)


def written(value: Any) -> str:
    """Return a JSON value as a line for a raw string, in which each character is visible.

    JSON has no three quotation marks in a row, and its backslashes are those of a raw string.
    """
    return NOT_ASCII.sub(_seen, json.dumps(value, ensure_ascii=False))


def _seen(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]
