"""Events of Nostr (NIP-01): checked ids and signatures, and each one's conversation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from io import BytesIO
from typing import Any, NamedTuple

from stenolog.contrib.programs import NOSTR_FIELDS
from stenolog.errors import MissingExtraError
from stenolog.importers import Json, JsonLinesReader, as_dict, as_list, compact_json

PROFILE, METADATA = 0, 513
MESSAGES = (1, 9, 11, 42, 1111, 1934)
"""The kinds with words: notes, chat, threads, channels, comments, TENEX's tasks."""
LATEST = 253402300799
"""The last second of the year 9999, which is as late as the log can say."""
_HEX = re.compile(r"[0-9a-f]+")
_CONTROL = re.compile(r"\\u00[01][0-9a-f]")


class NostrEvent(NamedTuple):
    """A signed event whose id is right. `created_at` is in seconds since 1970."""

    id: str
    pubkey: str
    created_at: int
    kind: int
    tags: tuple[tuple[str, ...], ...]
    content: str
    sig: str

    def value(self, name: str) -> str:
        """Return the first value of that tag; empty if none."""
        return next(iter(self.values(name)), "")

    def values(self, name: str) -> list[str]:
        """Return the values of the tags of that name."""
        return [tag[1] for tag in self.tags if tag[0] == name and len(tag) > 1]

    def has(self, *names: str) -> bool:
        """Return whether the event has one of these tags, with or without a value."""
        return any(tag[0] in names for tag in self.tags)


def is_event(value: Json) -> bool:
    """Return whether the value looks like an event, valid or not."""
    return isinstance(value, dict) and all(name in value for name in NOSTR_FIELDS)


def event_of(value: dict[str, Any]) -> NostrEvent:
    """Return the event. Raises ValueError for a wrong field, or an id that is not its hash."""
    if not is_event(value):
        missing = next((name for name in NOSTR_FIELDS if name not in as_dict(value)), "")
        raise ValueError(f"expected an event of Nostr, found no {missing}")
    if not value.get("sig"):
        raise ValueError("it is not signed")
    for name, digits in (("id", 64), ("pubkey", 64), ("sig", 128)):
        if not is_hex(value[name], digits):
            raise ValueError(f"{name}: expected {digits} hexadecimal digits")
    for name, most in (("created_at", LATEST), ("kind", 65535)):
        if type(value[name]) is not int or not 0 <= value[name] <= most:
            raise ValueError(f"{name}: expected a whole number from 0 to {most}")
    tags = as_list(value["tags"])
    if not isinstance(value["content"], str) or not all(map(_is_tag, tags)) or tags is not value["tags"]:
        raise ValueError("expected content that is a text, and tags that are lists of texts")
    made = {name: value[name] for name in (*NOSTR_FIELDS, "sig")}
    event = NostrEvent(**{**made, "tags": tuple(map(tuple, tags))})
    if event.id not in {sha256(form.encode()).hexdigest() for form in forms_of(event)}:
        raise ValueError("its id is not the hash of what it says")
    return event


def is_hex(value: Json, digits: int) -> bool:
    """Return whether the value is a text of so many lower-case hexadecimal digits."""
    return isinstance(value, str) and len(value) == digits and _HEX.fullmatch(value) is not None


def unpacked(text: str) -> Json:
    """Return the event in a text of TENEX's conversation files.

    The text is a list in the hashed order, then signature and id in any order. Other text is returned
    unchanged, to be refused by name.
    """
    found = next(
        (value for _, value in JsonLinesReader().values(BytesIO(text.encode("utf-8", "replace")))), None
    )
    if not isinstance(found, list) or len(found) < 6:
        return found
    names = ("pubkey", "created_at", "kind", "tags", "content")
    rest = {"sig" if len(item) > 64 else "id": item for item in found[6:8] if isinstance(item, str)}
    return {"id": "", **dict(zip(names, found[1:6], strict=True)), **rest}


def _is_tag(tag: Json) -> bool:
    return isinstance(tag, list) and bool(tag) and all(isinstance(item, str) for item in tag)


def forms_of(event: NostrEvent) -> tuple[str, str]:
    """Return the texts that may be hashed: control characters as they are, and escaped.

    The first is the protocol's; most programs write the second.
    """
    escaped = compact_json([0, event.pubkey, event.created_at, event.kind, event.tags, event.content])
    return _CONTROL.sub(lambda found: chr(int(found[0][2:], 16)), escaped), escaped


def as_json(event: NostrEvent) -> dict[str, Any]:
    """Return the event as relays send it."""
    return {**event._asdict(), "tags": [*map(list, event.tags)]}


def checker() -> Callable[[NostrEvent], bool]:
    """Return a function that checks an event's signature. Raises `MissingExtraError`.

    Always required: an unchecked event may hold anybody's words, which must not reach an agent.
    """
    try:
        from coincurve import PublicKeyXOnly
    except ImportError:
        raise MissingExtraError("nostr", "coincurve") from None

    def is_signed(event: NostrEvent) -> bool:
        try:
            author = PublicKeyXOnly(bytes.fromhex(event.pubkey))
        except ValueError:  # no point of the curve
            return False
        return author.verify(bytes.fromhex(event.sig), bytes.fromhex(event.id))

    return is_signed


_MARKERS = ("root", "reply", "mention")


def roots_of(known: Mapping[str, NostrEvent]) -> dict[str, str]:
    """Return the root event's id of each event; the root may be missing.

    A named root is believed; else replies are followed up as far as known. Ids are hashes, so there are no
    cycles.
    """
    roots: dict[str, str] = {}
    for event in known.values():
        way: list[str] = []
        while event.id not in roots:
            way.append(event.id)
            root, above = _root(event), parent_of(event)
            if root or above not in known:
                roots[event.id] = root or above or event.id
            else:
                event = known[above]
        roots |= dict.fromkeys(way, roots[event.id])
    return roots


def depths_of(events: Iterable[NostrEvent]) -> dict[str, int]:
    """Return the number of known ancestors of each event."""
    known = {event.id: event for event in events}
    depths: dict[str, int] = {}
    for event in known.values():
        way: list[str] = []
        while event.id not in depths:
            way.append(event.id)
            above = parent_of(event)
            if above not in known:
                depths[way.pop()] = 0
                break
            event = known[above]
        for id in reversed(way):
            depths[id] = depths[parent_of(known[id])] + 1
    return depths


def parent_of(event: NostrEvent) -> str:
    """Return the id of the event it replies to; empty for a root."""
    marked = [tag for tag in event.tags if tag[0] == "e" and len(tag) > 3 and tag[3] in _MARKERS]
    replies = [tag[1] for tag in marked if tag[3] == "reply"] or [t[1] for t in marked if t[3] == "root"]
    unmarked = _unmarked(event)
    return (replies or unmarked[-1:] or event.values("E")[:1] or [""])[0]


def _root(event: NostrEvent) -> str:
    marked = [tag[1] for tag in event.tags if tag[0] == "e" and len(tag) > 3 and tag[3] == "root"]
    unmarked = _unmarked(event)
    return (event.values("E")[:1] or marked or (unmarked[:1] if len(unmarked) > 1 else [""]))[0]


def _unmarked(event: NostrEvent) -> list[str]:
    """Return the events it names without a marker.

    The first is the root, the last the one it replies to.
    """
    return [
        tag[1]
        for tag in event.tags
        if tag[0] == "e" and len(tag) > 1 and (len(tag) < 4 or tag[3] not in _MARKERS)
    ]
