"""Compactions of a Codex rollout: a new history replaces the messages so far."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

from stenolog.domain.parts import AssistantPart, ProviderPart, TextPart
from stenolog.projections.formats.openai_responses.read import PROVIDER, content
from stenolog.projections.messages.json_fields import as_dict, as_list, as_str, compact_json

Words: TypeAlias = tuple[str, ...]


class Compacted(NamedTuple):
    """A compaction: positions kept in context, summary, and new messages."""

    kept: set[int]
    parts: tuple[AssistantPart, ...]
    fresh: list[dict[str, Any]]


class Compaction:
    """Memory of users' messages, to find them in the history that replaces them."""

    def __init__(self) -> None:
        self._said: dict[Words, list[list[int]]] = {}

    def add_message(self, message: dict[str, Any], positions: list[int]) -> None:
        """Note the positions of a user's, system's or developer's message."""
        self._said.setdefault(_text_key(message), []).append(positions)

    def forget(self, positions: Iterable[int]) -> None:
        """Drop these positions from the context."""
        gone = set(positions)
        for places in self._said.values():
            places[:] = [place for place in places if not gone.intersection(place)]

    def compact(self, payload: dict[str, Any], model: str) -> Compacted:
        """Read a model's `compacted` record. Messages that it repeats stay in place."""
        summary = as_str(payload.get("message"))
        parts: list[AssistantPart] = [TextPart(text=summary)] if summary else []
        kept: dict[Words, list[list[int]]] = {}
        fresh = []
        for item in map(as_dict, reversed(as_list(payload.get("replacement_history")))):
            words = _text_key(item)
            if item.get("type") != "message" or item.get("role") == "assistant":
                parts.append(ProviderPart(provider=PROVIDER, model=model, raw=compact_json(item)))
            elif places := self._said.get(words):
                kept.setdefault(words, []).insert(0, places.pop())
            elif not (summary and any(summary in said for said in words)):
                fresh.append(item)
        self._said = kept
        stays = {position for places in kept.values() for place in places for position in place}
        return Compacted(stays, tuple(parts), fresh[::-1])


def _text_key(message: dict[str, Any]) -> Words:
    return tuple(as_str(part.get("text")) or compact_json(part) for part in content(message.get("content")))
