"""Conversations of earlier imports, found again by the id that each has in its file.

So one that was renamed is continued under its new name, and one that was deleted stays deleted. The log keeps
a hash of the id beside the conversation's number, which is never used again.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from stenolog.adapters.store.store_values import Cursor

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Log

PREFIX = "imported "
"""The beginning of the names under which the log notes conversations of earlier imports."""


class Place(NamedTuple):
    """The name of a file's conversation in the log, and the marks by which later imports find it again."""

    name: str
    marks: tuple[str, ...] = ()
    is_deleted: bool = False


class LeftOut(NamedTuple):
    """A conversation that is not imported again, since it was deleted; `mark` is that of its id."""

    name: str
    mark: str


def mark_of(id: str) -> str:
    """Return the name in the log under which a conversation of that id is noted."""
    # A hash, since of a deleted conversation no word stays.
    return f"{PREFIX}{sha256(id.encode(errors='surrogatepass')).hexdigest()}"


def name_now(log: Log, mark: str) -> str | None:
    """Return the name that a conversation of an earlier import has now; None where there is none."""
    key = log.recorder.load_cursor(mark).position
    return log.recorder.name_of(key) if key else None


def is_deleted(log: Log, mark: str) -> bool:
    """Return whether the conversation that was imported under this mark is deleted."""
    key = log.recorder.load_cursor(mark).position
    return key > 0 and log.recorder.name_of(key) is None


def note(log: Log, place: Place) -> None:
    """Note a conversation that the log has without a mark, such as one from its own export."""
    key = log.recorder.find(place.name)
    for mark in place.marks:
        if key is not None and name_now(log, mark) is None:
            log.recorder.save_cursor(mark, Cursor(key))
