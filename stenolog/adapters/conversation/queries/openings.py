"""Openings of conversations: the first event, and the program that it comes from."""

from __future__ import annotations

from stenolog.adapters.store.reading.handle import StreamHandle
from stenolog.domain.events import Event
from stenolog.domain.values import Origin


def opening_of(conversation: StreamHandle) -> Event | None:
    """Return the event that a conversation opens with; None of an empty one."""
    entries = conversation.entries(at=min(1, conversation.position))
    return next((entry.event for entry in entries), None)


def origin_of(conversation: StreamHandle) -> Origin | None:
    """Return where a conversation was imported or recorded from; None where stenolog wrote it."""
    source = getattr(opening_of(conversation), "source", None)
    return source if isinstance(source, Origin) else None
