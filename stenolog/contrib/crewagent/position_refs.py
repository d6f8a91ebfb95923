"""Positions in events, which another log may not have: by the ids of their entries, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

from stenolog.events import UNCHANGED, Known, ModeSwitch, dump_event
from stenolog.importers import Json, as_list, position_ranges

from .schema import SETTINGS, SYSTEM, Message

NEAR = 50
"""The number of entries named before the beginning of the context: one of them will still be there."""


def with_ids(fields: Message, ids: Sequence[str]) -> Message:
    """The fields of an event with ids for positions; `ids` are those of the entries before it.

    A position that had no entry yet stays a number.
    """
    return {name: _with_ids(name, value, ids) for name, value in fields.items()}


def placed(fields: Message, positions: Mapping[str, int]) -> Message:
    """Return the fields from `named` with positions for ids; fields without a position are left out."""
    found = {name: _placed(name, value, positions) for name, value in fields.items()}
    return {name: value for name, value in found.items() if value is not None or fields[name] is None}


def is_made(event: Known) -> bool:
    """Return whether an import made the event from no message."""
    return event.source is not None and (event.source.system, event.source.role) == (SYSTEM, SETTINGS)


class Trail:
    """A digest of what stands up to each position, the same in every log that holds the same."""

    def __init__(self) -> None:
        self._digests = [""]

    def note(self, event: Known, id: str, position: int) -> None:
        """One more entry."""
        if is_made(event) and isinstance(event, ModeSwitch):  # what the index tells may change
            event = replace(event, meta={}, title=UNCHANGED, source=None)
        topic, payload = dump_event(event)
        whole = [self._digests[-1], position, id, topic, json.loads(payload)]
        self._digests.append(sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest())

    def at(self, position: int) -> str:
        """The digest of the entries so far, up to a position."""
        return self._digests[min(position, len(self._digests) - 1)]


def _with_ids(name: str, value: Json, ids: Sequence[str]) -> Json:
    match name, value:
        case "cause" | "replaces", int() if 1 <= value <= len(ids):
            return ids[value - 1]
        case "context_from", int() if 1 <= value <= len(ids) + 1:
            return list(ids[max(value - 1 - NEAR, 0) : value - 1])
        case "covers" | "hides", list():
            return [_ids_in(span["first"], span["last"], ids) or span for span in value]
        case _:
            return value


def _ids_in(first: int, last: int, ids: Sequence[str]) -> list[str]:
    return list(ids[first - 1 : last]) if last <= len(ids) else []


def _placed(name: str, value: Json, positions: Mapping[str, int]) -> Json:
    match name, value:
        case "cause" | "replaces", str():
            return positions.get(value)
        case "context_from", list():
            before = _existing_positions(value, positions)
            return max(before, default=0) + 1 if before or not value else None
        case "covers" | "hides", list():
            return [span for each in value for span in _spans(each, positions)]
        case _:
            return value


def _spans(told: Json, positions: Mapping[str, int]) -> list[Json]:
    """The positions of a list of ids; what is no list stays what it is."""
    if not isinstance(told, list):
        return [told]
    return [
        {"first": span.first, "last": span.last}
        for span in position_ranges(_existing_positions(told, positions), set())
    ]


def _existing_positions(told: Json, positions: Mapping[str, int]) -> list[int]:
    return [positions[id] for id in as_list(told) if isinstance(id, str) and id in positions]
