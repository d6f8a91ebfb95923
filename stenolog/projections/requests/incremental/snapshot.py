"""Snapshot of a window: with the entries in it, a window continues from there at a later position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from stenolog.domain.lanes.state import State
from stenolog.domain.lanes.step import INITIAL
from stenolog.domain.settings import NOTHING, Settings
from stenolog.projections.messages.explanation import Omission
from stenolog.projections.requests.pipeline.lane_memory import LaneMemory
from stenolog.projections.requests.pipeline.summaries import Scopes
from stenolog.projections.views.context import SummaryRecord
from stenolog.projections.views.tool_pairs import Call, Pair


class WindowSnapshot(NamedTuple):
    """The state of a window at a position: enough to continue from there, except for the entries.

    `rows` are the runs of positions in the window, `private` those of what was not for the lane.
    """

    position: int = 0
    state: State = INITIAL
    settings: Settings = NOTHING
    rows: tuple[tuple[int, int], ...] = ()
    waiting: tuple[Call, ...] = ()
    pairs: tuple[Pair, ...] = ()
    summaries: tuple[SummaryRecord, ...] = ()
    left_out: tuple[Omission, ...] = ()
    private: tuple[tuple[int, int], ...] = ()
    own: LaneMemory = LaneMemory()
    cuts: int = 0
    scopes: tuple[Scopes, ...] = ()


START = WindowSnapshot()


def runs(positions: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the runs of neighbouring positions, each as its first and last."""
    first = last = 0
    for position in positions:
        if last and position == last + 1:
            last = position
            continue
        if last:
            yield first, last
        first = last = position
    if last:
        yield first, last
