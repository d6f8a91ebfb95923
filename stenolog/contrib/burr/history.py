"""The chat history in the state of a Burr application: found by its form, and compared from step to step."""

from __future__ import annotations

import re
from typing import NamedTuple

from stenolog.importers import Json, JsonObject, as_str, compact_json

NAMES = ("chat_history", "messages", "history", "chat", "conversation")
"""The usual names of the field, the usual ones first; any other field of the same form does too."""
_KINDS = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
_PREFIX = re.compile(r"(human|user|ai|assistant|system): ?", re.IGNORECASE)


def kind_of(role: str) -> str:
    """Return the role as one of four: user, assistant, system, tool; an unknown one is an assistant's."""
    return _KINDS.get(role.strip().casefold(), "assistant")


def message_of(item: Json) -> JsonObject | None:
    """Return an item of a history as a message: an object with a role, or a text such as `Human: Hi`."""
    if isinstance(item, str) and (found := _PREFIX.match(item)):
        return {"role": found[1].casefold(), "content": item[found.end() :]}
    if isinstance(item, dict) and not item.keys().isdisjoint(_CONTENTS):
        role = as_str(item.get("role")) or as_str(item.get("type"))
        return {**item, "role": role} if "role" in item or role.casefold() in _KINDS else None
    return None


_CONTENTS = ("content", "text", "tool_calls")


def history_in(state: JsonObject, field: str) -> tuple[str, list[JsonObject]]:
    """Return the field of the chat history and its messages; an empty name where the state has none.

    `field` is the one found before, which is kept: what is no message in it counts as the system's.
    """
    for name in dict.fromkeys([field] if field else [*(n for n in NAMES if n in state), *state]):
        items = state.get(name)
        if isinstance(items, list) and items:
            messages = [message_of(item) for item in items]
            if field or None not in messages:
                others = ({"role": "system", "content": compact_json(item)} for item in items)
                return name, [message or other for message, other in zip(messages, others, strict=True)]
    return field, []


class HistoryChange(NamedTuple):
    """A change of a history: so many first messages left it, so many behind them stay, the others are new."""

    gone: int
    stays: int


def change(known: list[JsonObject], now: list[JsonObject]) -> HistoryChange:
    """Compare a history with the one before: it grew, lost its beginning, or differs from some point on."""
    for gone in range(len(known)):
        kept = known[gone:]
        if now[: len(kept)] == kept:
            return HistoryChange(gone, len(kept))
    same = next((nth for nth, (one, two) in enumerate(zip(known, now, strict=False)) if one != two), None)
    return HistoryChange(0, min(len(known), len(now)) if same is None else same)
