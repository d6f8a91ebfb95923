"""`nostr:` references of live messages, resolved against the events that a conversation holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stenolog import AssistantMessage, Conversation, UserMessage
from stenolog.events import LlmError

from .participants import resolved

Lookup = Callable[[str], str | None]
"""Returns the words of an event by its id, and its author's name before them; None: not known."""


def with_references(
    conversation: Conversation,
    text: str,
    *,
    names: Mapping[str, str] | None = None,
    find: Lookup | None = None,
) -> str:
    """Return a message's text with its `nostr:` references resolved, as an import resolves them.

    An event that the conversation holds is quoted behind `> `, an author is `@name`. Events of other
    conversations are not looked at: `find` is asked for those, such as from a relay. `names` has the names of
    authors by their keys (64 hexadecimal digits), of whom the conversation holds no event yet. A reference
    that stays unknown is left as it is.
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
    """Return the names of those who have spoken, by their keys."""
    found: dict[str, str] = {}
    for entry in conversation.entries():
        event = entry.event
        if isinstance(event, UserMessage | AssistantMessage | LlmError):
            told = event.meta.get("nostr")
            key = told.get("pubkey") if isinstance(told, dict) else None
            if isinstance(key, str):
                found.setdefault(key, _author(event))
    return found


def _author(event: UserMessage | AssistantMessage | LlmError) -> str:
    return (event.author or "user") if isinstance(event, UserMessage) else event.agent
