"""Events of one conversation to entries of the log."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from math import inf
from typing import Any, NamedTuple

from stenolog.errors import DuplicateIdError
from stenolog.events import AssistantMessage, Known, LlmError, Usage, UserMessage
from stenolog.importers import EventWriter, ExistingLog, Record, SettingsWriter, Step, as_time, error_category
from stenolog.parts import ReasoningPart, TextPart

from .events import METADATA, PROFILE, NostrEvent, parent_of
from .participants import People, Who, resolved

SYSTEM = "nostr"
_USAGE = {
    "input": "llm-prompt-tokens",
    "output": "llm-completion-tokens",
    "cache_read": "llm-cached-input-tokens",
    "reasoning": "llm-reasoning-tokens",
}
"""The tags in which TENEX counts tokens."""


_SESSION = re.compile(r"\w[\w.:-]{0,199}")


class Whole(NamedTuple):
    """The contents of a file beyond one conversation: all of its events, the people, titles by root."""

    events: Mapping[str, NostrEvent]
    people: People
    titles: Mapping[str, str]


class Nostr:
    """Takes the events of the conversation that `root` began, and takes them down when all are there.

    In the order of their times; but what the log holds already comes first, as it stands there. What is older
    and comes late stands behind it, and changes neither phase nor title.
    """

    def __init__(self, log: ExistingLog, root: str, whole: Whole) -> None:
        self.writer = EventWriter(SYSTEM, "", log)
        self.ignored: Counter[str] = Counter()
        self.decisions: Counter[str] = Counter()
        self._log = log
        self._root = root
        self._whole = whole
        self._events: list[NostrEvent] = []
        self._setup = SettingsWriter(self.writer, scope="open")
        self._positions: dict[str, int] = {}
        self._latest = self._titled = 0

    def take(self, record: Record) -> list[Step]:
        """Take one more event; it must wait for the others."""
        self._events.append(self._whole.events[record.value["id"]])
        return []

    def end(self) -> list[Step]:
        """Write every message, in order.

        Raises `DuplicateIdError` where the log has another conversation by this name.
        """
        opening = f"{self._root}:conversation"
        if self._log.head and not self.writer.holds(f"{opening}:settings"):
            raise DuplicateIdError(
                f"expected what {self._root} began, found another conversation: name it otherwise"
            )
        events = sorted(self._events, key=self._sort_key)
        self._who = Who(events, self._root, self._whole.people, self._log)
        self._setup.title = self._whole.titles.get(self._root) or None
        for nth, event in enumerate(events):
            self._settle(event, event.id if nth else opening)
            if event.kind != METADATA:
                self._positions[event.id] = self.writer.write(self._message(event), event.id, _at(event))
        return self.writer.drain()

    def _sort_key(self, event: NostrEvent) -> tuple[float, int, str]:
        """Return an event's sort key: the position of its entry or its settings in the log, then its time."""
        ids = (event.id, f"{event.id}:settings")
        held = min(self._log.positions.get(id, inf) for id in ids)
        return held, event.created_at, event.id

    def _settle(self, event: NostrEvent, line: str) -> None:
        """Apply an event's settings: who joins, which model speaks, phase and title."""
        speaker = self._who.agent(event.pubkey)
        for pubkey in [event.pubkey, *event.values("p")]:
            if name := self._who.agent(pubkey):
                self._setup.card(name, persona=self._whole.people.instructions.get(pubkey, ""))
        if speaker and event.value("llm-model"):
            self._setup.card(speaker, model=event.value("llm-model"))
        leads = speaker or event.pubkey == self._who.user
        title = event.value("title") or event.value("subject")
        if title and (leads or event.kind == METADATA) and event.created_at >= self._titled:
            self._setup.title, self._titled = title, event.created_at
        if leads and event.value("phase") and event.created_at >= self._latest:
            self._setup.mode = event.value("phase")
        self._latest = max(self._latest, event.created_at)
        self._setup.settle(line, _at(event))

    def _message(self, event: NostrEvent) -> Known:
        agent = self._who.agent(event.pubkey)
        # Instructions stay words of whoever gives them: as a hand-off they would be the system's.
        words = "\n\n".join(filter(None, (event.content, event.value("phase-instructions"))))
        text = resolved(words, self._quotable, self._who.name)
        common: dict[str, Any] = {
            "meta": {SYSTEM: _other_fields(event, text)},
            "source": self.writer.source(event.id, "agent" if agent else "person", event.id),
        }
        named = dict.fromkeys(map(self._who.agent, event.values("p")))
        to = [name for name in named if name and name != agent]
        if not agent:
            return UserMessage(text=text, author=self._who.author(event.pubkey), to=to, **common)
        common |= {"agent": agent, "cause": self._positions.get(parent_of(event))}
        common |= {"model": event.value("llm-model"), "usage": _usage(event)}
        common["session"] = _session(event)
        if event.has("error"):
            return LlmError(category=error_category(text), message=text, **common)
        parts = (ReasoningPart if event.has("reasoning") else TextPart)(text=text)
        return AssistantMessage(parts=[parts] if text else [], to=to, **common)

    def _quotable(self, id: str) -> str | None:
        """Return an event's author and text; None if the file lacks the event."""
        event = self._whole.events.get(id)
        if event is None or event.kind == PROFILE:
            return None
        return f"{self._who.name(event.pubkey)}: {event.content}"


def _at(event: NostrEvent) -> datetime:
    return as_time(event.created_at)


def _other_fields(event: NostrEvent, text: str) -> dict[str, Any]:
    """Return the other fields of the event, so that it can be rebuilt and checked."""
    rest = {"pubkey": event.pubkey, "kind": event.kind, "tags": [*map(list, event.tags)], "sig": event.sig}
    return rest if text == event.content else {**rest, "content": event.content}


def _session(event: NostrEvent) -> str:
    """Return the session it names, if it is a valid one: it may be used in a command line."""
    session = event.value("claude-session")
    return session if _SESSION.fullmatch(session) else ""


def _usage(event: NostrEvent) -> Usage | None:
    counted = {name: event.value(tag) for name, tag in _USAGE.items()}
    told = {name: int(count) for name, count in counted.items() if count.isdecimal() and len(count) < 16}
    return Usage(**told) if told else None
