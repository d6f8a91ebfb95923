"""Contents of a window, and the snapshot from which it continues at a later position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.settings import NOTHING, Settings
from stenolog.domain.state import State
from stenolog.domain.step import INITIAL
from stenolog.projections.context import SummaryRecord
from stenolog.projections.requests.request import Message, Omission, Size
from stenolog.projections.tool_pairs import Call, Pair

from .lane_memory import LaneMemory


class WindowRow(NamedTuple):
    """An entry in the window: what the lane hears of it, and how large that is.

    `plain`: it stands where it was said, and takes nothing out of context.
    """

    entry: Entry
    pieces: tuple[Message, ...]
    size: Size
    plain: bool = False


class WindowContents(NamedTuple):
    """What is in the window, in units that are never cut in two, and the rule for what is out of context.

    `edits` has the message that each edit is an edit of.
    """

    units: list[tuple[Message, ...]]
    left_out: dict[int, str]
    entries: list[Entry]
    edits: dict[int, int]


NOTHING_SHOWN = WindowContents([], {}, [], {})


class WindowSnapshot(NamedTuple):
    """Where a window stands at a position: all that is needed to go on from there, but for the entries.

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


START = WindowSnapshot()


class Uncut(NamedTuple):
    """A window as it stood before the cut that a message of a response made: its mark, and its rows.

    Where a further message of the same response follows, the cut is decided anew for the whole response.
    """

    response: str
    mark: WindowSnapshot
    rows: list[WindowRow]


def runs(positions: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The runs of neighbouring positions, each as its first and last."""
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
