"""Turns of a conversation that is read, and the marks that lead to errors, misses and compactions."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stenolog.apps.inspect.conversation_index import ConversationIndex, nearest
from stenolog.projections.views.calls import CallStatus
from stenolog.projections.views.outline import OutlineRow
from stenolog.projections.views.tool_pairs import CallKey

from .items import cost_of


class TurnRow(NamedTuple):
    """A row of the outline: `place` is its index, `number` that of its turn, 0 before the first."""

    place: int
    position: int
    number: int
    words: str
    lane: str
    usd: str
    errors: int
    misses: int
    cuts: int


class Marks(NamedTuple):
    """Marks of one kind: their number, and the entries with the nearest ones before and after a position."""

    kind: str
    number: int
    before: int | None
    after: int | None


def marked(index: ConversationIndex, open: dict[CallKey, CallStatus]) -> dict[str, list[int]]:
    """Return the positions of the marks, by kind."""
    ticks = index.ticks(open)
    return {
        "error": ticks["errors"],
        "cache miss": sorted(index.missed),
        "compaction": sorted({*ticks["summaries"], *ticks["cuts"]}),
    }


def turn_rows(
    index: ConversationIndex, kinds: Mapping[str, Sequence[int]], first: int, count: int
) -> list[TurnRow]:
    """Return some rows of the outline, from an index on, with the marks in each."""
    turns = index.outline.begins
    shown: list[TurnRow] = []
    for place, row in enumerate(index.outline.rows[first : first + count], first):
        number = bisect_right(turns, row.position)
        end = turns[number] if number < len(turns) else index.position + 1
        counts = (0 if row.lane else _between(found, row.position, end) for found in kinds.values())
        shown.append(
            TurnRow(place, row.position, number - index.untold, _title(row), row.lane, cost_of(row), *counts)
        )
    return shown


def _title(row: OutlineRow) -> str:
    return row.words or ("before the first message" if not row.lane else row.lane)


def _between(positions: Sequence[int], first: int, end: int) -> int:
    return bisect_left(positions, end) - bisect_left(positions, first)


def marks_in(
    index: ConversationIndex, kinds: Mapping[str, Sequence[int]], of: str, at: int
) -> tuple[list[Marks], dict[str, list[int]]]:
    """Return the marks with those nearest to a position, and all entries that show them, by kind."""
    marks, places = list[Marks](), dict[str, list[int]]()
    for kind, found in kinds.items():
        shown = [place for each in found if (place := index.shown_in(each, of))]
        if shown:
            places[kind] = sorted({*shown})
            marks.append(Marks(kind, len(shown), *nearest(places[kind], at)))
    return marks, places
