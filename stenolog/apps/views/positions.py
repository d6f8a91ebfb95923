"""Positions as they are written, on the command line and in an address."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from stenolog.domain.errors import InvalidEventError
from stenolog.domain.values import PositionRange

LONGEST = 15
"""The most digits of a number; Python refuses to read one of some thousand."""


def is_number(written: str) -> bool:
    """Return whether a text is a whole number in ASCII digits, short enough for a position or a count."""
    return written.isascii() and written.isdecimal() and len(written) <= LONGEST


def position_ranges(written: Iterable[str], resolve: Callable[[str], int]) -> Iterator[PositionRange]:
    """Yield the positions that were written: `91`, `40-44`, several separated by commas.

    `resolve` returns the position of a piece, or refuses it. Raises `InvalidEventError` for a range that ends
    before it begins.
    """
    for piece in (piece.strip() for each in written for piece in each.split(",")):
        first, dash, last = (part.strip() for part in piece.partition("-"))
        if not (is_number(first) and (is_number(last) or not dash)):
            first, last = piece, ""
        begin = resolve(first)
        end = resolve(last) if last else begin
        if end < begin:
            raise InvalidEventError(f"positions: expected the lower one first, found {piece!r}")
        yield PositionRange(first=begin, last=end)
