"""A conversation of the file as one process knows it: its key, and its last known head."""

from __future__ import annotations

from collections import deque

from stenolog.domain.entry import Entry
from stenolog.domain.events import ModeSwitch, Unknown

from .event_rows import Head


class Stream:
    """This process's knowledge of a conversation: its name, its key in the file, and its last known head.

    `key` and `head` are None while unknown. An outdated head does no harm: an append at its position
    conflicts, and the head is read again. `alone`: the conversation is known to be no fork, and never becomes
    one. `recent` holds the last entries that this process appended, once a reader has asked for them (see
    `peek`).
    """

    __slots__ = ("alone", "head", "key", "name", "recent")

    def __init__(self, name: str, key: int | None = None) -> None:
        self.name = name
        self.key = key
        self.head: Head | None = None
        self.alone = False
        self.recent: deque[Entry] | None = None

    def note(self, entry: Entry) -> None:
        """Remember an entry that this process has appended, unless its owner could still change it."""
        event = entry.event
        if self.recent is not None and not isinstance(event, ModeSwitch | Unknown) and not event.meta:
            self.recent.append(entry)
