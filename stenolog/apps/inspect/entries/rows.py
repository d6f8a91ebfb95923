"""Rows of the list of a conversation's entries."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import log10
from typing import NamedTuple, Protocol

from stenolog.apps.inspect.conversation_index import ConversationIndex, addressed
from stenolog.apps.inspect.query import Query
from stenolog.apps.views.figures import lasted
from stenolog.domain.entry import EPOCH, Entry
from stenolog.domain.events import AssistantMessage, LlmError, ToolResult
from stenolog.projections.terminal_text import one_line
from stenolog.projections.views.calls import CallStatus, missing, without_result
from stenolog.projections.views.lines import entry_line
from stenolog.projections.views.tool_pairs import CallKey

MOST = 500
"""Rows that are given at once."""
LONGEST_LINE = 300
"""The most characters of a row's words."""
FULL_BAR = 40
"""The width of the bar of a tool that took a quarter of an hour."""
HEIGHT = 26
"""The height of a row; `--row` in conversation.css is the same."""
STEP = 11
"""From one column to the next."""
MOST_COLUMNS = 8
"""So many columns at most: the lanes that find none share the last."""
MIDDLE = HEIGHT // 2


class Talk(Protocol):
    """The entries of a conversation, by position."""

    def entry(self, position: int) -> Entry:
        """Return one entry."""
        ...

    def entries(self, after: int = 0, at: int | None = None) -> Iterable[Entry]:
        """Return the entries after a position, up to another."""
        ...


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
        if free == len(ends) and free < MOST_COLUMNS:
            ends.append(last)
        column = min(free, MOST_COLUMNS - 1)
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


class Row(NamedTuple):
    """An entry as a row of the list.

    `place` is its index in the list. `mark` is what an agent's request makes of it, "" if it is not in.
    `fault` says what is wrong with it. `pair` is the position of its first result, or of its call. `note` is
    its duration or number of tokens, `bar` the width of a bar for the duration.
    """

    position: int
    place: int
    time: str
    kind: str
    who: str
    words: str
    thoughts: str = ""
    fault: str = ""
    pair: int = 0
    note: str = ""
    bar: int = 0
    gutter: Gutter | None = None
    forks: Sequence[str] = ()
    mark: str = ""


def rows(
    query: Query,
    listed: Sequence[int],
    first: int,
    count: int,
    forks: Mapping[int, Sequence[str]],
    marks: Mapping[int, str] | None = None,
) -> list[Row]:
    """Return some rows of a list of positions, from an index in it on."""
    talk, index = query.conversation, query.index
    wanted = listed[max(0, first) : max(0, first) + min(count, MOST)]
    if not wanted:
        return []
    graph = LaneGraph(dict(index.spans), wanted[0], wanted[-1])
    open = query.open_calls
    found = []
    for place, entry in enumerate(entries_at(talk, wanted), max(0, first)):
        where = index.lane_at(entry.position)
        alone = len(listed) != index.position
        gutter = graph.gutter(entry.position, where, addressed(entry.event), is_cut_off=alone)
        row = _row(entry, place, index, open)
        mark = marks.get(entry.position, "") if marks else ""
        found.append(row._replace(gutter=gutter, forks=forks.get(entry.position, ()), mark=mark))
    return found


def place_of(listed: Sequence[int], position: int) -> int:
    """Return the index of a position in a list, or of the last one before it."""
    if isinstance(listed, range):
        return min(position - 1, len(listed) - 1)
    place = bisect_left(listed, position)
    is_there = place < len(listed) and listed[place] == position
    return place if is_there else max(0, place - 1)


def row(entry: Entry) -> Row:
    """Return an entry as a row by itself."""
    kind, who, what, thought = entry_line(entry)
    return Row(entry.position, 0, time_of(entry), kind, who, one_line(f"{what} {thought}"))


def _row(entry: Entry, place: int, index: ConversationIndex, open: dict[CallKey, CallStatus]) -> Row:
    kind, who, what, thought = entry_line(entry)
    begun = Row(
        entry.position, place, time_of(entry), kind, who, _cut(what), _cut(thought) if thought else ""
    )
    match entry.event:
        case ToolResult() as result:
            return _result(begun, entry, result, index)
        case AssistantMessage(tool_calls=calls) as answer:
            return _answer(begun, answer, len(calls), index, open)
        case LlmError(duration_ms=took):
            return begun._replace(fault="failed", note=lasted(took), bar=bar(took))
        case _:
            return begun


def _result(begun: Row, entry: Entry, result: ToolResult, index: ConversationIndex) -> Row:
    pair, outcome = index.results.get(begun.position), index.outcome(entry)
    fault = outcome.note or (outcome.status if outcome.status == "failed" else "")
    if pair is None:
        return begun._replace(fault=fault, note=lasted(result.duration_ms))
    who, took = result.name or pair.tool, lasted(pair.took)
    return begun._replace(who=who, pair=pair.call, fault=fault, note=took, bar=bar(pair.took))


def _answer(
    begun: Row,
    answer: AssistantMessage,
    calls: int,
    index: ConversationIndex,
    open: dict[CallKey, CallStatus],
) -> Row:
    results = [index.calls.get((begun.position, nth), 0) for nth in range(calls)]
    waiting = (CallKey(begun.position, nth) for nth, result in enumerate(results) if not result)
    faults = (without_result(key, open).note for key in missing(waiting, open))
    fault = next(faults, "")
    note = f"{answer.usage.output:,} tok" if answer.usage is not None and answer.usage.output else ""
    return begun._replace(pair=next(filter(None, results), 0), fault=fault, note=note)


def entries_at(talk: Talk, wanted: Sequence[int]) -> Iterator[Entry]:
    """Yield the entries at these positions, which rise."""
    begin = 0
    for place in range(1, len(wanted) + 1):
        if place == len(wanted) or wanted[place] != wanted[place - 1] + 1:
            yield from talk.entries(after=wanted[begin] - 1, at=wanted[place - 1])
            begin = place


def time_of(entry: Entry) -> str:
    """Return the time of an entry; empty in a log without times."""
    return "" if entry.time == EPOCH else f"{entry.time:%Y-%m-%d %H:%M:%S}"


def _cut(words: str) -> str:
    line = one_line(words)
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…"


def bar(milliseconds: int | None) -> int:
    """Return the width of a bar for a duration, on a logarithmic scale."""
    if not milliseconds or milliseconds < 10:
        return 0
    return min(FULL_BAR, max(2, round(FULL_BAR * (log10(milliseconds) - 1) / 5)))
