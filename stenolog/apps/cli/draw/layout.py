"""Paragraphs and tables drawn by rich, in which stored text is safe to print.

Commands import this module only when they draw.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from rich.cells import cell_len
from rich.text import Text

from stenolog.projections.terminal_text import one_line, safe

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table

Cell: TypeAlias = str | tuple[str, str]
NARROWEST = 8
"""A column that may be cut keeps at least so many cells."""
GAPS = (2, 1)
"""So many blanks stand between two columns: one where two are too many."""
APART = "  "
"""The separator of two values if a row is written as lines."""


class Wrapped:
    """A line of pieces that is never cut, `indent` cells from the left; it wraps, `hang` cells further."""

    def __init__(self, *pieces: Cell, hang: int = 0, indent: int = 0) -> None:
        pairs = ((piece, "") if isinstance(piece, str) else piece for piece in pieces)
        shown = ((safe(words).replace("\n", " "), style) for words, style in pairs)
        self.text = Text.assemble(*shown, overflow="fold")
        self.hang = hang
        self.indent = indent

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        if options.no_wrap:  # a pipe
            yield Text.assemble(" " * self.indent, self.text, no_wrap=True, overflow="ignore")
            return
        room = options.max_width - self.indent
        short = self.text.cell_len <= room
        first, *rest = self.text.wrap(console, room if short else room - self.hang)
        first.pad_left(self.indent)
        yield first
        for more in rest:
            more.pad_left(self.indent + self.hang)
            yield more


def wrapped(*pieces: Cell, hang: int = 0, indent: int = 0) -> Wrapped:
    """Return a line of pieces that is never cut: see `Wrapped`."""
    return Wrapped(*pieces, hang=hang, indent=indent)


def heading(text: str) -> Text:
    """Return a heading over a part of a longer answer."""
    return Text(f"\n{one_line(text)}", style="bold")


def legend(means: Mapping[str, str]) -> Table:
    """Return the meanings of a table's words, each wrapped beside its word."""
    from rich.table import Table

    drawn = Table.grid(padding=(0, 2, 0, 0))
    drawn.add_column(no_wrap=True)
    drawn.add_column(overflow="fold")
    for word, meaning in means.items():
        drawn.add_row(one_line(word), Text(one_line(meaning), "dim"))
    return drawn


class TableRows:
    """A table without lines; in a pipe its cells are in full, with a tab between two (`piped`).

    A column whose title begins with `>` is aligned to the right; one with `*` or `~` is cut if there is no
    room, those with `*` first, down to `least` and `names` cells. Before that the columns titled in `spare`
    are left out, and named below. Nothing else is cut: if it does not fit, each row becomes lines of titles
    and values.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[Cell]],
        least: int = NARROWEST,
        names: int = NARROWEST,
        spare: Sequence[str] = (),
    ) -> None:
        self.columns = columns
        self.least = {"*": least, "~": names}
        self.titles = [title.lstrip(">*~") for title in columns]
        self.rows = [[_cell(cell) for cell in row] for row in rows]
        self.spare = [title for title in spare if title in self.titles]

    def piped(self) -> Iterator[str]:
        """Yield the titles and the rows as lines for another program."""
        yield "\t".join(self.titles) + "\n"
        for row in self.rows:
            yield "\t".join(cell.plain for cell in row) + "\n"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        is_pipe = options.no_wrap
        room = sys.maxsize if is_pipe else options.max_width  # in a pipe nothing is cut
        for left_out in range(len(self.spare) + 1):
            shown = self._without(self.spare[:left_out])
            for gap in GAPS:
                widths = shown._widths(room - gap * (len(shown.titles) - 1))
                if widths is not None:
                    yield from shown._side_by_side(widths, " " * gap, is_ruled=not is_pipe)
                    yield from _left_out(self.spare[:left_out])
                    return
        yield from (line for row in self.rows for line in self._lines(row, room))

    def _without(self, titles: Sequence[str]) -> TableRows:
        if not titles:
            return self
        kept = [at for at, title in enumerate(self.titles) if title not in titles]
        fewer = TableRows([self.columns[at] for at in kept], (), self.least["*"], self.least["~"])
        fewer.rows = [[row[at] for at in kept] for row in self.rows]
        return fewer

    def _widths(self, room: int) -> list[int] | None:
        """Return each column's width; None if they do not fit."""
        cells = zip(*self.rows, strict=True) if self.rows else [()] * len(self.titles)
        widths = [
            max([cell_len(title), *(cell.cell_len for cell in column)])
            for title, column in zip(self.titles, cells, strict=True)
        ]
        over = sum(widths) - room
        for mark in "*~":
            for at in sorted(range(len(widths)), key=lambda at: -widths[at]):
                if over > 0 and self.columns[at].startswith(mark):
                    least = min(widths[at], max(self.least[mark], cell_len(self.titles[at])))
                    less = min(over, widths[at] - least)
                    widths[at], over = widths[at] - less, over - less
        return None if over > 0 else widths

    def _side_by_side(self, widths: Sequence[int], gap: str, *, is_ruled: bool) -> Iterator[Text]:
        between = Text(gap)
        for row in ([Text(title, "dim") for title in self.titles], None, *self.rows):
            if row is None:
                rule = "─" * (sum(widths) + len(gap) * (len(widths) - 1))
                yield from [Text(rule, no_wrap=True)] if is_ruled else []
                continue
            cells = enumerate(zip(row, widths, self.columns, strict=True), 1)
            fitted = [_fitted(*cell, last=at == len(widths)) for at, cell in cells]
            line = between.join(fitted)
            line.no_wrap, line.overflow = True, "ignore"
            yield line

    def _lines(self, row: Sequence[Text], room: int) -> Iterator[Text]:
        begun = Text()
        for column, title, cell in zip(self.columns, self.titles, row, strict=True):
            if not cell.plain or column.startswith("*"):
                continue
            value = Text.assemble((f"{title} " if title else "", "dim"), cell)
            if begun.plain and begun.cell_len + len(APART) + value.cell_len > room:
                yield _fold(begun)
                begun = Text("  ")
            begun = Text.assemble(begun, APART if begun.plain.strip() else "", value)
        yield _fold(begun)
        for column, cell in zip(self.columns, row, strict=True):
            if column.startswith("*") and cell.plain:
                yield Text.assemble("  ", cell, no_wrap=True, overflow="ellipsis")


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    least: int = NARROWEST,
    names: int = NARROWEST,
    spare: Sequence[str] = (),
) -> TableRows:
    """Return a table without lines: see `TableRows`."""
    return TableRows(columns, rows, least, names, spare)


def _left_out(titles: Sequence[str]) -> Iterator[Text]:
    if titles:
        words = f"no room for {', '.join(titles)}: --json has them"
        yield Text(words, "dim", overflow="fold")


def _fitted(cell: Text, width: int, column: str, *, last: bool) -> Text:
    fitted = cell.copy()
    fitted.truncate(width, overflow="ellipsis")
    blanks = width - fitted.cell_len
    if column.startswith(">"):
        fitted.pad_left(blanks)
    elif not last:
        fitted.pad_right(blanks)
    return fitted


def _fold(text: Text) -> Text:
    text.overflow = "fold"
    return text


def _cell(cell: Cell) -> Text:
    words, style = (cell, "") if isinstance(cell, str) else cell
    return Text(one_line(words), style, no_wrap=True, overflow="ellipsis")
