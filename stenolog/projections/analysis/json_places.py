"""Places of a body's fields, and of its messages, in bytes that are JSON in whatever form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

BLANKS = " \t\n\r"


class JsonPlace(NamedTuple):
    """The bytes from `first` to before `end`, which are the value at a JSON pointer."""

    first: int
    end: int
    pointer: str


def places(content: bytes, messages_key: str) -> Iterator[JsonPlace]:
    """Yield the value of each field in order, of the messages one by one; nothing of what is no object."""
    try:
        text = content.decode()
        found = [*_fields(text, messages_key)]
    except (ValueError, IndexError):
        return
    at = done = 0
    for first, end, pointer in found:
        at += len(text[done:first].encode())
        size = len(text[first:end].encode())
        yield JsonPlace(at, at + size, pointer)
        at, done = at + size, end


def _fields(text: str, messages_key: str) -> Iterator[JsonPlace]:
    for key, first in _items(text, _skipped(text, 0, "{"), "}"):
        pointer = f"/{key.replace('~', '~0').replace('/', '~1')}"
        if key == messages_key and text[first] == "[":
            for number, (_, begin) in enumerate(_items(text, first + 1, "]")):
                yield JsonPlace(begin, _end(text, begin), f"{pointer}/{number}")
        else:
            yield JsonPlace(first, _end(text, first), pointer)


def _items(text: str, at: int, closing: str) -> Iterator[tuple[str, int]]:
    """Yield the key and the begin of each value in an object, or in a list, which has no keys."""
    at = _blank(text, at)
    while text[at] != closing:
        key = ""
        if closing == "}":
            key, at = _DECODER.raw_decode(text, at)
            at = _skipped(text, at, ":")
        yield key, (at := _blank(text, at))
        at = _blank(text, _end(text, at))
        if text[at] == ",":
            at = _blank(text, at + 1)


_DECODER = json.JSONDecoder()


def _end(text: str, at: int) -> int:
    return _DECODER.raw_decode(text, at)[1]


def _skipped(text: str, at: int, sign: str) -> int:
    at = _blank(text, at)
    if text[at] != sign:
        raise ValueError(f"expected {sign!r} at {at}")
    return at + 1


def _blank(text: str, at: int) -> int:
    while text[at] in BLANKS:
        at += 1
    return at
