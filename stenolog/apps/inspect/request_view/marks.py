"""Marks of entries by what a request makes of each: the disposition of its part, or `left-out`."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import chain

from stenolog.projections.messages.rules import HAD
from stenolog.projections.requests import Request

LEFT_OUT = "left-out"


class RequestMarks(Mapping[int, str]):
    """The disposition of each entry, by position; what the provider holds counts as kept.

    Omissions stay runs, however long.
    """

    def __init__(self, request: Request) -> None:
        self._parts = {position: part.disposition for part in request.parts for position in part.positions}
        self._gone = sorted(
            (run.first, run.last, "kept" if run.rule in HAD else LEFT_OUT) for run in request.omissions
        )

    def __getitem__(self, position: int) -> str:
        if position in self._parts:
            return self._parts[position]
        at = bisect_right(self._gone, (position, 1 << 62, "")) - 1
        if at < 0 or self._gone[at][1] < position:
            raise KeyError(position)
        return self._gone[at][2]

    def __iter__(self) -> Iterator[int]:
        left_out = chain.from_iterable(range(first, last + 1) for first, last, _ in self._gone)
        return iter(dict.fromkeys([*self._parts, *left_out]))

    def __len__(self) -> int:
        return sum(last - first + 1 for spans in self.runs.values() for first, last in spans)

    @cached_property
    def runs(self) -> dict[str, list[tuple[int, int]]]:
        """The runs of positions with the same mark, by mark."""
        shown = sorted(self._parts)
        spans: list[tuple[int, int, str]] = [
            (position, position, self._parts[position]) for position in shown
        ]
        for first, last, mark in self._gone:
            for position in shown[bisect_left(shown, first) : bisect_right(shown, last)]:
                if first < position:
                    spans.append((first, position - 1, mark))
                first = position + 1
            if first <= last:
                spans.append((first, last, mark))
        found: dict[str, list[tuple[int, int]]] = {}
        for first, last, mark in sorted(spans):
            runs = found.setdefault(mark, [])
            if runs and runs[-1][1] >= first - 1:
                runs[-1] = (runs[-1][0], max(last, runs[-1][1]))
            else:
                runs.append((first, last))
        return found
