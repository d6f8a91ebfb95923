"""Checks that give verdicts one after the other, and what a log says of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stenolog import Conversation, Event


def verdict_on(event: Event) -> str:
    """Return the kind of verdict that an event has, or nothing."""
    return str(getattr(event, "meta", {}).get("stenolog", {}).get("verdict", {}).get("kind", ""))


def seen(conversation: Conversation) -> list[tuple[Any, ...]]:
    """Return what is said in a conversation, and the verdicts."""
    found = (entry.event for entry in conversation.entries(after=1))
    return [(event.kind, getattr(event, "parts", ()), verdict_on(event)) for event in found]


def fails() -> None:
    raise RuntimeError("ouch")


def judging(stage: Callable[[Callable[..., Any]], Any], *verdicts: Any) -> Any:
    """Return a check that gives one verdict after the other, and then lets pass."""
    left = list(verdicts)

    @stage
    def judge(*_: Any) -> Any:
        given = left.pop(0) if left else None
        return given() if callable(given) else given

    return judge
