"""Sizes, and token counts by a counter that a budget chooses or by a documented estimate.

The estimate: one token for every four bytes of UTF-8, rounded up. English prose comes out some 10 % high,
code and other scripts vary more; it never depends on a machine. A rate turns it into tokens as billed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from stenolog.domain.parts import (
    FilePart,
    ImagePart,
    Part,
    ProviderPart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCall,
)

COUNTER = "bytes4@1"
OVERHEAD = 4
"""Approximate tokens of a message beside its text: its role, its start and its end."""
IMAGE_TOKENS = 1_500
"""Approximate tokens of a picture, at the providers that document it."""


SCHEMAS = frozenset({"schema", "json_schema", "responseSchema", "responseJsonSchema"})
"""Keys of an API's parameters that hold the JSON Schema of an answer."""


class Size(NamedTuple):
    """A size in messages, characters of text, tokens, and bytes of JSON."""

    messages: int = 0
    characters: int = 0
    tokens: int = 0
    bytes: int = 0

    def plus(self, other: Size) -> Size:
        """Return the sum of both."""
        return Size(self[0] + other[0], self[1] + other[1], self[2] + other[2], self[3] + other[3])

    def minus(self, other: Size) -> Size:
        """Return this size minus the other one."""
        return Size(*map(int.__sub__, self, other))

    def fits(self, room: Size) -> bool:
        """Return whether the size is within the room in every measure."""
        return self[0] <= room[0] and self[1] <= room[1] and self[2] <= room[2] and self[3] <= room[3]


def larger(size: Size, other: Size) -> Size:
    """Return the larger of two sizes in each measure."""
    return Size(*map(max, size, other))


def total(sizes: Iterable[Size]) -> Size:
    """Return the sum of all of them."""
    messages = characters = tokens = size = 0
    for each in sizes:
        messages += each[0]
        characters += each[1]
        tokens += each[2]
        size += each[3]
    return Size(messages, characters, tokens, size)


def count(text: str) -> int:
    """Return the estimate for a text."""
    size = len(text) if text.isascii() else len(text.encode())
    return (size + 3) // 4


# A real tokenizer takes too long for a text of megabytes.
COUNTED = 100_000
"""Characters up to which a text is counted by a tokenizer."""


class Counter(NamedTuple):
    """A way to count tokens: `id` names it with its version, `count` gives the tokens of a text."""

    id: str
    count: Callable[[str], int]


ESTIMATE = Counter(COUNTER, count)
LEARNED = Counter("learned@1", count)
"""The estimate of a text, of which a view knows the rate (`requests.pipeline.bills`)."""
COUNTERS: Mapping[str, Counter] = MappingProxyType({"bytes4": ESTIMATE, "learned": LEARNED})
"""The counters that need nothing installed, by the name that a budget gives."""


class Rate(NamedTuple):
    """A rate: so many tokens are `billed` for so many `estimated` ones."""

    billed: int = 1
    estimated: int = 1

    def of(self, tokens: int) -> int:
        """Return the billed tokens for estimated ones, rounded down."""
        return tokens * self.billed // self.estimated

    def estimate(self, tokens: int) -> int:
        """Return the most estimated tokens for which no more than these are billed."""
        return tokens * self.estimated // self.billed


PLAIN = Rate()
"""The rate at which the estimate counts as it is."""


def measure(text: str, counter: Counter) -> int:
    """Return the tokens of a text; an estimate from 100,000 characters on."""
    return (counter if len(text) <= COUNTED else ESTIMATE).count(text)


def count_part(part: Part, counter: Counter = ESTIMATE) -> int:
    """Count the tokens of a part."""
    match part:
        case TextPart(text=text, raw=raw) if raw:
            return measure(text, counter) + measure(raw, counter)
        case TextPart(text=text) | RefusalPart(text=text):
            return measure(text, counter)
        case ReasoningPart(text=text, encrypted=encrypted):
            # Its signature is checked and not read: nothing is billed for it.
            return measure(text, counter) + count(encrypted)
        case ToolCall(name=name, arguments=arguments, raw=raw):
            return (
                measure(name, counter) + measure(arguments, counter) + (measure(raw, counter) if raw else 0)
            )
        case ProviderPart(raw=raw):
            return measure(raw, counter)
        case ImagePart() | FilePart():
            return IMAGE_TOKENS


def count_parts(parts: Iterable[Part], counter: Counter = ESTIMATE) -> int:
    """Count the tokens of several parts."""
    return sum([count_part(part, counter) for part in parts])


def count_json(value: object, counter: Counter = ESTIMATE) -> int:
    """Count the tokens of a JSON value, written compactly."""
    return counter.count(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def has_schema(value: object) -> bool:
    """Return whether a parameter holds the JSON Schema of an answer, which the model reads."""
    if not isinstance(value, dict):
        return False
    return not SCHEMAS.isdisjoint(value) or any(map(has_schema, value.values()))
