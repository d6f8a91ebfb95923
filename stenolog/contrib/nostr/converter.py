"""Events of one conversation as entries of the log.

TENEX's own fields (title, agents' states, phase transitions) are not signed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from math import inf
from typing import Any, NamedTuple

from stenolog import importers
from stenolog.errors import DuplicateIdError
from stenolog.events import AssistantMessage, Known, LlmError, Usage, UserMessage
from stenolog.importers import Json, Record, as_dict, as_int, as_list, as_str, as_time
from stenolog.parts import ReasoningPart, TextPart

from .events import LATEST, METADATA, PROFILE, NostrEvent, depths_of, is_hex, parent_of
from .participants import People, Who, profile_name, resolved

_SESSION = re.compile(r"\w[\w.:-]{0,199}")


class AgentState(NamedTuple):
    """An agent's stored state: events processed, and its Claude Code session."""

    processed: frozenset[str]
    session: str


class Transition(NamedTuple):
    """A phase change, in seconds since 1970; `handoff` is for the next agent."""

    time: int
    mode: str
    handoff: str
    record: dict[str, Any]


class Stored(NamedTuple):
    """The fields of one conversation beside its events."""

    title: str = ""
    root: str = ""
    states: Mapping[str, AgentState] = {}
    transitions: Sequence[Transition] = ()


def stored(document: Mapping[str, Json], ids: Sequence[str]) -> tuple[Stored, Counter[str]]:
    """Return a conversation file's fields, and counts of ignored ones.

    `ids` are its events', in file order.
    """
    read = ("id", "title", "history", "agentStates", "phaseTransitions")
    ignored = Counter(name for name in document if name not in read)
    states: dict[str, AgentState] = {}
    for agent, state in as_dict(document.get("agentStates")).items():
        index = as_dict(state).get("lastProcessedMessageIndex")
        if type(index) is not int or not 0 <= index <= len(ids):
            ignored["agentStates that are damaged"] += 1
            continue
        session = valid_session(as_str(as_dict(state).get("claudeSessionId")))
        states[agent] = AgentState(frozenset(ids[:index]), session)
    transitions: list[Transition] = []
    for transition in as_list(document.get("phaseTransitions")):
        made = _transition(as_dict(transition))
        if made is None:
            ignored["phaseTransitions that are damaged"] += 1
        else:
            transitions.append(made)
    transitions.sort(key=lambda made: made.time)
    title = as_str(document.get("title"))
    return Stored(title, as_str(document.get("id")), states, transitions), ignored


def slugs(kept: Stored, events: Iterable[NostrEvent]) -> dict[str, str]:
    """Return agents' slugs by key, if the file connects them.

    A phase transition has both. Else it is the one author besides the initiator that names the slug's
    session, or whose profile has that name.
    """
    known = {_plain(slug): slug for slug in kept.states}
    words = (
        (as_str(made.record.get("agentId")), as_str(made.record.get("agentName")))
        for made in kept.transitions
    )
    found = {key: known.get(_plain(name), name) for key, name in words if name and is_hex(key, 64)}
    events = list(events)
    began = {event.pubkey for event in events if event.id == kept.root}
    for slug, state in kept.states.items():
        named = {e.pubkey for e in events if state.session and state.session in e.values("claude-session")}
        called = {e.pubkey for e in events if e.kind == PROFILE and _plain(profile_name(e)) == _plain(slug)}
        for authors in (named - began, called - began):
            if len(authors) == 1 and slug not in found.values():
                found.setdefault(authors.pop(), slug)
    return found


def _plain(name: str) -> str:
    return "-".join(name.casefold().split())


def valid_session(session: str) -> str:
    """Return a valid session id, else nothing: it may become part of a command line."""
    return session if _SESSION.fullmatch(session) else ""


_MILLISECONDS = 100_000_000_000
"""The least time that is read as milliseconds: in seconds it would be in the year 5138."""


def _transition(given: dict[str, Any]) -> Transition | None:
    time, mode = as_int(given.get("timestamp")), as_str(given.get("to"))
    time = time // 1000 if time >= _MILLISECONDS else time
    if not mode or not 0 < time <= LATEST:
        return None
    return Transition(time, mode, as_str(given.get("summary")) or as_str(given.get("message")), given)


SYSTEM = "nostr"
USAGE = {
    "input": "llm-prompt-tokens",
    "output": "llm-completion-tokens",
    "cache_read": "llm-cached-input-tokens",
    "reasoning": "llm-reasoning-tokens",
}
"""The tags in which TENEX counts tokens."""


class Whole(NamedTuple):
    """A file's contents beyond one conversation: all events, people, TENEX's fields by root.

    `own`, of a relay's service only, are positions of events made here: not written again. Settings are then
    changed only by new events, since the log goes on.
    """

    events: Mapping[str, NostrEvent]
    people: People
    stored: Mapping[str, Stored]
    own: Mapping[str, int] | None = None


