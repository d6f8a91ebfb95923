"""Markdown becomes what Telegram reads as MarkdownV2, whatever a model has written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stenolog.chats import split, utf16_length
from stenolog.contrib.telegram.incoming import escaped, rendered, weigh
from tests.chats.markdown_v2 import CannotParseError, read

MARKS = st.text("_*[]()~`>#+-=|{}.!\\ \naZ9é😀:/https", max_size=200)


@given(MARKS)
def test_any_text_can_be_read(text: str) -> None:
    for piece in split(text, weigh=weigh):
        read(rendered(piece))


@given(MARKS)
def test_rendering_makes_no_piece_heavier_than_it_was_weighed(text: str) -> None:
    assert [piece for piece in split(text, 200, weigh) if utf16_length(rendered(piece)) > weigh(piece)] == []


@given(st.text(max_size=200))
def test_what_is_escaped_is_read_as_it_was_written(text: str) -> None:
    assert read(escaped(text)) == text


@given(MARKS)
def test_letters_and_digits_are_never_lost(text: str) -> None:
    for piece in split(text, weigh=weigh):
        kept = [char for char in read(rendered(piece)) if char in "aZ9é😀"]

        assert kept == [char for char in piece if char in "aZ9é😀"]


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("1.5 is > 1!", "1\\.5 is \\> 1\\!"),
        ("**bold** and __bold__", "*bold* and *bold*"),
        ("*it* and _it_", "_it_ and _it_"),
        ("snake_case_name and 2*3*4", "snake\\_case\\_name and 2\\*3\\*4"),
        ("~~gone~~", "~gone~"),
        ("`a_b`", "`a_b`"),
        ("``a`b`` c", "`a\\`b` c"),
        ("# A **title**", "*A title*"),
        ("- one\n* two", "• one\n• two"),
        ("> quoted.", ">quoted\\."),
        ("[here](https://example.org/a_b?c=d)", "[here](https://example.org/a_b?c=d)"),
        ("[here](javascript:x)", "\\[here\\]\\(javascript:x\\)"),
        ("\\*not bold\\*", "\\*not bold\\*"),
        ("```python\nx = `1` \\ 2\n```", "```python\nx = \\`1\\` \\\\ 2\n```"),
        ("~~~\n*raw*\n~~~", "```\n*raw*\n```"),
        ("a ** b", "a \\*\\* b"),
    ],
)
def test_what_is_known_is_carried_over_and_the_rest_is_escaped(markdown: str, expected: str) -> None:
    assert rendered(markdown) == expected


@pytest.mark.parametrize("wrong", ["a.b", "*bold", "`code", "[x]", "*a _b* c_", "```\nx"])
def test_the_reader_that_judges_here_is_a_strict_one(wrong: str) -> None:
    with pytest.raises(CannotParseError):
        read(wrong)
