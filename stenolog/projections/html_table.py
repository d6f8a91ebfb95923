"""Tables for notebooks: static HTML, everything escaped, a few rows of many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import TypeAlias

from .terminal_text import one_line

Cells: TypeAlias = Sequence[object]
AT_BEGIN, AT_END = 10, 40
"""Rows that are shown of a long table."""
LONGEST_CELL = 200
COLOURS = {"kept": "#2e8540", "reworded": "#2b6cb0", "added": "#7b4bc4", "left out": "#c53030"}
"""The edge of a row that has such a cell."""
HEADING = "text-align:left;padding:.1em .6em;border-bottom:1px solid #888"
CELL = "text-align:left;vertical-align:top;padding:.1em .6em"
NUMBER = "text-align:right;vertical-align:top;padding:.1em .6em;white-space:nowrap"


def table(
    caption: str, columns: Sequence[str], count: int, rows: Callable[[int, int], Iterable[Cells]]
) -> str:
    """Return a table of `count` rows; `rows(first, end)` gives some of them, and few are asked for."""
    most = AT_BEGIN + AT_END
    parts = [(0, count)] if count <= most else [(0, AT_BEGIN), (count - AT_END, count)]
    pieces = [f"<p><b>{_text(caption)}</b></p>", '<table style="border-collapse:collapse"><thead><tr>']
    pieces += (f'<th style="{HEADING}">{_text(name)}</th>' for name in columns)
    pieces.append("</tr></thead><tbody>")
    for nth, (first, end) in enumerate(parts):
        if nth:
            pieces.append(
                f'<tr><td colspan="{len(columns)}" style="{CELL}">… {count - most:,} more …</td></tr>'
            )
        pieces += map(_row, rows(first, end))
    return "".join([*pieces, "</tbody></table>"])


def _row(cells: Cells) -> str:
    colour = next(
        (COLOURS[each] for each in cells if isinstance(each, str) and each in COLOURS), "transparent"
    )
    shown = "".join(
        f'<td style="{NUMBER if isinstance(cell, int) else CELL}">{_text(cell)}</td>' for cell in cells
    )
    return f'<tr style="border-left:4px solid {colour}">{shown}</tr>'


def _text(cell: object) -> str:
    words = f"{cell:,}" if isinstance(cell, int) else one_line(str(cell))
    return escape(words if len(words) <= LONGEST_CELL else words[: LONGEST_CELL - 1] + "…")
