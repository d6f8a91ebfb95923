"""Records that a Claude Code session holds twice, told from those that only share a uuid with another."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from stenolog.adapters.providers.anthropic_blocks import blocks
from stenolog.adapters.providers.json_fields import Json, as_dict, as_str, compact_json


class Repeats:
    """Remembers records by uuid and content, and those of sub-agents by their time too.

    `shared` are the uuids of several records: placeholders, which say nothing about identity or about a
    place in the tree.
    """

    def __init__(self) -> None:
        self.shared: set[str] = set()
        self._uuids: set[str] = set()
        self._heard: set[int] = set()

    def again(self, value: dict[str, Any], agent: str = "", beside: Collection[int] = ()) -> bool:
        """Return whether a record was read before.

        `agent` is set for a record inside a progress record: such records repeat the sub-agent's messages
        so far, in one piece and block by block, and `beside` are the blocks of the same progress record.
        """
        uuid, pieces = uuid_of(value), content_of(value)
        by_uuid = [hash((uuid, piece)) for piece in pieces]
        by_time = [hash((agent, as_str(value.get("timestamp")), piece)) for piece in pieces] if agent else []
        is_named = bool(uuid) and uuid not in self.shared
        is_new = uuid not in self._uuids if is_named else not agent
        marks = zip(by_uuid if is_named else by_time, pieces, strict=True) if not is_new else ()
        is_known = not is_new and all(mark in self._heard or piece in beside for mark, piece in marks)
        if is_named and not is_new and not is_known:
            self.shared.add(uuid)
        self._uuids.add(uuid)
        self._heard.update(by_uuid if uuid else (), by_time)
        return is_known


def uuid_of(value: dict[str, Any]) -> str:
    """A record's uuid; empty where it has none."""
    return as_str(value.get("uuid")).strip()


def content_of(value: dict[str, Any]) -> list[int]:
    """A number for each block of a record, the same for the same content."""
    message = value.get("message")
    if isinstance(message, dict):
        return [_hash(block) for block in blocks(message.get("content"))]
    return [hash(tuple(as_str(value.get(name)) for name in ("type", "subtype", "content")))]


def _hash(block: Json) -> int:
    fields = sorted(as_dict(block).items())
    return hash(tuple((name, each if isinstance(each, str) else compact_json(each)) for name, each in fields))
