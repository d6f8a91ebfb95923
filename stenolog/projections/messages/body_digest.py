"""Short digests of the sections of a body, small enough for every receipt.

The sha256 of a receipt proves that a request was built again; its sections show where one differs.

    >>> told = sections({"model": "m", "prompt": "User: a"}, "prompt")
    >>> first_difference(told, {"model": "m", "prompt": "User: b"}, "prompt")
    '/prompt, turn 0'
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from operator import is_
from typing import Any, Protocol

SYSTEM = ("system", "instructions", "systemInstruction", "system_instruction")
"""The keys of the system text, on the APIs that have it beside the messages."""
FRONT = (*SYSTEM, "tools")
"""The keys, besides the messages, that have a section of their own; the others share one, `PARAMETERS`."""
MESSAGES = "messages"
"""The key of the messages in a body, unless a `Format` names another."""
PROMPT = "prompt"
"""The key of the text in the body of a model that reads plain text."""
PARAMETERS = "parameters"
ORDER = "the order of the keys"
"""The reported difference of two bodies whose sections are all equal."""
CHUNKS = 16
# For each number of messages there is one hash of all, and one of each chunk.
MOST = 256
"""The number of hashes that are kept."""
# Short, since they stand in every receipt; they tell where to look, and prove nothing.
SHORT, SHORTER = 8, 4
"""Hexadecimal digits of a section's digest, and of a chunk's."""
TURN = re.compile(r"\n\n(?=(?:System|User|Assistant|Tool)(?: \([^()\n]*\))?: )")


class Hash(Protocol):
    """A hash on its way, as `hashlib` has them."""

    def update(self, data: bytes, /) -> None: ...
    def copy(self) -> Hash: ...
    def hexdigest(self) -> str: ...


class PrefixHash:
    """The permanent messages of a writer: each is hashed once for all bodies."""

    # No lock: two threads that find the same hash missing both compute it, and get the same.

    def __init__(self, messages: list[Any]) -> None:
        self.messages = messages
        self._hashed: dict[tuple[bytes, int], tuple[int, Hash]] = {}

    def hashed(self, before: bytes, first: int, at: int) -> Hash:
        """Return the hash of `before` and of the messages from `first` to before `at`, to be continued."""
        done, found = self._hashed.get((before, first), (first, None))
        if found is None or done > at:
            done, found = first, sha256(before)
        whole = found.copy()
        for index in range(done, at):
            whole.update(_following(self.messages[index], index > first))
        if len(self._hashed) == MOST:
            self._hashed.clear()
        # A copy, because the caller goes on with `whole`.
        self._hashed[before, first] = at, whole.copy()
        return whole


class MessageHash:
    """The messages of a body, prepared for digests.

    The first `stays` of them are in earlier bodies, too, up to the first that this body replaces: from there
    on, it is hashed by itself.
    """

    __slots__ = ("_common", "_known", "_stays", "messages")

    def __init__(self, messages: Sequence[Any], known: PrefixHash | None = None, stays: int = 0) -> None:
        self.messages = messages
        self._known = known
        self._stays = stays
        self._common = 0 if known is None else -1

    def hashed(self, before: bytes, first: int = 0, at: int | None = None) -> Hash:
        """Return the hash of `before` and of the messages from `first` to before `at`, to be continued."""
        end = len(self.messages) if at is None else at
        known = min(max(self._in_common(), first), end)
        whole = sha256(before) if self._known is None else self._known.hashed(before, first, known)
        for index in range(known, end):
            whole.update(_following(self.messages[index], index > first))
        return whole

    def _in_common(self) -> int:
        if self._known is not None and self._common < 0:
            # By identity: equal messages are the very objects, so nothing is compared word by word.
            same = [*map(is_, islice(self.messages, self._stays), self._known.messages)]
            self._common = same.index(False) if False in same else len(same)
        return self._common

    def __deepcopy__(self, memo: object) -> MessageHash:
        # Of the copied messages it says nothing, which `Request._encoded` sees.
        return self

    def __reduce__(self) -> tuple[type[MessageHash], tuple[Sequence[Any]]]:
        return MessageHash, (self.messages,)


def _following(message: Any, behind: bool) -> bytes:
    return b"," + written(message) if behind else written(message)


def written(value: Any) -> bytes:
    """Return a JSON value compactly, each blob by its hash, for digests."""
    return json.dumps(by_hash(value), ensure_ascii=False, separators=(",", ":")).encode()


def digest(body: Mapping[str, Any], under: str, messages: MessageHash | None = None) -> str:
    """Return the sha256 of a body. `messages` are those `under` this key, if some are known."""
    whole: Hash = sha256()
    text = b"{"
    for number, (key, value) in enumerate(body.items()):
        text += (b"," if number else b"") + written(key) + b":"
        if messages is not None and key == under:
            whole, text = messages.hashed(text + b"["), b"]"
        else:
            text += written(value)
    whole.update(text + b"}")
    return whole.hexdigest()


def sections(body: Mapping[str, Any], under: str, messages: MessageHash | None = None) -> dict[str, Any]:
    """Return the digests of a body's sections, about 150 bytes of JSON. Its messages are `under` a key.

    `{"tools": "1f3e…", "parameters": "90ab…", "messages": [number, chunks]}`: the digests of at most 16
    chunks of the messages in one text, four digits each. All chunks but the last have the same number of
    messages.
    """
    found: dict[str, Any] = {key: _digest(body[key]) for key in FRONT if key in body}
    found[PARAMETERS] = _digest(_other_fields(body, under))
    if under in body:
        said = messages or MessageHash(turns(body[under]))
        number = len(said.messages)
        found[under] = [number, "".join(_chunks(said, number))]
    return found


def first_difference(sections: Mapping[str, Any], body: Mapping[str, Any], under: str) -> str:
    """Return the first difference between a body and the sections of another one; "" if they are equal.

    A JSON pointer (`/tools`, `/messages/3`), one with a range (`/messages/12-23`), or several joined by `or`.
    """
    for key in FRONT:
        if sections.get(key) != (_digest(body[key]) if key in body else None):
            return f"/{key}"
    if different := _in_messages(under, sections.get(under, [0, ""]), conversation(body, under)):
        return different
    others = _other_fields(body, under)
    if sections.get(PARAMETERS) != _digest(others):
        return " or ".join(f"/{key}" for key in others) or f"/{PARAMETERS}"
    return ""


def conversation(body: Mapping[str, Any], under: str) -> Any:
    """Return the messages of a body; a prompt is a text."""
    return body.get(under, [])


def turns(messages: Any) -> Sequence[Any]:
    """Return the messages; a prompt of plain text in its turns."""
    return TURN.split(messages) if isinstance(messages, str) else messages


def by_hash(value: Any) -> Any:
    """Return a JSON value with `sha256:` and its hash in place of every blob's content."""
    if isinstance(value, dict):
        return {key: by_hash(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [by_hash(inner) for inner in value]
    return getattr(value, "hashed", value)


def _in_messages(key: str, recorded: Sequence[Any], there: Any) -> str:
    number, chunks = recorded
    where, messages = _range_pointer(key, there), turns(there)
    size = _size(number)
    for index, found in enumerate(_chunks(MessageHash(messages), number)):
        if found != chunks[index * SHORTER : (index + 1) * SHORTER]:
            return where(index * size, min((index + 1) * size, number) - 1)
    return "" if len(messages) == number else where(number, max(number, len(messages) - 1))


def _range_pointer(key: str, messages: Any) -> Callable[[int, int], str]:
    def range_at(first: int, last: int) -> str:
        span = f"{first}" if first == last else f"{first}-{last}"
        if isinstance(messages, str):
            return f"/{key}, turn{'' if first == last else 's'} {span}"
        return f"/{key}/{span}"

    return range_at


def _chunks(messages: MessageHash, number: int) -> Iterator[str]:
    size, last = _size(number), len(messages.messages)
    for first in range(0, number, size):
        chunk = messages.hashed(b"[", min(first, last), min(first + size, number, last))
        chunk.update(b"]")
        yield chunk.hexdigest()[:SHORTER]


def _size(number: int) -> int:
    # A power of two: as messages are added, most chunks stay those of the request before.
    size = 1
    while size * CHUNKS < number:
        size *= 2
    return size


def _other_fields(body: Mapping[str, Any], under: str) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key not in FRONT and key != under}


def _digest(value: Any) -> str:
    return sha256(written(value)).hexdigest()[:SHORT]


def compact(body: object) -> str:
    """JSON without blanks, in the order given, in UTF-8's own characters."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def escape(key: str) -> str:
    """Return a key as a step of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def unescape(step: str) -> str:
    """Return the key that a step of a JSON pointer names."""
    return step.replace("~1", "/").replace("~0", "~")
