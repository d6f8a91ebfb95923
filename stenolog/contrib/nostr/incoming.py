"""Events from a relay, grouped by conversation and appended as an import does."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from threading import Lock

from stenolog import Conversation, Log
from stenolog.errors import PositionNotFoundError
from stenolog.importers import Imported, JsonLinesReader, Record, SourceConversation, import_conversations

from .converter import Nostr, Whole
from .events import PROFILE, NostrEvent, roots_of
from .outgoing import USER, Outgoing, Signer
from .participants import people

LOGGER = logging.getLogger("stenolog.chats")
OPENING = ":conversation:settings"
"""The end of the id of the entry that an import begins a conversation with; the root's id is before it."""


class Incoming:
    """Events on their way into the log: `add` queues them, `append` writes the new ones.

    `conversations` are the log's, by root id; `keys` those of authors here. One thread adds, another appends.
    """

    def __init__(self, log: Log, source: str, keys: Mapping[str, Signer]) -> None:
        self.log = log
        self.source = source
        self.conversations: dict[str, Conversation] = {}
        self._keys = keys
        self._authors = {signer.pubkey for signer in keys.values()}
        self._agents = {signer.pubkey: name for name, signer in keys.items() if name != USER}
        self._outgoing: dict[str, Outgoing] = {}
        self._events: dict[str, NostrEvent] = {}
        self._profiles: dict[str, NostrEvent] = {}
        self._fresh: set[str] = set()
        self._asked: set[str] = set()
        self._lock, self._making = Lock(), Lock()

    def add(self, event: NostrEvent) -> None:
        """Take an event that was checked."""
        with self._lock:
            if event.kind == PROFILE:
                self._profiles[event.id] = event
            elif self._events.setdefault(event.id, event) is event:
                self._fresh.add(event.id)

    @property
    def roots(self) -> set[str]:
        """Known conversations' root ids."""
        with self._lock:
            return {*self.conversations, *roots_of(self._events).values()}

    @property
    def authors(self) -> set[str]:
        """The keys of those who have said something."""
        with self._lock:
            return {event.pubkey for event in self._events.values()}

    def new_roots(self) -> list[str]:
        """Return all roots if some are new since the last call, else nothing."""
        roots = self.roots
        if roots <= self._asked:
            return []
        self._asked |= roots
        return sorted(roots)

    def root_of(self, conversation: Conversation) -> str:
        """Return a conversation's root id; empty if no import began it."""
        with suppress(PositionNotFoundError):
            id = conversation.entry(1).id
            return id.removesuffix(OPENING) if id.endswith(OPENING) and len(id) == 64 + len(OPENING) else ""
        return ""

    def begun(self, conversation: Conversation) -> str | None:
        """Return the id of a conversation's first event; None if nothing of it may go out."""
        outgoing = Outgoing(self._keys)
        next(outgoing.events(conversation.entries()), None)
        return outgoing.root.id if outgoing.root else None

    def event_at(self, root: str, position: int) -> NostrEvent | None:
        """Return an entry's event; None if it does not go out."""
        with self._making:
            return self._caught_up(root, self.conversations[root]).made.get(position)

    def _caught_up(self, root: str, conversation: Conversation) -> Outgoing:
        outgoing = self._outgoing.setdefault(root, Outgoing(self._keys))
        for entry in conversation.entries(after=outgoing.position):
            outgoing.take(entry)
        return outgoing

    def append(self) -> dict[str, str]:
        """Append the events since the last call.

        Returns the conversations with new events, by root; deleted ones are left out. Raises
        `StoreTimeoutError` and `StoreError`; the events are then kept for the next call.
        """
        with self._lock:
            fresh, events, profiles = {*self._fresh}, dict(self._events), [*self._profiles.values()]
        roots = roots_of(events)
        found: dict[str, str] = {}
        for root in dict.fromkeys(roots[id] for id in fresh):
            known = {id: event for id, event in events.items() if roots[id] == root}
            if name := self._append(root, known, profiles):
                found[root] = name
        with self._lock:
            self._fresh -= fresh
        return found

    def _append(self, root: str, events: dict[str, NostrEvent], profiles: list[NostrEvent]) -> str:
        """Append a conversation's new events; return its name, empty if deleted."""
        while True:
            conversation = self.conversations.get(root) or self.log[root]
            before = conversation.position
            found = self._import(root, conversation, events, profiles)
            if found is None:
                return ""
            self.conversations[root] = self.log[found.name]
            if not found.failed:
                return found.name
            # The team may have written meanwhile: then the events have to stand behind that.
            if self.conversations[root].position == before:
                LOGGER.warning("%s: %s: %s", self.source, found.name, found.failed)
                return found.name

    def _import(
        self, root: str, conversation: Conversation, given: dict[str, NostrEvent], profiles: list[NostrEvent]
    ) -> Imported | None:
        with self._making:
            outgoing = self._caught_up(root, conversation)
            events = {**given, **{event.id: event for event in outgoing.made.values()}}
            known = {event.id: at for at, event in outgoing.made.items()}
            known |= {
                id: at for id in given.keys() - known.keys() if (at := self._said_here(given[id], outgoing))
            }
        whole = Whole(events, people([*profiles, *events.values()], self._agents), {}, known)
        records = [Record(str(nth), {"id": id}) for nth, id in enumerate(events, 1)]
        source = SourceConversation(root, records, partial(Nostr, root=root, whole=whole))
        reading = JsonLinesReader(agents=self._agents)
        is_named = conversation.name != root and conversation.name in self.log
        name = conversation.name if is_named else None
        report = import_conversations(
            self.log, iter([source]), reading, source=self.source, format="nostr", name=name, unique=True
        )
        return next(iter(report.conversations), None)

    def _said_here(self, event: NostrEvent, outgoing: Outgoing) -> int | None:
        """Return the position of a local author's event; None if unknown.

        Its id differs if other keys were known when it was made. Of erased words only the time is known, and
        they must not come back.
        """
        if event.pubkey not in self._authors:
            return None
        said = (event.pubkey, event.created_at, event.content)
        same = (
            at for at, made in outgoing.made.items() if (made.pubkey, made.created_at, made.content) == said
        )
        return next(same, outgoing.gone.get(event.created_at))
