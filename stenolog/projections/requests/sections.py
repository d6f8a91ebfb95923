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


class Known:
    """The messages that a writer has written to stay, each as JSON: made once for all bodies.

    Threads may ask at once: whoever finds one missing writes it, and another who does writes the same.
    """

    def __init__(self, messages: list[Any]) -> None:
        self.messages = messages
        self._written: dict[int, bytes] = {}

    def upto(self, number: int) -> list[bytes]:
        """The first of them as JSON."""
        for index in range(len(self._written), number):
            self._written[index] = written(self.messages[index])
        return [self._written[index] for index in range(number)]


class Encoded:
    """The messages of a body, each as the JSON that digests are made of.

    The first `stays` of them stand in earlier bodies, too, unless this body has another in the place of one.
    """

    __slots__ = ("_known", "_stays", "messages")

    def __init__(self, messages: list[Any], known: Known | None = None, stays: int = 0) -> None:
        self.messages = messages
        self._known = known
        self._stays = stays

    def __call__(self) -> list[bytes]:
        if self._known is None:
            return [*map(written, self.messages)]
        first = zip(self.messages, self._known.messages, self._known.upto(self._stays), strict=False)
        said = [text if mine is theirs else written(mine) for mine, theirs, text in first]
        return [*said, *map(written, self.messages[self._stays :])]

    def __deepcopy__(self, memo: object) -> Encoded:
        return self  # of the copied messages it says nothing

    def __reduce__(self) -> tuple[type[Encoded], tuple[list[Any]]]:
        return Encoded, (self.messages,)


def written(value: Any) -> bytes:
    """A JSON value as digests are made of it, compactly, each blob by its hash."""
    return json.dumps(by_hash(value), ensure_ascii=False, separators=(",", ":")).encode()


def digest(body: Mapping[str, Any], messages: Sequence[bytes] | None = None) -> str:
    """The sha256 of a body. `messages` are its own, where they have been written already."""
    if messages is None:
        return sha256(written(body)).hexdigest()
    whole = sha256()
    before = b"{"
    for key, value in body.items():
        inner = (b"[", b",".join(messages), b"]") if key in MESSAGES else (written(value),)
        for piece in (before, written(key), b":", *inner):
            whole.update(piece)
        before = b","
    whole.update(b"}")
    return whole.hexdigest()


def sections(body: Mapping[str, Any], messages: Sequence[bytes] | None = None) -> dict[str, Any]:
    """The digests of a body's sections, about 150 bytes of JSON.

    `{"tools": "1f3e…", "parameters": "90ab…", "messages": [number, chunks]}`: the digests of at most
    16 chunks of the messages stand in one text, four digits each.
    """
    found: dict[str, Any] = {key: _digest(body[key]) for key in FRONT if key in body}
    found[PARAMETERS] = _digest(_rest(body))
    for key in MESSAGES:
        if key in body:
            said = [*map(written, turns(body[key]))] if messages is None else messages
            found[key] = [len(said), "".join(_chunks(said, len(said)))]
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
    for index, found in enumerate(_chunks([*map(written, messages)], number)):
        if found != chunks[index * SHORTER : (index + 1) * SHORTER]:
            return _named(key, _bound(number, index), _bound(number, index + 1) - 1)
    return "" if len(messages) == number else _named(key, number, max(number, len(messages) - 1))


def _named(key: str, first: int, last: int) -> str:
    span = f"{first}" if first == last else f"{first}-{last}"
    if key == "prompt":
        return f"/{key}, turn{'' if first == last else 's'} {span}"
    return f"/{key}/{span}"


def _chunks(messages: Sequence[bytes], number: int) -> list[str]:
    """The digest of each chunk of the written messages, cut as though there were `number` of them."""
    chunks = (
        messages[_bound(number, index) : _bound(number, index + 1)] for index in range(min(CHUNKS, number))
    )
    return [sha256(b"[%b]" % b",".join(chunk)).hexdigest()[:SHORTER] for chunk in chunks]


def _bound(number: int, index: int) -> int:
    return number * index // min(CHUNKS, number)


def _rest(body: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key not in FRONT and key not in MESSAGES}


def _digest(value: Any) -> str:
    return sha256(written(value)).hexdigest()[:SHORT]
