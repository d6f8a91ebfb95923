"""Wrapped lines and tables, in which stored text is safe to print."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from rich.cells import cell_len, set_cell_size

from stenolog.apps.cli.lines import Paragraph, TextLine, breaks
from stenolog.projections.terminal_text import one_line, safe

Cell: TypeAlias = str | tuple[str, str]
Styled: TypeAlias = tuple[str, str]
"""Safe words with their style."""
NARROWEST = 8
"""A column that may be cut keeps at least so many cells."""
GAPS = (2, 1)
"""The blanks between two columns: one if two are too many."""
APART = "  "
"""The separator of two values if a row is written as lines."""


class Wrapped:
    """A line of pieces that is never cut, `indent` cells from the left; it wraps, `hang` cells further."""

    def __init__(self, *pieces: Cell, hang: int = 0, indent: int = 0) -> None:
        pairs = ((piece, "") if isinstance(piece, str) else piece for piece in pieces)
        self.pieces = [(safe(words).replace("\n", " "), style) for words, style in pairs]
        self.hang, self.indent = hang, indent

    def rendered(self, width: int | None, *, coloured: bool) -> Iterator[str]:
        """Yield its lines; only one if `width` is None."""
        plain = "".join(words for words, _ in self.pieces)
        room = sys.maxsize if width is None else max(1, width - self.indent)
        is_short = len(plain) <= room and cell_len(plain) <= room
        blanks = " " * self.indent
        for begin, end in breaks(plain, room if is_short else max(1, room - self.hang)):
            yield _line([(blanks, ""), *_between(self.pieces, begin, end)], coloured)
            blanks = " " * (self.indent + self.hang)


def _between(pieces: Iterable[Styled], begin: int, end: int) -> Iterator[Styled]:
    at = 0
    for words, style in pieces:
        yield words[max(0, begin - at) : max(0, end - at)], style
        at += len(words)


def _line(pieces: Iterable[Styled], coloured: bool) -> str:
    kept = [*pieces]
    while kept and not kept[-1][0].rstrip(" "):
        kept.pop()
    if kept:
        kept[-1] = kept[-1][0].rstrip(" "), kept[-1][1]
    return TextLine(tuple(kept)).rendered(None, coloured=coloured)


def wrapped(*pieces: Cell, hang: int = 0, indent: int = 0) -> Wrapped:
    """Return a `Wrapped`."""
    return Wrapped(*pieces, hang=hang, indent=indent)


def heading(text: str) -> Paragraph:
    """Return a heading over a part of a longer answer."""
    return Paragraph(f"\n{one_line(text)}", "bold")


def legend(means: Mapping[str, str]) -> Iterator[Paragraph]:
    """Yield the meanings of a table's words, each wrapped beside its word."""
    indent = max(map(cell_len, means), default=0) + len(APART)
    for word, meaning in means.items():
        yield Paragraph(one_line(meaning), "dim", indent, one_line(word))


class TableRows:
    """A table without lines; in a pipe its cells are in full, with a tab between two (`piped`).

    A column whose title begins with `>` is aligned to the right; one with `*` or `~` is cut if there is no
    room, those with `*` first, down to `least` and `names` cells. Before that the columns titled in `spare`
    are left out, and named in `note`. Nothing else is cut: if it does not fit, each row becomes lines of
    titles and values.
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
        self.note = ""
        self.least = {"*": least, "~": names}
        self.titles = [title.lstrip(">*~") for title in columns]
        self.rows = [[_cell(cell) for cell in row] for row in rows]
        self.spare = [title for title in spare if title in self.titles]

    def piped(self) -> Iterator[str]:
        """Yield titles and rows for another program."""
        yield "\t".join(self.titles)
        for row in self.rows:
            yield "\t".join(words for words, _ in row)

    def rendered(self, width: int | None, *, coloured: bool) -> Iterator[str]:
        """Yield its lines, side by side if they fit in `width` cells; in a pipe nothing is cut."""
        room = sys.maxsize if width is None else width
        for left_out in range(len(self.spare) + 1):
            shown = self._without(self.spare[:left_out])
            for gap in GAPS:
                widths = shown._widths(room - gap * (len(shown.titles) - 1))
                if widths is not None:
                    yield from shown._side_by_side(widths, " " * gap, coloured, is_ruled=width is not None)
                    if left_out:
                        hidden = ", ".join(self.spare[:left_out])
                        self.note = f"hidden in {room} columns: {hidden} (--json has all)"
                    return
        for row in self.rows:
            yield from self._lines(row, room, coloured)

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
            max([cell_len(title), *(cell_len(words) for words, _ in column)])
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

    def _side_by_side(
        self, widths: Sequence[int], gap: str, coloured: bool, *, is_ruled: bool
    ) -> Iterator[str]:
        for nth, row in enumerate(([(title, "dim") for title in self.titles], *self.rows)):
            pieces: list[Styled] = []
            for cell, width, column in zip(row, widths, self.columns, strict=True):
                pieces += (*_fitted(cell, width, column), (gap, ""))
            yield _line(pieces, coloured)
            if not nth and is_ruled:
                yield "─" * (sum(widths) + len(gap) * (len(widths) - 1))

    def _lines(self, row: Sequence[Styled], room: int, coloured: bool) -> Iterator[str]:
        begun: list[Styled] = []
        size = 0
        for column, title, cell in zip(self.columns, self.titles, row, strict=True):
            if not cell[0] or column.startswith("*"):
                continue
            value = [(f"{title} " if title else "", "dim"), cell]
            cells = sum(cell_len(words) for words, _ in value)
            if begun and size + len(APART) + cells > room:
                yield from Wrapped(*begun).rendered(room, coloured=coloured)
                begun, size = [("  ", "")], 2
            elif begun:
                begun.append((APART, ""))
                size += len(APART)
            begun += value
            size += cells
        yield from Wrapped(*begun).rendered(room, coloured=coloured)
        for column, cell in zip(self.columns, row, strict=True):
            if column.startswith("*") and cell[0]:
                yield TextLine((("  ", ""), cell)).rendered(room, coloured=coloured)


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    least: int = NARROWEST,
    names: int = NARROWEST,
    spare: Sequence[str] = (),
) -> TableRows:
    """Return a `TableRows`."""
    return TableRows(columns, rows, least, names, spare)


def _fitted(cell: Styled, width: int, column: str) -> tuple[Styled, Styled]:
    words, style = cell
    size = cell_len(words)
    if size > width:
        words, size = f"{set_cell_size(words, width - 1)}…", width
    blanks = (" " * (width - size), "")
    return (blanks, (words, style)) if column.startswith(">") else ((words, style), blanks)


def _cell(cell: Cell) -> Styled:
    words, style = (cell, "") if isinstance(cell, str) else cell
    return one_line(words), style
