"""Effects at work: their names and keys, claimed ones, finished ones, and what a poll finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import NamedTuple, TypeAlias

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine.journal.live_state import LiveState
from stenolog.adapters.models.base import Model
from stenolog.adapters.store.contract.values import Claim
from stenolog.domain.errors import InvalidEventError
from stenolog.domain.events import Event
from stenolog.domain.lanes.effects import CallModel, Effect, EffectResult, RunTool
from stenolog.domain.parts import ToolCall
from stenolog.projections.requests import Request

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


class FinishedEffect(NamedTuple):
    """Finished effect, with its result as an event."""

    event: Callable[[], EffectResult]
    """Return the event to append."""
    replacement: Callable[[InvalidEventError], EffectResult]
    """Return the event in place of one that no log can hold."""
    then: Callable[[EffectResult, LiveState], Iterable[Event]] = lambda _event, _live: ()
    """Return the events that are appended with it, by the conversation before it; none if it was stopped."""


# For the whole process: the next runner on the conversation writes what an earlier one could not.
unwritten: dict[str, FinishedEffect] = {}
"""Results that are not in the log yet, by the idempotency keys of their effects."""


class ClaimedEffect(NamedTuple):
    """Claimed effect, with the request of a model call and its model, or the call of a tool."""

    effect: Effect
    claim: Claim
    request: Request | None = None
    call: ToolCall | None = None
    model: Model | None = None


class Poll(NamedTuple):
    """Work to do now: claimed effects, effects that others hold, and the seconds until the next one is due.

    `unasked` are calls whose backend must be asked first whether it remembers. `again`: poll again at once.
    """

    claimed: tuple[ClaimedEffect, ...] = ()
    held: tuple[Key, ...] = ()
    unasked: tuple[CallModel, ...] = ()
    due: float | None = None
    again: bool = False
