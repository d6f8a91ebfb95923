"""Lines of a drawing, made without rich: a log has many of them, and `stenolog log` must start at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from stenolog.projections.terminal_text import one_line, safe

if TYPE_CHECKING:
    from rich.console import RenderableType

Piece: TypeAlias = "TextLine | Paragraph | RenderableType"
"""A piece of a drawing: a line, a paragraph, a string that is printed as it is, or what rich can draw."""

CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}


class TextLine(NamedTuple):
    """One line: its pieces, safe, each with its style (words of `CODES`)."""

    pieces: tuple[tuple[str, str], ...]

    def rendered(self, width: int | None, *, coloured: bool) -> str:
        """The line, cut with an ellipsis where it is wider than `width` cells; None: it is never cut."""
        text = "".join(words for words, _ in self.pieces)
        if width is not None and (len(text) > width or not text.isascii()):
            return self._cut(width, coloured)
        return "".join(styled(words, style) for words, style in self.pieces) if coloured else text.rstrip()

    def _cut(self, width: int, coloured: bool) -> str:
        from rich.cells import cell_len, set_cell_size

        # A character has a cell at least, marks above letters aside: no more than this is ever shown.
        most = 4 * width
        sizes = [cell_len(words) if len(words) <= most else len(words) for words, _ in self.pieces]
        too_wide = sum(sizes) > width
        left = width - 1 if too_wide else width
        shown = []
        for (words, style), size in zip(self.pieces, sizes, strict=True):
            kept = words if size <= left else f"{set_cell_size(words[:most], left).rstrip()}…"
            shown.append(styled(kept, style) if coloured else kept)
            left -= size
            if left < 0:
                break
        return "".join(shown).rstrip()


class Paragraph(NamedTuple):
    """Text of any length, broken between words where a line would be too wide; nothing is left out.

    `indent`: how many cells its lines stand to the right; `lead` is a title that stands there on the first.
    """

    text: str
    style: str = ""
    indent: int = 0
    lead: str = ""

    def rendered(self, width: int | None, *, coloured: bool) -> Iterator[str]:
        """Yield its lines, each made when it is asked for: a pager shows the first page of it at once.

        `width` is in cells; None: a line is as wide as its words.
        """
        lead = f"{self.lead:<{self.indent}}"
        if coloured and self.lead:
            lead = styled(lead, "dim")
        for row in _rows(self.text):
            for shown in (row,) if width is None else _folded(row, max(1, width - self.indent)):
                yield f"{lead}{styled(shown, self.style) if coloured else shown}".rstrip(" ")
                lead = " " * self.indent


def paragraph(text: str, style: str = "", *, indent: int = 0, lines: int | None = None) -> Paragraph:
    """Text that wraps; only its first `lines` lines where that is given."""
    shown = safe(text).rstrip().expandtabs(4)
    more = 0 if lines is None else shown.count("\n") + 1 - lines
    if more > 0:
        shown = "\n".join([*shown.split("\n", lines or 0)[:lines], f"… {more} more lines"])
    return Paragraph(shown, style, indent)


def field(name: str, value: str, indent: int) -> Paragraph:
    """Return a named value as a paragraph: its name, padded to `indent` cells, and its whole value."""
    return paragraph(value, indent=indent)._replace(lead=one_line(name))


def _rows(text: str) -> Iterator[str]:
    """Yield the lines of a text; unlike `split`, without holding all of them."""
    begin = 0
    while (end := text.find("\n", begin)) >= 0:
        yield text[begin:end]
        begin = end + 1
    yield text[begin:]


def _folded(row: str, room: int) -> Iterator[str]:
    """Break a line after the last word that fits; a word that does not fit on a line is cut."""
    begin = 0
    while (end := _fits(row, begin, room)) < len(row):
        blank = end if row[end] == " " else row.rfind(" ", begin, end)
        if blank > begin and row[begin:blank].strip():
            end = blank
        yield row[begin:end].rstrip()
        while end < len(row) and row[end] == " ":
            end += 1
        begin = end
    yield row[begin:]


def _fits(row: str, begin: int, room: int) -> int:
    """Return where the piece ends that begins there and has so many cells."""
    if len(row) - begin <= room and row.isascii():
        return len(row)
    piece = row[begin : begin + 2 * room]
    if piece.isascii():
        return begin + min(room, len(piece))
    from rich.cells import chop_cells

    return begin + len(chop_cells(piece, room)[0])


def line(*pieces: str | tuple[str, str]) -> TextLine:
    """One line of pieces, each with its style. Blanks within a piece run together, those at its ends stay."""
    pairs = ((piece, "") if isinstance(piece, str) else piece for piece in pieces)
    return TextLine(tuple((_kept_blanks(words), style) for words, style in pairs if words))


def _kept_blanks(words: str) -> str:
    inner = one_line(words)
    if not inner:
        return " " * len(words)
    left = len(words) - len(words.lstrip(" "))
    right = len(words) - len(words.rstrip(" "))
    return " " * left + inner + " " * right


def styled(words: str, style: str) -> str:
    """Words that are safe already, in a style."""
    codes = ";".join(CODES[word] for word in style.split())
    return f"\x1b[{codes}m{words}\x1b[0m" if codes and words.strip() else words
