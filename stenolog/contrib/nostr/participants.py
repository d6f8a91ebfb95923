"""Participants of Nostr conversations: agents, persons, unique names, `nostr:` references.

The caller or TENEX's file names the agents. Another author is an agent if its profile says so (`bot`), or its
messages name the model or tool that made them. Authors claim this only about themselves, under their own
signature.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stenolog import AssistantMessage, Conversation, UserMessage
from stenolog.errors import CallerError
from stenolog.events import LlmError
from stenolog.importers import ExistingLog, agent_called, as_dict, as_str

from .events import MESSAGES, PROFILE, NostrEvent, is_hex

SHORT = 8
"""Digits of a key that are its name if none is known."""


@dataclass
class People:
    """Names of agents and persons by key, and instructions in agents' profiles.

    `given` are the keys named by the caller or the file.
    """

    agents: dict[str, str] = field(default_factory=dict)
    persons: dict[str, str] = field(default_factory=dict)
    instructions: dict[str, str] = field(default_factory=dict)
    given: tuple[str, ...] = ()


def people(
    events: Iterable[NostrEvent], given: Mapping[str, str], slugs: Mapping[str, str] | None = None
) -> People:
    """Return everyone known from the events and the `given` agents, by key or `npub`.

    `slugs` are the file's names for keys. Raises `CallerError` for an invalid key.
    """
    events = list(events)
    named = {**(slugs or {}), **{public_key(key): name for key, name in given.items()}}
    profiles = _profiles(events)
    found = People(given=tuple(named))
    for pubkey in dict.fromkeys([*named, *profiles, *(event.pubkey for event in events)]):
        name = _name(named.get(pubkey, "") or profile_name(profiles.get(pubkey)), pubkey)
        found.persons[pubkey] = name
        if (profile := profiles.get(pubkey)) and profile.value("instructions"):
            found.instructions[pubkey] = profile.value("instructions")
    bots = {pubkey for pubkey, profile in profiles.items() if _is_bot(profile)}
    makers = {e.pubkey for e in events if e.kind in MESSAGES and e.has("llm-model", "tool")}
    for pubkey in [key for key in found.persons if key in named or key in bots or key in makers]:
        found.agents[pubkey] = found.persons.pop(pubkey)
    return found


def public_key(given: str, what: str = "agents") -> str:
    """Return a public key in hexadecimal, also from an `npub`. Raises `CallerError`."""
    if is_hex(given, 64):
        return given
    found = referred(given)
    if found is None or not found.pubkey:
        raise CallerError(f"{what}: expected a public key (64 hexadecimal digits, or npub1…), not {given!r}")
    return found.pubkey


def _profiles(events: Iterable[NostrEvent]) -> dict[str, NostrEvent]:
    """Return each author's latest profile; within a second the lower id's, as relays do."""
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


def profile_name(profile: NostrEvent | None) -> str:
    """Return the name in a profile; empty without one."""
    fields = _profile_fields(profile) if profile else {}
    return as_str(fields.get("name")) or as_str(fields.get("display_name"))


def _is_bot(profile: NostrEvent) -> bool:
    return profile.has("bot") or _profile_fields(profile).get("bot") is True


def _name(wanted: str, pubkey: str) -> str:
    plain = "-".join(wanted.split())
    return agent_called(plain.encode("utf-8", "replace").decode(), pubkey[:SHORT])


class Who:
    """Names of a conversation's speakers and addressees.

    An agent that has spoken in the log keeps its name. If two want one name, it goes to the caller's choice,
    else to the initiator and whom they address, else to the first: events can be backdated. The user, `user`,
    is the person who began, else the first to speak. Other persons are authors by name.
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
        pubkeys = (pubkey for event in theirs for pubkey in (event.pubkey, *event.values("p")))
        for pubkey in (*people.given, *pubkeys):
            self.name(pubkey)

    def agent(self, pubkey: str) -> str:
        """Return the name of an agent; empty for any other author."""
        if pubkey not in self._agents and pubkey in self._people.agents:
            self._agents[pubkey] = self._unique(pubkey, self._people.agents[pubkey])
        return self._agents.get(pubkey, "")

    def author(self, pubkey: str) -> str:
        """Return a person's name as a message's author; empty for the user."""
        return "" if pubkey == self.user else self.name(pubkey)

    def name(self, pubkey: str) -> str:
        """Return an agent's or person's name; empty if unknown."""
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
        """Return who began it: the root's author, whom comments name too (`P`)."""
        first = [event.pubkey for event in events if event.id == root]
        named = [event.value("P") for event in events if event.has("P")]
        candidates = (*first, *named, *(event.pubkey for event in events))
        agents = self._agents.keys() | self._people.agents.keys()
        return next((pubkey for pubkey in candidates if pubkey and pubkey not in agents), "")


_LETTERS = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATORS = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_REFERENCE = re.compile(r"nostr:((?:npub|nprofile|note|nevent)1[02-9ac-hj-np-z]{6,5000})")
_BYTES = 32
LONGEST_QUOTE = 2000
"""The most characters of an event that replace a reference to it: any number of events may refer to it."""


