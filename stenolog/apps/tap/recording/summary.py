"""Summary of a tap's run: its conversations, and the kinds of secrets in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from stenolog.adapters.conversation.log import Conversation, Log
from stenolog.domain.events import AssistantMessage, LlmError

from .session import META


class SecretAt(NamedTuple):
    """A kind of secret, and the position of its entry."""

    kind: str
    position: int


class Recorded(NamedTuple):
    """A run's share of a conversation: requests, failed ones, secrets; what was not read, by position."""

    name: str
    title: str
    requests: int
    errors: int
    secrets: tuple[SecretAt, ...]
    unread: dict[int, str]


def recorded_in(log: Log, run: str, since: datetime) -> Iterator[Recorded]:
    """Yield the conversations that a run recorded, the earliest first."""
    for name in reversed([*log.names(active_since=since, order="latest")]):
        found = _recorded(log[name], f"{run}-")
        if found.requests:
            yield found


def _recorded(conversation: Conversation, exchanges: str) -> Recorded:
    requests = errors = 0
    secrets: dict[SecretAt, None] = {}
    unread: dict[int, str] = {}
    for entry in conversation.entries():
        event = entry.event
        if not isinstance(event, AssistantMessage | LlmError):
            continue
        about: Any = event.meta.get(META)
        if not isinstance(about, Mapping) or not str(about.get("exchange", "")).startswith(exchanges):
            continue
        requests += 1
        errors += isinstance(event, LlmError)
        for found in about.get("secrets", ()):
            secrets[SecretAt(str(found["kind"]), int(found["position"]))] = None
        if "unread" in about:
            unread[entry.position] = str(about["unread"])
    title = conversation.settings().title or ""
    return Recorded(conversation.name, title, requests, errors, tuple(secrets), unread)
