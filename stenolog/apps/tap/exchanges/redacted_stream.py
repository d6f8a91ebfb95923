"""Secrets in streams of events, also if each event has only a few letters of one.

>>> redacted_stream('data: {"d":"AKIAIOSFOD"}\\n\\ndata: {"d":"NN7EXAMPLE."}\\n')
('data: {"d":"[redacted aws-access-key]"}\\n\\ndata: {"d":"."}\\n', ('aws-access-key',))
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, NamedTuple

from .secrets import redacted, secrets_in

_ENDS = re.compile(r"(\r\n|\r|\n)")
_PREFIX = re.compile(r"\ufeff?(?:data: ?)?")


class _Place(NamedTuple):
    """A text in an event: the event's line, and the object or list that has it under a key."""

    line: int
    container: Any
    key: Any


def redacted_stream(text: str) -> tuple[str, tuple[str, ...]]:
    """Return events with the kind of each secret in its place, and the kinds, each once.

    Texts at the same place of several events are one text. Events are server-sent ones, lines of JSON, or the
    items of a list.
    """
    lines, events = _events(text)
    runs, of_index = dict[tuple[Any, ...], list[_Place]](), dict[tuple[Any, ...], list[_Place]]()
    for number, (_, event) in events.items():
        for path, indexes, container, key in _texts(event):
            place = _Place(number, container, key)
            runs.setdefault(path, []).append(place)
            of_index.setdefault((path, indexes), []).append(place)
    apart = [places for (path, _), places in of_index.items() if len(places) < len(runs[path])]
    kinds: dict[str, None] = {}
    for number in {number for places in (*runs.values(), *apart) for number in _redact_run(places, kinds)}:
        prefix, event = events[number]
        lines[number] = prefix + json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    found, more = redacted("".join(lines))
    return found, tuple(dict.fromkeys([*kinds, *more]))


def _events(text: str) -> tuple[list[str], dict[int, tuple[str, Any]]]:
    """Return lines, with their ends, and the events' prefixes and JSON."""
    if text[:1] == "[" and isinstance(whole := _json(text), list):
        return [text], {0: ("", whole)}
    lines, events = _ENDS.split(text), dict[int, tuple[str, Any]]()
    for number, line in enumerate(lines):
        prefix = _PREFIX.match(line)[0]  # type: ignore[index]  # it matches everywhere
        # One line of JSON alone is no stream: its bytes stay as they are.
        if (
            (prefix or len(lines) > 1)
            and line
            and isinstance(event := _json(line[len(prefix) :]), dict | list)
        ):
            events[number] = prefix, event
    return lines, events


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _texts(
    value: Any, path: tuple[Any, ...] = (), indexes: tuple[int, ...] = (), *, is_inner: bool = False
) -> Iterator[tuple[tuple[Any, ...], tuple[int, ...], Any, Any]]:
    """Yield each text in JSON: its path, the indexes beside it, container and key."""
    is_list = isinstance(value, list)
    if not is_list:
        named = (each for key, each in value.items() if key.endswith("index") and isinstance(each, int))
        indexes = (*indexes, *named)
    for key, each in enumerate(value) if is_list else value.items():
        place = path if is_list and not is_inner else (*path, key)
        if isinstance(each, str):
            yield place, indexes, value, key
        elif isinstance(each, dict | list):
            yield from _texts(each, place, indexes, is_inner=True)


def _redact_run(places: list[_Place], kinds: dict[str, None]) -> Iterator[int]:
    """Replace the secrets in consecutive texts; yield the lines that change."""
    texts = [place.container[place.key] for place in places]
    begins = [*accumulate(map(len, texts), initial=0)]
    found: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
    for kind, first, end in secrets_in("".join(texts)):
        kinds[kind] = None
        begun = bisect_right(begins, first) - 1
        for at in range(begun, bisect_left(begins, end)):
            label = f"[redacted {kind}]" if at == begun else ""
            found[at].append((max(first - begins[at], 0), end - begins[at], label))
    for at, cuts in found.items():
        pieces, last = list[str](), 0
        for begin, stop, label in cuts:
            pieces += [texts[at][last:begin], label]
            last = stop
        line, container, key = places[at]
        container[key] = "".join([*pieces, texts[at][last:]])
        yield line
