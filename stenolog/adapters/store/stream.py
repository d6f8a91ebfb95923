"""A conversation of the file as one process knows it: its key, and its last known head."""

from __future__ import annotations

from .event_rows import Head


class Stream:
    """This process's knowledge of a conversation: its name, its key in the file, and its last known head.

    `key` and `head` are None while unknown. An outdated head does no harm: an append at its position
    conflicts, and the head is read again. `alone`: the conversation is known to be no fork, and never becomes
    one.
    """

    __slots__ = ("alone", "head", "key", "name")

    def __init__(self, name: str, key: int | None = None) -> None:
        self.name = name
        self.key = key
        self.head: Head | None = None
        self.alone = False
