"""Lines of a drawing: safe, as wide as the screen at most, and coloured only when asked."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from stenolog.apps.cli.lines import CODES, line


def test_a_line_holds_its_columns_apart_and_its_words_on_one_line() -> None:
    assert line("a  ", "b\n\nc", "  d").rendered(40, coloured=False) == "a  b c  d"


def test_what_does_not_fit_is_cut_with_an_ellipsis() -> None:
    assert line("0123456789").rendered(10, coloured=False) == "0123456789"
    assert line("0123456789").rendered(9, coloured=False) == "01234567…"
    assert line("01234", "56789", "abc").rendered(7, coloured=False) == "012345…"


def test_wide_characters_count_for_two_cells() -> None:
    assert line("世界世界").rendered(8, coloured=False) == "世界世界"
    assert line("世界世界").rendered(7, coloured=False) == "世界世…"


def test_colours_are_for_those_who_asked() -> None:
    drawn = line(("red", "bold red"), " plain")

    assert drawn.rendered(40, coloured=False) == "red plain"
    assert drawn.rendered(40, coloured=True) == "\x1b[1;31mred\x1b[0m plain"


@given(pieces=st.lists(st.tuples(st.text(), st.sampled_from(["", *CODES]))), width=st.integers(1, 60))
def test_no_line_is_wider_than_the_screen_or_more_than_one(pieces: list[tuple[str, str]], width: int) -> None:
    drawn = line(*pieces)

    plain = drawn.rendered(width, coloured=False)
    assert cell_len(plain) <= width
    assert "\n" not in plain
    assert re.sub(r"\x1b\[[\d;]+m", "", drawn.rendered(width, coloured=True)).rstrip() == plain