class Referred(NamedTuple):
    """A reference's target: an event's id or a person's key; the other is empty."""

    event: str = ""
    pubkey: str = ""


def referred(reference: str) -> Referred | None:
    """Return the target of `npub`, `nprofile`, `note` or `nevent`; None if invalid."""
    decoded = bech32(reference)
    if decoded is None:
        return None
    kind, content = decoded
    if kind in ("nprofile", "nevent"):
        content = _first_special(content)
    if len(content) != _BYTES:
        return None
    match kind:
        case "npub" | "nprofile":
            return Referred(pubkey=content.hex())
        case "note" | "nevent":
            return Referred(event=content.hex())
        case _:
            return None


def resolved(text: str, event: Callable[[str], str | None], name: Callable[[str], str]) -> str:
    """Return the text with references replaced by an event's content or `@name`.

    `event` returns an event's author and text, `name` a person's name; None or nothing leaves the reference
    unchanged. Quotes come after `> `, once, cut at `LONGEST_QUOTE`, with their own references unresolved:
    chains could grow without end.
    """
    quoted: set[str] = set()

    def put(found: re.Match[str]) -> str:
        to = referred(found[1])
        if to is None:
            return found[0]
        if to.pubkey:
            return f"@{known}" if (known := name(to.pubkey)) else found[0]
        said = None if to.event in quoted else event(to.event)
        if said is None:
            return found[0]
        if len(said) > LONGEST_QUOTE:
            said = f"{said[:LONGEST_QUOTE]}…"
        quoted.add(to.event)
        before = "" if not text[: found.start()].rstrip(" ") or text[: found.start()].endswith("\n") else "\n"
        after = "" if found.end() == len(text) or text.startswith("\n", found.end()) else "\n"
        return before + "\n".join(f"> {line}" for line in said.splitlines()) + after

    return _REFERENCE.sub(put, text)


def bech32(text: str) -> tuple[str, bytes] | None:
    """Return a bech32 text's prefix and bytes, of any length; None if invalid."""
    prefix, one, data = text.rpartition("1")
    if not (prefix and one) or not set(data) <= set(_LETTERS):
        return None
    values = [_LETTERS.index(letter) for letter in data]
    expanded = [ord(letter) >> 5 for letter in prefix] + [0] + [ord(letter) & 31 for letter in prefix]
    if len(values) < 6 or _checksum(expanded + values) != 1:
        return None
    content = _regrouped(values[:-6])
    return None if content is None else (prefix, content)


def _checksum(values: list[int]) -> int:
    check = 1
    for value in values:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for bit, generator in enumerate(_GENERATORS):
            check ^= generator if top >> bit & 1 else 0
    return check


def _regrouped(values: list[int]) -> bytes | None:
    """Return groups of five bits as bytes; None if more than padding remains."""
    bits = len(values) * 5
    number = 0
    for value in values:
        number = number << 5 | value
    left = bits % 8
    if left >= 5 or number & ((1 << left) - 1):
        return None
    return (number >> left).to_bytes(bits // 8, "big")


def _first_special(content: bytes) -> bytes:
    """Return the first type 0 value in a list of type, length, value; empty if none."""
    at = 0
    while at + 2 <= len(content):
        kind, length = content[at], content[at + 1]
        value = content[at + 2 : at + 2 + length]
        if kind == 0:
            return value
        at += 2 + length
    return b""


Lookup = Callable[[str], str | None]
"""Returns the words of an event by its id, and its author's name before them; None: not known."""


def with_references(
    conversation: Conversation,
    text: str,
    *,
    names: Mapping[str, str] | None = None,
    find: Lookup | None = None,
) -> str:
    """Return a text with its `nostr:` references resolved, as an import does.

    A known event is quoted after `> `, an author becomes `@name`. `find` is asked for events of other
    conversations, such as from a relay. `names` are authors' names by key (64 hexadecimal digits). Unknown
    references stay unchanged.
    """
    if "nostr:" not in text:
        return text
    known = {**_names(conversation), **(names or {})}

    def quoted(id: str) -> str | None:
        entry = conversation.entry_by_id(id)
        event: Any = entry.event if entry else None
        if not isinstance(event, UserMessage | AssistantMessage):
            return find(id) if find else None
        return f"{_author(event)}: {event.text}"

    return resolved(text, quoted, lambda key: known.get(key, ""))


def _names(conversation: Conversation) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in conversation.entries():
        event = entry.event
        if isinstance(event, UserMessage | AssistantMessage | LlmError):
            origin = event.meta.get("nostr")
            key = origin.get("pubkey") if isinstance(origin, dict) else None
            if isinstance(key, str):
                found.setdefault(key, _author(event))
    return found


def _author(event: UserMessage | AssistantMessage | LlmError) -> str:
    return (event.author or "user") if isinstance(event, UserMessage) else event.agent
