"""The ids of entries: those that messages have, and those of the settings that no message is about."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from stenolog.errors import InvalidEventError
from stenolog.events import LONGEST_NAME, check_name
from stenolog.importers import Json, Record, as_dict, as_str, key_of

from .schema import OURS

OPENING = "settings"
MODE = "mode"
ROOM = 20
"""Characters of an id that are left for what is put behind it."""


def ids_of(records: Sequence[Record]) -> dict[str, str]:
    """The entry id of each message by its number: its own, where it is one that nobody has; else `#number`.

    An id that is made up for the settings before a message is no other message's.
    """
    wanted = {record.line: _stated_id(record.value) or f"#{record.line}" for record in records}
    used: set[str] = set()
    reserved = {made_up(id, what) for id in wanted.values() for what in (OPENING, MODE)}
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
    """The id of the settings that come before a message."""
    if len(id) > LONGEST_NAME - ROOM:
        id = f"{id[:100]}-{sha256(id.encode()).hexdigest()[:32]}"
    return f"{id}:{what}"


def _stated_id(message: Json) -> str:
    """Return the id of a message, or the one that an export added; empty if it is no valid id."""
    told = as_dict(message)
    id = as_dict(told.get(OURS)).get("id", told.get("id"))
    own = str(id) if isinstance(id, int) else as_str(id)
    try:
        return check_name(own, what="id")
    except InvalidEventError:
        return key_of(own)
