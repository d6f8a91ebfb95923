"""First difference between two JSON values.

>>> first_difference({"a": [1, 2]}, {"a": [1, 3]})
JsonDifference(pointer='/a/1', expected='2', found='3')
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

NOTHING = object()
LONGEST = 80


class JsonDifference(NamedTuple):
    """A JSON pointer (RFC 6901), and what stands there on either side, as shortened JSON."""

    pointer: str
    expected: str
    found: str


def first_difference(expected: Any, found: Any, pointer: str = "") -> JsonDifference | None:
    """The first place, in document order, where two decoded JSON values differ; None where they are equal."""
    if isinstance(expected, dict) and isinstance(found, dict):
        keys = [*expected, *(key for key in found if key not in expected)]
        pairs = [(key, expected.get(key, NOTHING), found.get(key, NOTHING)) for key in keys]
    elif isinstance(expected, list) and isinstance(found, list):
        longest = max(len(expected), len(found))
        pairs = [(str(at), _item(expected, at), _item(found, at)) for at in range(longest)]
    elif type(expected) is type(found) and expected == found:
        return None
    else:
        return JsonDifference(pointer, preview(expected), preview(found))
    for step, one, other in pairs:
        if different := first_difference(one, other, f"{pointer}/{_escaped(step)}"):
            return different
    return None


def preview(value: Any) -> str:
    """A value as JSON, shortened where it is long."""
    if value is NOTHING:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _item(items: list[Any], at: int) -> Any:
    return items[at] if at < len(items) else NOTHING


def _escaped(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")