class Nostr(importers.RecordConverter):
    """Converter of the conversation that `root` began, once all events are there.

    Events are in order of time, after those that the log has. Older ones that come late are last, and change
    neither phase nor title.
    """

    def __init__(self, log: importers.ExistingLog, root: str, whole: Whole) -> None:
        super().__init__(importers.EventWriter(SYSTEM, "", log))
        self._log = log
        self._root = root
        self._whole = whole
        self._events: list[NostrEvent] = []
        self._setup = importers.SettingsWriter(self.writer, scope="open")
        self._positions: dict[str, int] = {}
        self._latest = self._titled = self._changed = 0

    def take(self, record: Record) -> list[importers.Step]:
        """Take one more event; it must wait for the others."""
        self._events.append(self._whole.events[record.value["id"]])
        return []

    def end(self) -> list[importers.Step]:
        """Write all messages in order.

        Raises `DuplicateIdError` if the log has another conversation of this name.
        """
        opening = f"{self._root}:conversation"
        is_live = self._whole.own is not None and self._log.head > 0
        if self._log.head and not is_live and not self.writer.holds(f"{opening}:settings"):
            raise DuplicateIdError(
                f"expected what {self._root} began, found another conversation: name it otherwise"
            )
        depths = depths_of(self._events)
        events = sorted(self._events, key=lambda event: self._sort_key(event, depths[event.id]))
        self._who = Who(events, self._root, self._whole.people, self._log)
        if not is_live:
            self._check_agents(events)
        self._stored = self._whole.stored.get(self._root, Stored())
        self._setup.title = self._stored.title or None
        self._sessions = self._resumable(events)
        self._held_until = max((e.created_at for e in events if self.writer.holds(e.id)), default=0)
        if is_live:
            events = self._continued(events)
        for nth, event in enumerate(events, start=1 if is_live else 0):
            if nth:
                self._change_phase(event.created_at)
            self._settle(event, event.id if nth else opening)
            if event.kind != METADATA:
                self._positions[event.id] = self.writer.write(self._message(event), event.id, _at(event))
        self._change_phase(LATEST + 1)
        return self.writer.drain()

    def _check_agents(self, events: Sequence[NostrEvent]) -> None:
        """Raise `DuplicateIdError` if the log has an agent's words as a person's; count probable agents."""
        said = [event for event in events if event.kind != METADATA and not event.has("error")]
        persons = {e.pubkey for e in said if e.id in self._log.said and e.id not in self._log.answers}
        if found := persons & {*self._whole.people.given}:
            names = ", ".join(sorted(map(self._who.agent, found)))
            raise DuplicateIdError(
                f"it was imported without these agents: {names}: import it under another name (--name)"
            )
        for event in said:
            is_person = not self._who.agent(event.pubkey) and event.pubkey != self._who.user
            if is_person and event.has("claude-session", "phase"):
                name = self._who.name(event.pubkey)
                name = "NAME" if event.pubkey.startswith(name) else name
                words = f"an agent's name, probably: --key {event.pubkey}={name}"
                self.ignored[f"missing: {words}"] += 1

    def _continued(self, events: Sequence[NostrEvent]) -> list[NostrEvent]:
        self._setup.resume(self._log.settings, "")
        known = {**self._log.positions, **(self._whole.own or {})}
        self._positions = {event.id: known[event.id] for event in events if event.id in known}
        self._latest = self._titled = self._held_until
        return [event for event in events if event.id not in known]

    def _resumable(self, events: Sequence[NostrEvent]) -> dict[str, str]:
        """Return each agent's stored session, by its last answer's id.

        A session is left out if earlier messages by others were not processed: the backend has not seen them,
        and is sent everything.
        """
        said = [event for event in events if event.kind != METADATA]
        sessions: dict[str, str] = {}
        for agent, state in self._stored.states.items():
            last = next(
                (e for e in reversed(said) if self._who.agent(e.pubkey).lower() == agent.lower()), None
            )
            if last is None or not state.session:
                self.decisions["state of an agent without an answer or a session"] += 1
                continue
            before = said[: said.index(last)]
            if all(e.pubkey == last.pubkey or e.id in state.processed for e in before):
                sessions[last.id] = state.session
            else:
                self.decisions["session begun anew: its agent has not processed all before its answer"] += 1
        return sessions

    def _change_phase(self, before: int) -> None:
        """Write the stored transitions of phase that are older than a time."""
        transitions = self._stored.transitions
        while self._changed < len(transitions) and transitions[self._changed].time < before:
            made, line = transitions[self._changed], f"{self._root}:phase:{self._changed}"
            self._changed += 1
            if not self.writer.holds(f"{line}:settings") and made.time < self._held_until:
                self.ignored["phaseTransitions"] += 1
                continue
            self._setup.mode, self._setup.handoff = made.mode, made.handoff
            self._setup.also(SYSTEM, {"transition": made.record})
            self._setup.settle(line, as_time(made.time))
            self._latest = max(self._latest, made.time)

    def _sort_key(self, event: NostrEvent, depth: int) -> tuple[float, int, int, str]:
        """Return an event's sort key: its position in the log, then its time.

        Within a second an answer follows its question.
        """
        ids = (event.id, f"{event.id}:settings")
        held = min(self._log.positions.get(id, inf) for id in ids)
        return held, event.created_at, depth, event.id

    def _settle(self, event: NostrEvent, line: str) -> None:
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
        common["session"] = valid_session(event.value("claude-session")) or self._sessions.get(event.id, "")
        if event.has("error"):
            return LlmError(category=importers.error_category(text), message=text, **common)
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
    rest = {"pubkey": event.pubkey, "kind": event.kind, "tags": [*map(list, event.tags)], "sig": event.sig}
    return rest if text == event.content else {**rest, "content": event.content}


def _usage(event: NostrEvent) -> Usage | None:
    counted = {name: event.value(tag) for name, tag in USAGE.items()}
    numbers: dict[str, Any] = {
        name: int(count) for name, count in counted.items() if count.isdecimal() and len(count) < 16
    }
    return Usage(**numbers) if numbers else None
