"""Shared parts of the frameworks: the entries one is given, and patches between plain and original JSON.

    apply_patch(plain, make_patch(plain, given)) == given

An adapter makes the plain form of an event, and stores beside the event only its difference from the given
form. So fields that a framework adds to its messages later come back unchanged, and no text is stored twice.

A difference is one of:

    {"is": value}                               replace the value
    {"json": true}                              parse the text as JSON
    {"in": {key: difference}, "less": [key]}    change some keys of an object, remove others, keep the rest

A list of the same length is changed like an object, with its indices as text for keys.

An entry that a framework takes back is hidden, not deleted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from stenolog.adapters.importers.conversion.steps import merged
from stenolog.domain.base.model import clean, deep_copy_json
from stenolog.domain.entry import Entry
from stenolog.domain.settings import Settings
from stenolog.domain.values import PositionRange
from stenolog.projections.messages.json_fields import compact_json
from stenolog.projections.views.context import read_context
from stenolog.projections.views.tool_pairs import pair

Json: TypeAlias = Any
Difference: TypeAlias = dict[str, Any]
"""Empty if the two are the same."""


def make_patch(plain: Json, given: Json) -> Difference:
    """Return the difference that turns `plain` into `given`; numbers and booleans are different."""
    if _text(plain) == _text(given):
        return {}
    if isinstance(plain, dict) and isinstance(given, dict):
        places = {key: make_patch(plain[key], value) for key, value in given.items() if key in plain}
        places |= {key: {"is": value} for key, value in given.items() if key not in plain}
        less = [key for key in plain if key not in given]
    elif isinstance(plain, list) and isinstance(given, list) and len(plain) == len(given):
        places = {str(nth): make_patch(plain[nth], value) for nth, value in enumerate(given)}
        less = []
    else:
        return {"json": True} if plain == compact_json(given) else {"is": given}
    found = {"in": {key: each for key, each in places.items() if each}, "less": less}
    return {name: kept for name, kept in found.items() if kept}


def apply_patch(plain: Json, found: Difference) -> Json:
    """Return the given form again; neither argument is changed, nor shared."""
    if "is" in found:
        return deep_copy_json(found["is"])
    if "json" in found:
        return json.loads(plain)
    places, less = found.get("in", {}), found.get("less", ())
    if isinstance(plain, list):
        return [apply_patch(value, places.get(str(nth), {})) for nth, value in enumerate(plain)]
    if not isinstance(plain, dict):
        return plain
    kept = {key: apply_patch(value, places.get(key, {})) for key, value in plain.items() if key not in less}
    return kept | {key: deep_copy_json(each["is"]) for key, each in places.items() if key not in plain}


def whole_text(value: Json) -> Json:
    """Return the value with U+FFFD for half a surrogate pair, which may be in a file name but in no log."""
    match value:
        case str():
            return clean(value)
        case list():
            return [whole_text(item) for item in value]
        case dict():
            return {whole_text(key): whole_text(item) for key, item in value.items()}
        case _:
            return value


def _text(value: Json) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


class InContext(NamedTuple):
    """The entries in context, an edit in the place of what it edits; `edited` says what each edit is of."""

    entries: list[Entry]
    edited: dict[int, list[int]]


def context_of(entries: Sequence[Entry], settings: Settings) -> InContext:
    """Return the entries since the last reset, at least, that are in context under these settings."""
    now = read_context(entries, settings, pair(()), ())
    in_context = (entry for entry in entries if entry.position not in now.out)
    edited: dict[int, list[int]] = {}
    for old, new in now.replaced_by.items():
        edited.setdefault(new, []).append(old)
    return InContext(
        sorted(in_context, key=lambda entry: now.edits.get(entry.position, entry.position)), edited
    )


def hidden(settings: Settings, *more: PositionRange) -> list[PositionRange]:
    """Return the spans that are hidden once these are, too."""
    return [*merged([*settings.hides, *more])]
