"""Entries of a conversation from the last to the first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from stenolog.domain.entry import Entry

FIRST, PAGE = 16, 256
"""The entries of the first page, and the most of a later one: what is looked for is often close by."""


class EntriesInOrder(Protocol):
    """A conversation, as far as it is read here."""

    def entries(self, after: int = 0, at: int | None = None) -> Iterable[Entry]: ...


def backwards(conversation: EntriesInOrder, head: int) -> Iterator[Entry]:
    """Yield the entries from position `head` to the first, read a page at a time."""
    size = FIRST
    while head > 0:
        yield from reversed(list(conversation.entries(after=max(0, head - size), at=head)))
        head -= size
        size = min(2 * size, PAGE)
