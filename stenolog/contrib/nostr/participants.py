"""Participants of Nostr conversations: agents, persons and their names.

The caller names the agents. Another author is an agent if its profile claims it (`bot` in the content, or as
a tag). Messages that name the model or the tool that made them are such a claim, too. Each author claims this
about itself alone, under its own signature: no author can turn another one into an agent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stenolog.errors import CallerError
from stenolog.importers import agent_called, as_dict, as_str

from .events import MESSAGES, PROFILE, NostrEvent, is_hex
from .references import referred

SHORT = 8
"""Digits of a key that stand for a name where none is known."""


@dataclass
class People:
    """The names of agents and of persons, by their keys; and the instructions that agents' profiles tell.

    `given` are the keys of agents that the caller has named.
    """

    agents: dict[str, str] = field(default_factory=dict)
    persons: dict[str, str] = field(default_factory=dict)
    instructions: dict[str, str] = field(default_factory=dict)
    given: tuple[str, ...] = ()


def people(events: Iterable[NostrEvent], given: Mapping[str, str]) -> People:
    """Everybody who is known from the events, and from the `given` names of agents, by key or `npub`.

    Raises `CallerError` for a key that is none.
    """
    events = list(events)
    named = {_key(key): name for key, name in given.items()}
    profiles = _profiles(events)
    found = People(given=tuple(named))
    for pubkey in dict.fromkeys([*named, *profiles, *(event.pubkey for event in events)]):
        name = _name(named.get(pubkey, "") or _own_name(profiles.get(pubkey)), pubkey)
        found.persons[pubkey] = name
        if (profile := profiles.get(pubkey)) and profile.value("instructions"):
            found.instructions[pubkey] = profile.value("instructions")
    bots = {pubkey for pubkey, profile in profiles.items() if _is_bot(profile)}
    makers = {e.pubkey for e in events if e.kind in MESSAGES and e.has("llm-model", "tool")}
    for pubkey in [key for key in found.persons if key in named or key in bots or key in makers]:
        found.agents[pubkey] = found.persons.pop(pubkey)
    return found


def _key(given: str) -> str:
    """A public key in hexadecimal digits, of one that may be given as `npub`."""
    if is_hex(given, 64):
        return given
    found = referred(given)
    if found is None or not found.pubkey:
        raise CallerError(f"agents: expected a public key (64 hexadecimal digits, or npub1…), not {given!r}")
    return found.pubkey


def _profiles(events: Iterable[NostrEvent]) -> dict[str, NostrEvent]:
    """Everybody's latest profile; of two in the same second the one with the lower id, as relays have it."""
    latest: dict[str, NostrEvent] = {}
    for event in sorted(events, key=lambda event: (-event.created_at, event.id)):
        if event.kind == PROFILE:
            latest.setdefault(event.pubkey, event)
    return latest


def _profile_fields(profile: NostrEvent) -> dict[str, object]:
    try:
        return as_dict(json.loads(profile.content))
    except (ValueError, RecursionError):
        return {}


def _own_name(profile: NostrEvent | None) -> str:
    told = _profile_fields(profile) if profile else {}
    return as_str(told.get("name")) or as_str(told.get("display_name"))


def _is_bot(profile: NostrEvent) -> bool:
    return profile.has("bot") or _profile_fields(profile).get("bot") is True


def _name(wanted: str, pubkey: str) -> str:
    """A name that an agent may have, without blanks, which cannot be mentioned."""
    plain = "-".join(wanted.split())
    return agent_called(plain.encode("utf-8", "replace").decode(), pubkey[:SHORT])
