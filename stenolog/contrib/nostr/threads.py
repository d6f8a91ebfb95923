"""Which conversation an event belongs to: that of its root (NIP-10, NIP-22)."""

from __future__ import annotations

from collections.abc import Mapping

from .events import NostrEvent

_MARKERS = ("root", "reply", "mention")


def roots_of(known: Mapping[str, NostrEvent]) -> dict[str, str]:
    """For each of the events the id of the one that began its conversation; that need not be among them.

    An event that names its root is believed; from one that names just what it replies to, the way up is gone
    as far as it is known. The ids are hashes, so no way leads in a circle.
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


def parent_of(event: NostrEvent) -> str:
    """The id of the event that it replies to; empty where it begins a conversation."""
    marked = [tag for tag in event.tags if tag[0] == "e" and len(tag) > 3 and tag[3] in _MARKERS]
    replies = [tag[1] for tag in marked if tag[3] == "reply"] or [t[1] for t in marked if t[3] == "root"]
    unmarked = _unmarked(event)
    return (replies or unmarked[-1:] or event.values("E")[:1] or [""])[0]


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
