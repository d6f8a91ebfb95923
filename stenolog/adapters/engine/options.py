"""Options of a team, its chance and time, and the events that a run yields."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from stenolog.adapters.models.base import Model
from stenolog.adapters.providers.prices import listed
from stenolog.domain.entry import Entry
from stenolog.domain.errors import CallerError
from stenolog.projections.formats.deltas import Kind
from stenolog.projections.prices import Prices

from .model_calls import dispatch
from .model_calls.retries import CircuitBreaker, LaneBreaker


@dataclass(frozen=True)
class Runtime:
    """Chance and time: `chance` returns 0 to 1, `sleep` waits seconds, `stopwatch` counts seconds.

    Times and ids of entries are the log's (`stenolog.open(clock=…, ids=…)`).
    """

    chance: Callable[[], float] = random.random
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    stopwatch: Callable[[], float] = time.monotonic


OnUnknown: TypeAlias = Literal["tell", "ask"]


WORLD = Runtime()


@dataclass(frozen=True)
class Options:
    """Options of an engine; see `Team` for those that it has too.

    `lane`: the only lane to work on; empty: all. `names` are the agents at work in the conversation: no
    worker there may have one of these names.
    """

    on_unknown: OnUnknown = "tell"
    parallel: int = 16
    mentions: bool | None = None
    prices: Prices = field(default_factory=listed)
    world: Runtime = WORLD
    breaker: Callable[[], CircuitBreaker] = CircuitBreaker
    lane: str = ""
    names: frozenset[str] = frozenset()
    paranoid: bool = False
    deps: Any = field(default=None, repr=False)
    """Passed to the tools, and never recorded."""
    warned: set[tuple[str, str]] = field(default_factory=set)
    """The lanes, with their conversations, of which the operator was warned that they are shown less."""
    _breakers: dict[int, tuple[Model, CircuitBreaker]] = field(default_factory=dict)
    _of_lanes: dict[tuple[int, str, str], CircuitBreaker] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A typing slip would silently mean "tell".
        if self.on_unknown not in get_args(OnUnknown):
            raise CallerError(f"on_unknown: expected 'tell' or 'ask', found {self.on_unknown!r:.100}")

    def is_checked(self) -> bool:
        """Return whether the next call is checked at dispatch: all if `paranoid`, else a sample."""
        return self.paranoid or dispatch.SAMPLED >= 1 or self.world.chance() < dispatch.SAMPLED

    def breaker_of(self, model: Model) -> CircuitBreaker:
        """Return the breaker that all calls of a model share."""
        # The model is kept beside its breaker, so that its id is not given to another one.
        if (known := self._breakers.get(id(model))) is None:
            known = self._breakers.setdefault(id(model), (model, self.breaker()))
        return known[1]

    def lane_breaker(self, model: Model, conversation: str, lane: str) -> LaneBreaker:
        """Return the breaker of a model for one lane's calls."""
        own = self._of_lanes.get((id(model), conversation, lane)) if self._of_lanes else None
        return LaneBreaker(self.breaker_of(model), own, self.breaker)

    def keep(self, breaker: LaneBreaker, model: Model, conversation: str, lane: str) -> None:
        """Keep a lane's own breaker while its calls fail."""
        if breaker.own is not None:
            self._of_lanes[id(model), conversation, lane] = breaker.own
        else:
            self._of_lanes.pop((id(model), conversation, lane), None)

    def breakers(self) -> list[tuple[Model, CircuitBreaker]]:
        """Return the models called so far, with their breakers."""
        return [*self._breakers.values()]


class EntryAppended(NamedTuple):
    """An entry is in the log, whoever appended it."""

    entry: Entry


class StreamDelta(NamedTuple):
    """Next piece of an answer; `cause` is the position that it answers.

    Of a tool call, it is a piece of the arguments; of an `act`, all of it as JSON. `part` is the part's
    index.
    """

    lane: str
    cause: int
    text: str
    kind: Kind = "text"
    part: int = 0


RunEvent: TypeAlias = EntryAppended | StreamDelta
