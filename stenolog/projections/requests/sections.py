"""Short digests of the sections of a body, small enough to stand in every receipt.

The sha256 of a receipt proves that a request was built again; its sections tell where one differs that
was not, though nobody kept the body.

>>> first_difference(sections({"model": "m", "prompt": "User: a"}), {"model": "m", "prompt": "User: b"})
'/prompt, turn 0'
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

FRONT = ("system", "instructions", "systemInstruction", "system_instruction", "tools")
"""The keys, besides the messages, that have a section of their own; the others share one, `PARAMETERS`."""
MESSAGES = ("messages", "input", "contents", "prompt")
"""The keys that the conversation stands under, on one wire or another."""
PARAMETERS = "parameters"
ORDER = "the order of the keys"
"""Where two bodies differ that have all sections in common."""
CHUNKS = 16
SHORT, SHORTER = 8, 4
"""Hexadecimal digits of a section's digest, and of a chunk's, of which there are many."""
TURN = re.compile(r"\n\n(?=(?:System|User|Assistant|Tool)(?: \([^()\n]*\))?: )")


def sections(body: Mapping[str, Any]) -> dict[str, Any]:
    """The digests of a body's sections, about 150 bytes of JSON.

    `{"tools": "1f3e…", "parameters": "90ab…", "messages": [number, chunks]}`: the digests of at most
    16 chunks of the messages stand in one text, four digits each.
    """
    found: dict[str, Any] = {key: _digest(body[key]) for key in FRONT if key in body}
    found[PARAMETERS] = _digest(_rest(body))
    for key in MESSAGES:
        if key in body:
            messages = turns(body[key])
            found[key] = [len(messages), "".join(_chunks(messages, len(messages)))]
    return found


def first_difference(sections: Mapping[str, Any], body: Mapping[str, Any]) -> str:
    """Where a body differs first from the one that the sections are of; empty where they are equal.

    A JSON pointer (`/tools`, `/messages/3`), one with a range (`/messages/12-23`), or several joined by
    `or`, where the section holds no more than that.
    """
    for key in FRONT:
        if sections.get(key) != (_digest(body[key]) if key in body else None):
            return f"/{key}"
    for key in MESSAGES:
        different = _in_messages(key, sections.get(key, [0, ""]), turns(body.get(key, [])))
        if different:
            return different
    if sections.get(PARAMETERS) != _digest(_rest(body)):
        return " or ".join(f"/{key}" for key in _rest(body)) or f"/{PARAMETERS}"
    return ""


def conversation(body: Mapping[str, Any]) -> Any:
    """The messages of a body, under the key that they stand under on its wire; a prompt is a text."""
    return next((body[key] for key in MESSAGES if key in body), [])


def turns(messages: Any) -> Sequence[Any]:
    """The messages; a prompt of plain text in its turns."""
    return TURN.split(messages) if isinstance(messages, str) else messages


def by_hash(value: Any) -> Any:
    """A JSON value with `sha256:` and its hash in the place of every blob's content."""
    if isinstance(value, dict):
        return {key: by_hash(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [by_hash(inner) for inner in value]
    return getattr(value, "hashed", value)


def _in_messages(key: str, recorded: Sequence[Any], messages: Sequence[Any]) -> str:
    number, chunks = recorded
    for index, digest in enumerate(_chunks(messages, number)):
        if digest != chunks[index * SHORTER : (index + 1) * SHORTER]:
            return _named(key, _bound(number, index), _bound(number, index + 1) - 1)
    return "" if len(messages) == number else _named(key, number, max(number, len(messages) - 1))


def _named(key: str, first: int, last: int) -> str:
    span = f"{first}" if first == last else f"{first}-{last}"
    if key == "prompt":
        return f"/{key}, turn{'' if first == last else 's'} {span}"
    return f"/{key}/{span}"


def _chunks(messages: Sequence[Any], number: int) -> list[str]:
    """The digest of each chunk, cut as though there were `number` messages."""
    return [
        _digest(list(messages[_bound(number, index) : _bound(number, index + 1)]), SHORTER)
        for index in range(min(CHUNKS, number))
    ]


def _bound(number: int, index: int) -> int:
    return number * index // min(CHUNKS, number)


def _rest(body: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key not in FRONT and key not in MESSAGES}


def _digest(value: Any, digits: int = SHORT) -> str:
    text = json.dumps(by_hash(value), ensure_ascii=False, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:digits]
