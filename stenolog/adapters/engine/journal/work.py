"""Effects at work: claimed ones, finished ones, and what a poll finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from stenolog.adapters.engine.journal.effect_names import Key
from stenolog.adapters.engine.journal.live_state import LiveState
from stenolog.adapters.models.base import Model
from stenolog.adapters.store.contract.values import Claim
from stenolog.domain.errors import InvalidEventError
from stenolog.domain.events import Event
from stenolog.domain.lanes.effects import CallModel, Effect, EffectResult
from stenolog.domain.parts import ToolCall
from stenolog.projections.requests import Request


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
