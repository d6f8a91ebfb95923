"""Secrets in server-sent events, also those of which each event has a few letters.

>>> redacted_stream('data: {"d":"AKIAIOSFOD"}\\n\\ndata: {"d":"NN7EXAMPLE."}\\n')
('data: {"d":"[redacted aws-access-key]"}\\n\\ndata: {"d":"."}\\n', ('aws-access-key',))
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from .secrets import redacted, secrets_in

DATA = "data:"


class _Place(NamedTuple):
    """A text within an event: the line of the event, and the object or list that has the text by a key."""

    line: int
    container: Any
    key: Any


def redacted_stream(text: str) -> tuple[str, tuple[str, ...]]:
    """Return events with the kind of each secret in its place, and the kinds, each once.

    Texts at the same place of several events are one text: a stream sends an answer in pieces.
    """
    lines, events, runs = text.split("\n"), dict[int, Any](), dict[tuple[Any, ...], list[_Place]]()
    for number, line in enumerate(lines):
        if line.startswith(DATA) and isinstance(event := _json(line[len(DATA) :]), dict | list):
            events[number] = event
            for path, container, key in _texts(event):
                runs.setdefault(path, []).append(_Place(number, container, key))
    kinds: dict[str, None] = {}
    changed = {number for places in runs.values() for number in _redact_run(places, kinds)}
    for number in changed:
        end = "\r" if lines[number].endswith("\r") else ""
        lines[number] = f"{DATA} {json.dumps(events[number], ensure_ascii=False, separators=(',', ':'))}{end}"
    found, more = redacted("\n".join(lines))
    return found, tuple(dict.fromkeys([*kinds, *more]))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _texts(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    """Yield each text in JSON: the path to it, and what has it by which key."""
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(each, str):
            yield (*path, key), value, key
        elif isinstance(each, dict | list):
            yield from _texts(each, (*path, key))


def _redact_run(places: list[_Place], kinds: dict[str, None]) -> Iterator[int]:
    """Replace the secrets in texts that follow each other; yield the lines of those that change."""
    texts = [place.container[place.key] for place in places]
    for kind, first, end in reversed([*secrets_in("".join(texts))]):
        kinds[kind] = None
        at = 0
        for place, text in zip(places, texts, strict=True):
            begin, stop = max(first - at, 0), min(end - at, len(text))
            if begin < stop:
                label = f"[redacted {kind}]" if at + begin == first else ""
                now = place.container[place.key]
                place.container[place.key] = now[:begin] + label + now[stop:]
                yield place.line
            at += len(text)
