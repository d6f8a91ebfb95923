"""Marks below a slider: where something happened, and what a request makes of each entry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from stenolog.apps.inspect.request_view.marks import RequestMarks

COLUMNS = 480
"""Marks nearer than this part of the whole are one."""
MOST_POSITIONS = 5000
"""The most positions of errors that are given to a page."""
TOPS = {"calls": 6, "modes": 3, "summaries": 0, "cuts": 0, "errors": 0}
"""The height at which the marks of each kind begin, counted from the top."""
BOTTOM = 10
"""The height at which all marks end."""


class Marks(NamedTuple):
    """The marks of one kind: its word, their number, and the path of a picture `COLUMNS` wide."""

    kind: str
    number: int
    path: str


def drawn(ticks: Mapping[str, Iterable[int]], head: int) -> list[Marks]:
    """Return the marks of each kind that there are."""
    found = []
    for kind, positions in ticks.items():
        wanted = list(positions)
        places = Counter(_column(position, head) for position in wanted)
        most = max(places.values(), default=1)
        path = "".join(f"M{place} {_top(kind, many / most)}V{BOTTOM}" for place, many in places.items())
        if wanted:
            found.append(Marks(kind, len(wanted), path))
    return found


def _top(kind: str, part: float) -> float:
    """Return the top of a mark: the more marks are drawn as one, the higher."""
    return round(BOTTOM - (BOTTOM - TOPS[kind]) * (0.3 + 0.7 * part), 1)


def band(marks: Mapping[int, str], head: int) -> list[Marks]:
    """Return what a request makes of the entries, as strokes along the slider."""
    found = []
    for kind, spans in runs(marks).items():
        path = "".join(
            f"M{_column(first - 0.5, head)} 1H{_column(last + 0.5, head)}"
            for first, last in _apart(spans, head)
        )
        found.append(Marks(kind, sum(last - first + 1 for first, last in spans), path))
    return found


def runs(marks: Mapping[int, str]) -> dict[str, list[tuple[int, int]]]:
    """Return the runs of positions with the same mark, by mark."""
    if isinstance(marks, RequestMarks):
        return marks.runs
    found: dict[str, list[tuple[int, int]]] = {}
    for position in sorted(marks):
        spans = found.setdefault(marks[position], [])
        if spans and spans[-1][1] == position - 1:
            spans[-1] = (spans[-1][0], position)
        else:
            spans.append((position, position))
    return found


def runs_written(marks: Mapping[int, str]) -> str:
    """Return the runs as a page takes them: `kept 1-4,6;left-out 7-40`."""
    written = {
        mark: ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in spans)
        for mark, spans in runs(marks).items()
    }
    return ";".join(f"{mark} {spans}" for mark, spans in written.items())


def _apart(spans: Iterable[tuple[int, int]], head: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for first, last in spans:
        if found and _column(first, head) <= _column(found[-1][1], head) + 1:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return found


def _column(position: float, head: int) -> int:
    """Return the place of a position on the slider, whose ends are the first and the last position."""
    return round(min(1, max(0, (position - 1) / max(1, head - 1))) * COLUMNS)
