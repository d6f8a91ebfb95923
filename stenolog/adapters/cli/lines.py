"""Lines of a drawing, made without rich: a log has many of them, and `stenolog log` must start at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from .safety import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType

Piece: TypeAlias = "Line | RenderableType"
"""A piece of a drawing: a line, a string that is printed as it is, or what rich can draw."""

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


class Line(NamedTuple):
    """One line: its pieces, safe, each with its style (words of `CODES`)."""

    pieces: tuple[tuple[str, str], ...]

    def rendered(self, width: int, *, coloured: bool) -> str:
        """The line, cut with an ellipsis where it is wider than `width` cells."""
        text = "".join(words for words, _ in self.pieces)
        if len(text) > width or not text.isascii():
            return self._cut(width, coloured)
        return "".join(styled(words, style) for words, style in self.pieces) if coloured else text.rstrip()

    def _cut(self, width: int, coloured: bool) -> str:
        from rich.cells import cell_len, set_cell_size

        sizes = [cell_len(words) for words, _ in self.pieces]
        too_wide = sum(sizes) > width
        left = width - 1 if too_wide else width
        shown = []
        for (words, style), size in zip(self.pieces, sizes, strict=True):
            kept = words if size <= left else f"{set_cell_size(words, left).rstrip()}…"
            shown.append(styled(kept, style) if coloured else kept)
            left -= size
            if left < 0:
                break
        return "".join(shown).rstrip()


def line(*pieces: str | tuple[str, str]) -> Line:
    """One line of pieces, each with its style. Blanks within a piece run together, those at its ends stay."""
    pairs = ((piece, "") if isinstance(piece, str) else piece for piece in pieces)
    return Line(tuple((_kept_blanks(words), style) for words, style in pairs if words))


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
