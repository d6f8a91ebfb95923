"""How long something is, in tokens: a documented estimate, until a counter is chosen.

One token for every four bytes of UTF-8, rounded up. English prose comes out some 10 % high, code and
other scripts vary more; it never depends on a machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from stenolog.domain.parts import File, Image, Opaque, Part, Reasoning, Refusal, Text, ToolCall

COUNTER = "bytes4@1"
IMAGE_TOKENS = 1_500
"""What a picture costs, about, with the providers that say so."""


def count(text: str) -> int:
    """The estimate for a text."""
    size = len(text) if text.isascii() else len(text.encode())
    return (size + 3) // 4


def count_part(part: Part) -> int:
    """The estimate for a part."""
    match part:
        case Text(text=text) | Refusal(text=text):
            return count(text)
        case Reasoning(text=text, encrypted=encrypted, signature=signature):
            return count(text) + count(encrypted) + count(signature)
        case ToolCall(name=name, arguments=arguments):
            return count(name) + count(arguments)
        case Opaque(raw=raw):
            return count(raw)
        case Image() | File():
            return IMAGE_TOKENS


def count_parts(parts: Iterable[Part]) -> int:
    """The estimate for several parts."""
    return sum(count_part(part) for part in parts)


def count_json(value: object) -> int:
    """The estimate for a JSON value, written compactly."""
    return count(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


class Counter(NamedTuple):
    """A way to count tokens: `id` names it with its version, `count` gives the tokens of a text."""

    id: str
    count: Callable[[str], int]


ESTIMATE = Counter(COUNTER, count)
COUNTERS: Mapping[str, Counter] = MappingProxyType({"bytes4": ESTIMATE})
"""The counters that need nothing installed, by the name that a budget gives."""
