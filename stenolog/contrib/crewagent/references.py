"""References to entries: ids of messages and settings, and positions in events by these."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

from stenolog.errors import InvalidEventError
from stenolog.events import LONGEST_NAME, UNCHANGED, Known, ModeSwitch, check_name, dump_event
from stenolog.importers import Json, Record, as_dict, as_list, as_str, key_of, position_ranges

from .schema import JOIN, OURS, SETTINGS, SYSTEM, Message

OPENING = "settings"
MODE = "mode"
ROOM = 20
"""Characters of an id that are left for a suffix."""


def ids_of(records: Sequence[Record]) -> dict[str, str]:
    """Return each message's entry id by its number: its own if free, else `#number`.

    An id made up for the settings before a message is no other message's.
    """
    wanted = {record.line: _stated_id(record.value) or f"#{record.line}" for record in records}
    used: set[str] = set()
    reserved = {made_up(id, what) for id in wanted.values() for what in (OPENING, MODE, JOIN)}
    found = {}
    for line, id in wanted.items():
        if id in reserved or id in used:
            id = f"#{line}"
        while id in used:
            id += "'"
        used.add(id)
        found[line] = id
    return found


def made_up(id: str, what: str) -> str:
    """Return the id of the settings that come before a message."""
    if len(id) > LONGEST_NAME - ROOM:
        id = f"{id[:100]}-{sha256(id.encode()).hexdigest()[:32]}"
    return f"{id}:{what}"


def _stated_id(message: Json) -> str:
    """Return a message's or an export's id; empty if invalid."""
    fields = as_dict(message)
    id = as_dict(fields.get(OURS)).get("id", fields.get("id"))
    own = str(id) if isinstance(id, int) else as_str(id)
    try:
        return check_name(own, what="id")
    except InvalidEventError:
        return key_of(own)


NEAR = 50
"""The number of entries named before the beginning of the context: one of them will still be there."""


def with_ids(fields: Message, ids: Sequence[str]) -> Message:
    """Return an event's fields with ids for positions; `ids` are those of earlier entries.

    A position without an entry stays a number.
    """
    return {name: _with_ids(name, value, ids) for name, value in fields.items()}


def placed(fields: Message, positions: Mapping[str, int]) -> Message:
    """Return the fields of `named` with positions for ids, without those that have none."""
    found = {name: _placed(name, value, positions) for name, value in fields.items()}
    return {name: value for name, value in found.items() if value is not None or fields[name] is None}


def is_made(event: Known) -> bool:
    """Return whether an import made the event from no message."""
    source = event.source
    return source is not None and source.system == SYSTEM and source.role in (SETTINGS, JOIN)


class Trail:
    """A digest of the entries up to each position, equal in every log that has the same."""

    def __init__(self) -> None:
        self._digests = [""]

    def note(self, event: Known, id: str, position: int) -> None:
        """Note one more entry."""
        if is_made(event) and isinstance(event, ModeSwitch):  # what the index tells may change
            event = replace(event, meta={}, title=UNCHANGED, source=None)
        topic, payload = dump_event(event)
        whole = [self._digests[-1], position, id, topic, json.loads(payload)]
        self._digests.append(sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest())

    def at(self, position: int) -> str:
        """Return the digest of the entries so far, up to a position."""
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


def _spans(value: Json, positions: Mapping[str, int]) -> list[Json]:
    if not isinstance(value, list):
        return [value]
    return [
        {"first": span.first, "last": span.last}
        for span in position_ranges(_existing_positions(value, positions), set())
    ]


def _existing_positions(value: Json, positions: Mapping[str, int]) -> list[int]:
    return [positions[id] for id in as_list(value) if isinstance(id, str) and id in positions]
