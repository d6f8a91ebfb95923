"""What rich draws: paragraphs and tables of stored words, made safe on the way. Imported when it draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from .safety import one_line, safe

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.padding import Padding
    from rich.table import Table


def paragraph(text: str, style: str = "", *, lines: int | None = None) -> Text:
    """Text that wraps; only its first `lines` lines where that is given."""
    shown = safe(text).rstrip().expandtabs(4)
    rows = shown.split("\n")
    if lines is not None and len(rows) > lines:
        shown = "\n".join([*rows[:lines], f"… {len(rows) - lines} more lines"])
    return Text(shown, style, overflow="fold")


def indented(drawn: RenderableType, by: int = 2) -> Padding:
    """The drawing, moved to the right."""
    from rich.padding import Padding

    return Padding(drawn, (0, 0, 0, by))


def heading(text: str) -> Text:
    """A heading over a part of a longer answer."""
    return Text(f"\n{one_line(text)}", style="bold")


def table(columns: Sequence[str], rows: Iterable[Sequence[str | tuple[str, str]]]) -> Table:
    """A table without lines. A column whose title begins with `>` stands to the right; one with `*` takes
    the room that is left and is cut there.
    """
    from rich import box
    from rich.table import Table

    drawn = Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim"
    )
    for title in columns:
        free = title.startswith("*")
        drawn.add_column(
            title.lstrip(">*"),
            justify="right" if title.startswith(">") else "left",
            no_wrap=not free,
            min_width=8 if free else None,
            overflow="ellipsis",
        )
    for row in rows:
        drawn.add_row(*(_cell(cell) for cell in row))
    return drawn


def _cell(cell: str | tuple[str, str]) -> Text:
    words, style = (cell, "") if isinstance(cell, str) else cell
    return Text(one_line(words), style, no_wrap=True, overflow="ellipsis")
