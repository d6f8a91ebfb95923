"""Lanes of a conversation as a graph beside its rows: a column each, with curves between them.

Each row has a picture of its own, all of one height, so rows can be added and removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

HEIGHT = 26
"""The height of a row; `--row` in conversation.css is the same."""
STEP = 11
"""From one column to the next."""
MOST = 8
"""So many columns at most: the lanes that find none share the last."""
MIDDLE = HEIGHT // 2


class Stroke(NamedTuple):
    """A line of a picture: its path, in the colour of a column."""

    column: int
    path: str


class Gutter(NamedTuple):
    """The picture beside a row: its width, the lines, and the dot's place and column."""

    width: int
    lines: list[Stroke]
    x: int
    column: int


def columns(spans: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """Return a column for each lane: its own, or that of a lane that ended before it begins.

    `spans` are the lanes' first and last positions; persons, "", have the first column.
    """
    found, ends = {"": 0}, [10**15]
    for where, (first, last) in sorted(spans.items(), key=lambda item: item[1][0]):
        if where == "":
            continue
        free = next((column for column, end in enumerate(ends) if end < first), len(ends))
        if free == len(ends) and free < MOST:
            ends.append(last)
        column = min(free, MOST - 1)
        ends[column] = max(ends[column], last)
        found[where] = column
    return found


class LaneGraph:
    """The pictures of some rows, first to last position."""

    def __init__(self, spans: Mapping[str, tuple[int, int]], first: int, last: int) -> None:
        self._columns = columns(spans)
        self._spans = {
            where: span for where, span in spans.items() if where and span[0] <= last and span[1] >= first
        }
        self.width = STEP * (1 + max(self._columns.values()))

    def gutter(self, position: int, where: str, to: Sequence[str], *, is_cut_off: bool = False) -> Gutter:
        """Return the picture of a row: an entry of a lane, for others.

        `is_cut_off`: the rows around it are of distant positions, and no line leads to them.
        """
        own = self._columns.get(where, 0)
        lines = {} if is_cut_off else dict(self._straight(position, where, to))
        for each in dict.fromkeys(to):
            column = self._columns.get(each, own)
            if column != own:
                lines[f"to {each}"] = Stroke(column, _curve(own, column))
        return Gutter(self.width, list(lines.values()), _x(own), own)

    def _straight(self, position: int, where: str, to: Iterable[str]) -> Iterable[tuple[str, Stroke]]:
        begun = set(to)
        for lane, (first, last) in self._spans.items():
            if not first <= position <= last or first == last:
                continue
            column = self._columns[lane]
            if position == first:
                if lane != where and lane in begun:
                    continue  # the curve leads to it
                path = f"M{_x(column)} {MIDDLE}V{HEIGHT}"
            elif position == last:
                path = f"M{_x(column)} 0V{MIDDLE}"
            else:
                path = f"M{_x(column)} 0V{HEIGHT}"
            yield lane, Stroke(column, path)


def _x(column: int) -> int:
    return STEP * column + STEP // 2 + 1


def _curve(start: int, end: int) -> str:
    x, y = _x(start), _x(end)
    return f"M{x} {MIDDLE}C{x} {HEIGHT} {y} {MIDDLE} {y} {HEIGHT}"
