"""Options of a team, its sources of randomness and time, and the events that a run yields."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias, get_args

from stenolog.adapters.models.base import Model
from stenolog.adapters.providers.prices import listed
from stenolog.domain.entry import Entry
from stenolog.domain.errors import CallerError
from stenolog.projections.formats.deltas import Kind
from stenolog.projections.prices import Prices

from .model_calls import dispatch
from .model_calls.retries import CircuitBreaker


@dataclass(frozen=True)
class Runtime:
    """`chance` gives numbers from 0 to 1, `sleep` waits so many seconds, `stopwatch` counts them.

    Times and ids are those of the log (`stenolog.open(clock=…, ids=…)`).
    """

    chance: Callable[[], float] = random.random
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    stopwatch: Callable[[], float] = time.monotonic


OnUnknown: TypeAlias = Literal["tell", "ask"]


WORLD = Runtime()


@dataclass(frozen=True)
class Options:
    """The options of an engine.

    `on_unknown`: a call that was begun and may not be run again gets a result that says so; with "ask" its
    lane waits for a person besides. `parallel` effects of one conversation at most are under way at once.
    `mentions`: an `@name` in an answer hands on to that agent, where the turn rule allows it. `breaker` makes
    the circuit breaker of a model. `lane`, where given, is the only lane that is worked on. `names` are those
    of the agents that work in the conversation already: no worker in it may have one of them. `paranoid`:
    every request, not a sample, is built again from the store before it is sent, and compared.
    """

    on_unknown: OnUnknown = "tell"
    parallel: int = 16
    mentions: bool = True
    prices: Prices = field(default_factory=listed)
    world: Runtime = WORLD
    breaker: Callable[[], CircuitBreaker] = CircuitBreaker
    lane: str = ""
    names: frozenset[str] = frozenset()
    paranoid: bool = False
    warned: set[tuple[str, str]] = field(default_factory=set)
    """The lanes, with their conversations, of which the operator was warned that they are shown less."""
    _breakers: dict[int, tuple[Model, CircuitBreaker]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A typing slip would silently mean "tell".
        if self.on_unknown not in get_args(OnUnknown):
            raise CallerError(f"on_unknown: expected 'tell' or 'ask', found {self.on_unknown!r:.100}")

    def is_checked(self) -> bool:
        """Return whether the next call is to be checked at dispatch; a sampled one by chance."""
        return self.paranoid or dispatch.SAMPLED >= 1 or self.world.chance() < dispatch.SAMPLED

    def breaker_of(self, model: Model) -> CircuitBreaker:
        """Return the breaker that all calls of a model share."""
        # The model is kept beside its breaker, so that its id is not given to another one.
        return self._breakers.setdefault(id(model), (model, self.breaker()))[1]

    def breakers(self) -> list[tuple[Model, CircuitBreaker]]:
        """Return the models that were asked so far, with their breakers."""
        return [*self._breakers.values()]


class EntryAppended(NamedTuple):
    """An entry stands in the log, whoever appended it."""

    entry: Entry


class StreamDelta(NamedTuple):
    """A little more of an answer that is being written; `cause` is the position that it answers.

    Of a tool call it is a little more of the arguments; of an `act`, all of it as JSON. `part` is the index
    of the part that it belongs to.
    """

    lane: str
    cause: int
    text: str
    kind: Kind = "text"
    part: int = 0


RunEvent: TypeAlias = EntryAppended | StreamDelta
