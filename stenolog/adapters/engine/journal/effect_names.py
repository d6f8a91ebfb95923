"""Names of effects: claim key, idempotency key, and the short key in a worker's name."""

from __future__ import annotations

from hashlib import sha256
from typing import TypeAlias

from stenolog.adapters.conversation.log import Conversation
from stenolog.domain.lanes.effects import CallModel, Effect, RunTool

Key: TypeAlias = tuple[str, str]
"""The lane and the name of an effect: what it is claimed by."""


def key(effect: Effect) -> Key:
    """Return the key under which an effect is claimed."""
    return effect.lane.address, effect.name


def model_key(conversation: Conversation, call: CallModel) -> str:
    """Return the idempotency key of a model call."""
    # With the attempt: a retry is another call, which a provider must not answer from the first.
    # With the digest: other logs have streams and positions of the same numbers.
    return _idempotency_key(conversation, call, f"{call.attempt}/{conversation.digest}")


def tool_key(conversation: Conversation, run: RunTool) -> str:
    """Return the idempotency key of a tool's call."""
    # By the entry, and without an attempt: a tool that is run again after a crash has the same key.
    return _idempotency_key(conversation, run, run.call.entry)


def short_key(key: str) -> str:
    """Return the suffix of a worker's conversation or lane."""
    return key[:12]


def _idempotency_key(conversation: Conversation, effect: Effect, what: str) -> str:
    """Return the key of an effect; `what` differs between runs that must not share one."""
    # By the stream's number and not by its name, which may change.
    named = f"{conversation.stream.key}/{effect.lane.address}/{effect.name}/{what}"
    return sha256(named.encode()).hexdigest()[:32]
