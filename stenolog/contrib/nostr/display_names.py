"""Display names in a Nostr conversation: each is unique, and never changes."""

from __future__ import annotations

from collections.abc import Sequence

from stenolog.importers import ExistingLog

from .events import NostrEvent
from .participants import SHORT, People


class Who:
    """The names of those who speak in a conversation, or are spoken to.

    An agent that has spoken in the log keeps its name. Of two who want the same one it is for whom the caller
    gave it to, else for who began the conversation and whom that one speaks to, else for the first: anybody
    may date an event as early as they like. The user is the person who began it, or else the first one to
    speak in it: `user` is that key. Other persons are authors by their names.
    """

    def __init__(self, events: Sequence[NostrEvent], root: str, people: People, log: ExistingLog) -> None:
        self._people = people
        self._agents: dict[str, str] = {}
        for event in events:
            if (held := log.answers.get(event.id)) is not None:
                self._agents[event.pubkey] = held.agent
        self._names = dict(self._agents)
        self.user = self._began(events, root)
        theirs = [event for event in events if event.id == root or event.pubkey == self.user]
        told = (pubkey for event in theirs for pubkey in (event.pubkey, *event.values("p")))
        for pubkey in (*people.given, *told):
            self.name(pubkey)

    def agent(self, pubkey: str) -> str:
        """The name of an agent; empty for whoever is none."""
        if pubkey not in self._agents and pubkey in self._people.agents:
            self._agents[pubkey] = self._unique(pubkey, self._people.agents[pubkey])
        return self._agents.get(pubkey, "")

    def author(self, pubkey: str) -> str:
        """The name of a person, as the author of a message; empty for the user."""
        return "" if pubkey == self.user else self.name(pubkey)

    def name(self, pubkey: str) -> str:
        """The name of an agent or a person; empty for whoever is not known."""
        if name := self.agent(pubkey):
            return name
        known = self._people.persons.get(pubkey)
        return "" if known is None else self._unique(pubkey, known)

    def _unique(self, pubkey: str, name: str) -> str:
        if pubkey not in self._names:
            taken = name in self._names.values()
            self._names[pubkey] = f"{name}-{pubkey[:SHORT]}" if taken else name
        return self._names[pubkey]

    def _began(self, events: Sequence[NostrEvent], root: str) -> str:
        """The person who began it: the author of the root, whom comments name too (`P`)."""
        first = [event.pubkey for event in events if event.id == root]
        named = [event.value("P") for event in events if event.has("P")]
        there = (*first, *named, *(event.pubkey for event in events))
        agents = self._agents.keys() | self._people.agents.keys()
        return next((pubkey for pubkey in there if pubkey and pubkey not in agents), "")
