"""Transitions of the engine: one immutable transition per entry and lane."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stenolog.domain.entry import Entry
from stenolog.domain.state import State
from stenolog.domain.step import INITIAL, Transition, step


def transitions(entries: Iterable[Entry], state: State = INITIAL) -> Iterator[Transition]:
    """Every transition that the entries caused, in order, beginning in `state`."""
    for entry in entries:
        state, made = step(state, entry)
        yield from made
