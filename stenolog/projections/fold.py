"""Projections, which are pure functions of the log, in two shapes; the engine's transitions are one.

A **stream** is a plain generator over entries and gives a list. A **fold** gives a state:

    >>> from stenolog.domain.events import AssistantMessage
    >>> @fold(initial=0)
    ... def words_said(total, entry):
    ...     match entry.event:
    ...         case AssistantMessage(text=text):
    ...             return total + len(text.split())
    ...         case _:
    ...             return total
    >>> words_said([])
    0
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import Any, Generic, TypeVar

from stenolog.domain.entry import Entry
from stenolog.domain.events import Event
from stenolog.domain.lanes.state import State
from stenolog.domain.lanes.step import INITIAL, Transition, step

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Fold(Generic[S]):
    """A state read off the log: what holds before anything is said, and how one entry changes it.

    `name` and `version` are what a kept checkpoint of it is known by: raise the version when `evolve`
    changes its mind. `kinds` are the events that it looks at (none: all of them): `evolve` is given no other,
    and where the fold is kept up to date, the others are not read. `state` is the type of the state, for
    pydantic to write it as JSON and read it again: then `Conversation.fold` stores checkpoints of it.
    """

    name: str
    initial: S
    evolve: Callable[[S, Entry], S]
    version: int = 1
    kinds: tuple[type[Event], ...] = ()
    state: Any = None

    def __call__(self, entries: Iterable[Entry], start: S | None = None) -> S:
        """Return the state after all the entries, from the beginning or from a state kept earlier."""
        return reduce(self.after, entries, self._begun() if start is None else start)

    def steps(self, entries: Iterable[Entry]) -> Iterator[S]:
        """Yield the initial state, and the state after each entry."""
        return accumulate(entries, self.after, initial=self._begun())

    def _begun(self) -> S:
        # A function that fills the list that it is given would fill that of the next call, too.
        return copy(self.initial) if isinstance(self.initial, (list, dict, set)) else self.initial

    def after(self, state: S, entry: Entry) -> S:
        """Return the state after one more entry: the same, where it is of no kind that the fold looks at."""
        if self.kinds and not isinstance(entry.event, self.kinds):
            return state
        return self.evolve(state, entry)


def fold(
    initial: S,
    *,
    state: Any = None,
    name: str = "",
    version: int = 1,
    kinds: tuple[type[Event], ...] = (),
) -> Callable[[Callable[[S, Entry], S]], Fold[S]]:
    """Make a fold of `evolve(state, entry) -> state`. Never grow a tuple in it: that is quadratic."""
    return lambda evolve: Fold(name or evolve.__name__, initial, evolve, version, kinds, state)


def transitions(entries: Iterable[Entry], state: State = INITIAL) -> Iterator[Transition]:
    """Yield every transition that the entries caused, in order, beginning in `state`."""
    for entry in entries:
        state, made = step(state, entry)
        yield from made
