"""Live state of a conversation, and its queue of messages.

A queued message is in the log, but only the timeline shows it. When all lanes are at rest, it is appended
again, in place of that entry.
"""

from __future__ import annotations

from dataclasses import replace

from stenolog.adapters.conversation.log import Conversation, extend
from stenolog.adapters.conversation.queries import folds
from stenolog.adapters.store.contract.values import InTransaction
from stenolog.domain.entry import Entry, NewEntry
from stenolog.domain.erasure import erasure_of
from stenolog.domain.events import Event, ModeSwitch, Unknown, UserMessage
from stenolog.domain.lanes.limits import UsageByLane, track_usage
from stenolog.domain.lanes.state import State, blocked_error
from stenolog.domain.settings import Settings
from stenolog.projections.fold import Fold

# A restart reads no more entries than these, and few writes are made for it.
KEEP_EVERY = 512
"""The number of entries after which the folds' states are written."""
WATCH = Fold("watch", UsageByLane(), track_usage, version=6, state=UsageByLane)


class LiveState:
    """State, settings, accounts and queue of a conversation; `fresh` are entries not yet reported."""

    state: State
    settings: Settings
    accounts: UsageByLane
    queue: tuple[int, ...]
    also: InTransaction | None = None
    """Called in the transaction of each append; see `Conversation.extend`."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.fresh: list[Entry] = []
        self._folds = folds.open_folds(
            conversation, (folds.STATE, folds.SETTINGS, folds.persistent(WATCH), folds.persistent(queue))
        )
        self._unpack()
        self._kept = self.state.position

    def catch_up(self) -> None:
        """Take in the entries that any process has appended since."""
        for entry in self.conversation.entries(after=self.state.position):
            self.take(entry)
        # Behind an entry that this release does not know, nothing can be decided.
        if self.state.blocked is not None:
            raise blocked_error(self.state.blocked)

    def marked(self, event: Event) -> Event:
        """Return the event with the active workflow run and node."""
        run = self.settings.active_run
        # A switch sets the run itself.
        if run is None or isinstance(event, ModeSwitch | Unknown) or event.run:
            return event
        return replace(event, run=run.id, node=run.node)

    def append(self, *events: Event | NewEntry, fence: int | None = None) -> list[Entry]:
        """Append at this state's position, and take the entries in.

        Raises `VersionConflictError`, `ClaimLostError`.
        """
        before = self.state.position
        entries = extend(self.conversation, events, before, fence, self.also)
        for entry in entries:
            # An entry of a known id stands at its earlier position, and was taken in before.
            if entry.position > before:
                self.take(entry)
        return entries

    def take(self, entry: Entry) -> None:
        """Take the next entry in."""
        write = entry.position - self._kept >= KEEP_EVERY
        for fold in self._folds:
            fold.add(entry)
            if write:
                fold.finish(entry, at_head=True)
        self._unpack()
        self.fresh.append(entry)
        if write:
            self._kept = entry.position

    def _unpack(self) -> None:
        state, settings, accounts, queue = self._folds
        self.state, self.settings = state.state, settings.state
        self.accounts, self.queue = accounts.state, queue.state


QUEUED = "queued"


def _evolve(waiting: tuple[int, ...], entry: Entry) -> tuple[int, ...]:
    match entry.event:
        # Out of context, so no lane hears it while it waits.
        case UserMessage(in_context=False, tags=tags) if QUEUED in tags:
            return (*waiting, entry.position)
        case UserMessage(replaces=int(position)) if position in waiting:
            return tuple(other for other in waiting if other != position)
        # An erased message is not said when its time comes.
        case UserMessage() as message if erasure := erasure_of(message):
            return tuple(other for other in waiting if other not in erasure.positions)
        case _:
            return waiting


NOBODY: tuple[int, ...] = ()
queue = Fold("queue", NOBODY, _evolve, version=2, state=tuple[int, ...])
"""The positions of the messages that wait for the lanes to come to rest, the oldest first."""


def enqueue(message: UserMessage) -> UserMessage:
    """Return the message as it waits."""
    return replace(message, in_context=False, tags=(*message.tags, QUEUED))


def dequeue(entry: Entry) -> UserMessage:
    """Return the queued message as it is now said."""
    waited = entry.event
    assert isinstance(waited, UserMessage), "only messages wait"
    tags = tuple(tag for tag in waited.tags if tag != QUEUED)
    return replace(waited, in_context=True, tags=tags, replaces=entry.position)
