"""Queue of messages that a person sends while the agents work, for when they are done.

A queued message is in the log at once, but only the timeline shows it. When all lanes are at rest, it is
appended again, in the place of that entry.
"""

from __future__ import annotations

from dataclasses import replace

from stenolog.adapters.queries import folds
from stenolog.domain.entry import Entry
from stenolog.domain.events import UserMessage
from stenolog.projections.fold import Fold

QUEUED = "queued"


def _evolve(waiting: tuple[int, ...], entry: Entry) -> tuple[int, ...]:
    match entry.event:
        case UserMessage(in_context=False, tags=tags) if QUEUED in tags:
            return (*waiting, entry.position)
        case UserMessage(replaces=int(position)) if position in waiting:
            return tuple(other for other in waiting if other != position)
        case _:
            return waiting


NOBODY: tuple[int, ...] = ()
queue = Fold("queue", NOBODY, _evolve)
"""The positions of the messages that wait for the lanes to come to rest, the oldest first."""
QUEUE = folds.persistent_fold(queue, tuple[int, ...])


def enqueue(message: UserMessage) -> UserMessage:
    """The message as it waits."""
    return replace(message, in_context=False, tags=(*message.tags, QUEUED))


def dequeue(entry: Entry) -> UserMessage:
    """The message that waited, as it is said when its time has come."""
    waited = entry.event
    assert isinstance(waited, UserMessage), "only messages wait"
    tags = tuple(tag for tag in waited.tags if tag != QUEUED)
    return replace(waited, in_context=True, tags=tags, replaces=entry.position)
