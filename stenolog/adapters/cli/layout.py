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
    """A line of pieces that is never cut, `indent` cells from the left.

    The rest of it is on the next lines, `hang` cells further.
    """

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
    """Return the meanings of a table's words, each behind its word, wrapped below itself."""
    from rich.table import Table

    drawn = Table.grid(padding=(0, 2, 0, 0))
    drawn.add_column(no_wrap=True)
    drawn.add_column(overflow="fold")
    for word, meaning in means.items():
        drawn.add_row(one_line(word), Text(one_line(meaning), "dim"))
    return drawn


class TableRows:
    """A table without lines.

    A column whose title begins with `>` stands to the right; one with `*` or `~` has words that are cut
    where there is no room for them, those with `*` first. All else is never cut: where it does not fit
    side by side, each row is written as lines of titles and values. `least`: how many cells the words of a
    `*` column keep.
    """

    def __init__(
        self, columns: Sequence[str], rows: Iterable[Sequence[Cell]], least: int = NARROWEST
    ) -> None:
        self.columns = columns
        self.least = {"*": least, "~": NARROWEST}
        self.titles = [title.lstrip(">*~") for title in columns]
        self.rows = [[_cell(cell) for cell in row] for row in rows]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        room = sys.maxsize if options.no_wrap else options.max_width  # in a pipe nothing is cut
        for gap in GAPS:
            widths = self._widths(room - gap * (len(self.titles) - 1))
            if widths is not None:
                yield from self._side_by_side(widths, " " * gap, options.max_width)
                return
        yield from (line for row in self.rows for line in self._lines(row, room))

    def _widths(self, room: int) -> list[int] | None:
        """Return the width of each column; None if there is no room for all of them."""
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

    def _side_by_side(self, widths: Sequence[int], gap: str, most: int) -> Iterator[Text]:
        """Yield the titles, a rule of at most so many cells, and a line for each row."""
        between = Text(gap)
        for row in ([Text(title, "dim") for title in self.titles], None, *self.rows):
            if row is None:
                yield Text("─" * min(most, sum(widths) + len(gap) * (len(widths) - 1)), no_wrap=True)
                continue
            cells = enumerate(zip(row, widths, self.columns, strict=True), 1)
            fitted = [_fitted(*cell, last=at == len(widths)) for at, cell in cells]
            line = between.join(fitted)
            line.no_wrap, line.overflow = True, "ignore"
            yield line

    def _lines(self, row: Sequence[Text], room: int) -> Iterator[Text]:
        """Yield a row as lines: its values behind their titles; only words on the last line may be cut."""
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


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], least: int = NARROWEST) -> TableRows:
    """Return a table without lines: see `TableRows`."""
    return TableRows(columns, rows, least)


def _fitted(cell: Text, width: int, column: str, *, last: bool) -> Text:
    """Return the cell, as wide as its column; the last one of a line has no blanks behind it."""
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
