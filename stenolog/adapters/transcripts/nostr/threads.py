"""Which conversation an event belongs to: that of its root (NIP-10, NIP-22)."""

from __future__ import annotations

from collections.abc import Mapping

from .events import MESSAGES, METADATA, NostrEvent

_MARKERS = ("root", "reply", "mention")


def root_of(event: NostrEvent, known: Mapping[str, NostrEvent]) -> str:
    """The id of the event that began its conversation; it need not be among the `known`.

    An event that names its root is believed; from one that names just what it replies to, the way up is gone
    as far as it is known. The ids are hashes, so no way leads in a circle.
    """
    while True:
        root, above = _root(event), parent_of(event)
        if root or not above:
            return root or event.id
        if above not in known:
            return above
        event = known[above]


def parent_of(event: NostrEvent) -> str:
    """The id of the event that it replies to; empty where it begins a conversation."""
    marked = [tag for tag in event.tags if tag[0] == "e" and len(tag) > 3 and tag[3] in _MARKERS]
    replies = [tag[1] for tag in marked if tag[3] == "reply"] or [t[1] for t in marked if t[3] == "root"]
    unmarked = _unmarked(event)
    return (replies or unmarked[-1:] or event.values("E")[:1] or [""])[0]


def belongs(event: NostrEvent) -> bool:
    """Whether it is part of a conversation, and not of what stands around: profiles, lists, reactions."""
    return event.kind in MESSAGES or event.kind == METADATA


def _root(event: NostrEvent) -> str:
    """The root that it names; empty where it names none."""
    marked = [tag[1] for tag in event.tags if tag[0] == "e" and len(tag) > 3 and tag[3] == "root"]
    unmarked = _unmarked(event)
    return (event.values("E")[:1] or marked or (unmarked[:1] if len(unmarked) > 1 else [""]))[0]


def _unmarked(event: NostrEvent) -> list[str]:
    """The events that it names without saying what for: by their places the first is the root, the last the
    one that it replies to."""
    return [
        tag[1]
        for tag in event.tags
        if tag[0] == "e" and len(tag) > 1 and (len(tag) < 4 or tag[3] not in _MARKERS)
    ]
