"""Fields that TENEX stores with a conversation's events: title, states of agents, transitions of phase.

They are not signed. TENEX's server alone writes them, into the file that the caller imports.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from stenolog.importers import Json, as_dict, as_int, as_list, as_str

from .events import LATEST, PROFILE, NostrEvent, is_hex
from .participants import profile_name

_SESSION = re.compile(r"\w[\w.:-]{0,199}")


class AgentState(NamedTuple):
    """The stored state of an agent: the events that it has processed, and its session with Claude Code."""

    processed: frozenset[str]
    session: str


class Transition(NamedTuple):
    """A change of phase, in seconds since 1970; `handoff` is the text for the agent that comes next."""

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
    """Return the fields of a conversation's file, and the counts of fields that are ignored.

    `ids` are those of its events, in the order of the file.
    """
    read = ("id", "title", "history", "agentStates", "phaseTransitions")
    ignored = Counter(name for name in document if name not in read)
    states: dict[str, AgentState] = {}
    for agent, told in as_dict(document.get("agentStates")).items():
        index = as_dict(told).get("lastProcessedMessageIndex")
        if type(index) is not int or not 0 <= index <= len(ids):
            ignored["agentStates that are damaged"] += 1
            continue
        session = valid_session(as_str(as_dict(told).get("claudeSessionId")))
        states[agent] = AgentState(frozenset(ids[:index]), session)
    transitions: list[Transition] = []
    for told in as_list(document.get("phaseTransitions")):
        made = _transition(as_dict(told))
        if made is None:
            ignored["phaseTransitions that are damaged"] += 1
        else:
            transitions.append(made)
    transitions.sort(key=lambda made: made.time)
    title = as_str(document.get("title"))
    return Stored(title, as_str(document.get("id")), states, transitions), ignored


def slugs(kept: Stored, events: Iterable[NostrEvent]) -> dict[str, str]:
    """Return the slugs of agents by their keys, as far as the file ties them.

    A transition of phase has both. Else it is the one author beside who began it that names the slug's
    session, or whose profile has that name.
    """
    known = {_plain(slug): slug for slug in kept.states}
    told = (
        (as_str(made.record.get("agentId")), as_str(made.record.get("agentName")))
        for made in kept.transitions
    )
    found = {key: known.get(_plain(name), name) for key, name in told if name and is_hex(key, 64)}
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
    """Return the session id if it is a valid one, else nothing: it may be used in a command line."""
    return session if _SESSION.fullmatch(session) else ""


_MILLISECONDS = 100_000_000_000
"""The least time that is read as milliseconds: in seconds it would be in the year 5138."""


def _transition(told: dict[str, Any]) -> Transition | None:
    time, mode = as_int(told.get("timestamp")), as_str(told.get("to"))
    time = time // 1000 if time >= _MILLISECONDS else time
    if not mode or not 0 < time <= LATEST:
        return None
    return Transition(time, mode, as_str(told.get("summary")) or as_str(told.get("message")), told)
