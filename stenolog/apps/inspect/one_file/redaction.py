"""Redaction of an export: patterns, and values under keys, that must not get into the file."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.errors import CallerError
from stenolog.domain.events import Unknown
from stenolog.domain.redaction import REDACTED, redacted

SHORTEST = 4
"""A value of fewer characters is taken out only under its key: elsewhere it may be any word."""


class Taken(NamedTuple):
    """A text that was removed: where, by which pattern or key, how often, and how the first begins."""

    where: str
    by: str
    times: int
    sample: str


class Redaction:
    """Removes texts from an export, and remembers which; every text goes through `clean`.

    `patterns` are regular expressions; `keys` are those of JSON objects, as for `stenolog.open(redact=…)`:
    their values are removed from everywhere. Raises `CallerError` for an invalid pattern.
    """

    def __init__(self, patterns: Iterable[str] = (), keys: Iterable[str] = ()) -> None:
        self._patterns = [(pattern, _compiled(pattern)) for pattern in patterns]
        self._keys = frozenset(key.casefold() for key in keys)
        self._found: Counter[tuple[str, str]] = Counter()
        self._samples: dict[tuple[str, str], str] = {}
        self.changed: set[int] = set()
        """The positions of entries that have values under the keys."""
        self.cleaned: set[int] = set()
        """The positions of those in whose parts something else was found."""

    def look_for(self, keys: Iterable[str]) -> None:
        """Take out the values under these keys, too."""
        self._keys |= {key.casefold() for key in keys}

    @property
    def removals(self) -> list[Taken]:
        """The texts that have been removed so far, in the order of their discovery."""
        return [Taken(*place, times, self._samples[place]) for place, times in self._found.items()]

    def entries(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return the entries without the values under the keys, which are then removed elsewhere too."""
        if not self._keys:
            return list(entries)
        values = {pair for entry in entries for pair in self._values(entry.event)}
        # The longest first: one may be the beginning of another.
        for key, value in sorted(values, key=lambda pair: (-len(pair[1]), pair)):
            for form in dict.fromkeys(
                (value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
            ):
                if len(form) >= SHORTEST:
                    self._patterns.append((f"key {key}", re.compile(re.escape(form))))
        return [self._without(entry) for entry in entries]

    def without_words(self, entry: Entry) -> Entry:
        """Return an entry in whose parts every text is clean."""
        event: Any = entry.event
        parts = getattr(event, "parts", ()) if self else ()
        cleaned = [self._part(part, f"entry {entry.position}") for part in parts]
        if cleaned == [*parts]:
            return entry
        self.cleaned.add(entry.position)
        return entry._replace(event=replace(event, parts=cleaned))

    def _part(self, part: Any, where: str) -> Any:
        texts = {name: getattr(part, name, None) for name in ("text", "arguments", "raw")}
        return replace(part, **{name: self.clean(each, where) for name, each in texts.items() if each})

    def clean(self, text: str, where: str) -> str:
        """Return a text of the file without what must be removed."""
        for name, pattern in self._patterns:
            # What was taken out already must not be found again.
            pieces = [self._cut(piece, name, pattern, where) for piece in text.split(REDACTED)]
            text = REDACTED.join(pieces)
        return text

    def clean_all(self, value: Any, where: str) -> Any:
        """Return a JSON value in which every text is clean."""
        match value:
            case str():
                return self.clean(value, where)
            case list() | tuple():
                return [self.clean_all(each, where) for each in value]
            case dict():
                return {self.clean(key, where): self.clean_all(each, where) for key, each in value.items()}
            case _:
                return value

    def __bool__(self) -> bool:
        return bool(self._patterns or self._keys)

    def _cut(self, text: str, name: str, pattern: re.Pattern[str], where: str) -> str:
        def note(match: re.Match[str]) -> str:
            self._found[where, name] += 1
            self._samples.setdefault((where, name), _masked(match[0]))
            return REDACTED

        return pattern.sub(note, text)

    def _without(self, entry: Entry) -> Entry:
        event = redacted(entry.event, self._keys)
        if event == entry.event:
            return entry
        self.changed.add(entry.position)
        for key, value in sorted(set(self._values(entry.event))):
            self._found[f"entry {entry.position}", f"key {key}"] += 1
            self._samples.setdefault((f"entry {entry.position}", f"key {key}"), _masked(value))
        return entry._replace(event=event)

    def _values(self, event: Any) -> Iterator[tuple[str, str]]:
        if isinstance(event, Unknown):
            return
        texts = [getattr(event, "meta", {})]
        for part in getattr(event, "parts", ()):
            texts += [getattr(part, name, "") for name in ("arguments", "raw", "text")]
        control = getattr(event, "control", None)
        if control is not None:
            texts.append(control.arguments)
        for each in texts:
            yield from self._under_keys(_parsed(each))

    def _under_keys(self, value: Any) -> Iterator[tuple[str, str]]:
        match value:
            case dict():
                for key, inner in value.items():
                    if key.casefold() in self._keys and inner is not None:
                        yield from ((key, leaf) for leaf in _leaves(inner))
                    else:
                        yield from self._under_keys(inner)
            case list():
                for inner in value:
                    yield from self._under_keys(inner)
            case _:
                pass


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise CallerError(f"expected a regular expression, found {pattern!r:.60}: {error}") from error
    if expression.search("") is not None:
        raise CallerError(f"{pattern!r:.60} is found in an empty text, so it would take out everything")
    return expression


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if not value.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _leaves(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for inner in value.values():
                yield from _leaves(inner)
        case list():
            for inner in value:
                yield from _leaves(inner)
        case bool() | None:
            pass
        case _:
            yield str(value)


def _masked(found: str) -> str:
    """Return the beginning and the length of a text: enough to recognise it, too little to use it."""
    shown = found[: min(3, len(found) // 4)]
    return f"{shown}… ({len(found)} characters)"
