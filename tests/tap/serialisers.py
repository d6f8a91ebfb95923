"""The ways in which programs write JSON: the same value, other bytes."""

from __future__ import annotations

import json
from typing import Any


def compact(value: Any) -> bytes:
    """Write UTF-8 without blanks, as Node and most SDKs do; half a surrogate pair is escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return "".join(_escaped(one) if "\ud800" <= one <= "\udfff" else one for one in text).encode()


def spaced(value: Any) -> bytes:
    """Write ASCII with blanks, as Python does."""
    return json.dumps(value).encode()


def go(value: Any) -> bytes:
    """Write `<`, `>` and `&` as escapes, as Go does."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for one in "<>&\u2028\u2029":
        text = text.replace(one, _escaped(one))
    return text.encode()


def node(value: Any) -> bytes:
    """Write whole floats without a point, as JavaScript does."""
    return compact(_whole(value))


def pretty(value: Any) -> bytes:
    """Write lines with an indent, as people do by hand."""
    return json.dumps(value, ensure_ascii=False, indent=2).encode()


def twice(value: Any) -> bytes:
    """Write one key twice, and numbers in forms that no writer of JSON makes."""
    text = compact(value).decode()
    return (text[:-1] + ',"max_tokens":1.0e3,"top_k":-0,"max_tokens":1000}').encode()


def _escaped(one: str) -> str:
    return f"\\u{ord(one):04x}"


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    if isinstance(value, dict):
        return {key: _whole(inner) for key, inner in value.items()}
    return [_whole(inner) for inner in value] if isinstance(value, list) else value


STYLES = {one.__name__: one for one in (compact, spaced, go, node, pretty, twice)}
