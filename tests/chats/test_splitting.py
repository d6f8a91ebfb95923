"""Long texts are cut into pieces that a chat takes, and no block of code is torn apart."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stenolog.chats import Fence, fence_of, split, utf16_length
from stenolog.contrib.telegram.incoming import escaped, rendered, weigh
from stenolog.errors import CallerError
from tests.chats.markdown_v2 import CannotParseError, read

WORD = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Zs", "Zl", "Zp", "Cc"]), max_size=30)
LINES = st.one_of(
    st.lists(WORD, max_size=40).map(" ".join),
    st.sampled_from(
        [
            "",
            "```",
            "```python",
            "~~~",
            "````md",
            "```\t",
            "  ```js",
            "~~~hello",
            "``` so it is",
            "# Title",
            "- one",
        ]
    ),
    st.text("aA_*`~😀 ", min_size=200, max_size=500),
)
TEXTS = st.lists(LINES, max_size=30).map("\n".join)


@pytest.mark.parametrize("weight", [utf16_length, weigh])
@given(TEXTS, st.integers(200, 700))
def test_every_piece_is_within_the_limit_and_says_something(weight: object, text: str, limit: int) -> None:
    assert callable(weight)
    pieces = split(text, limit, weight)

    assert [piece for piece in pieces if weight(piece) > limit] == []
    assert [piece for piece in pieces if not piece.strip()] == []


@given(TEXTS, st.integers(200, 700))
def test_the_pieces_together_have_every_character_of_the_text(text: str, limit: int) -> None:
    text += "\nend"  # not with a fence
    assert _said("\n".join(split(text, limit))) == _said(text)


@given(TEXTS, st.integers(200, 700))
def test_no_word_is_lost_behind_the_mark_of_a_fence(text: str, limit: int) -> None:
    fences = filter(None, map(fence_of, text.split("\n")))
    together = "\n".join(split(text, limit))

    assert [fence for fence in fences if fence.language not in together] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("~~~hello", "~~~\nhello\n~~~"),
        ("Look:\n``` the rest is silence", "Look:\n```\nthe rest is silence\n```"),
    ],
)
def test_words_behind_a_last_fence_are_shown(text: str, expected: str) -> None:
    assert split(text) == [expected]


@given(TEXTS, st.integers(200, 700))
def test_in_every_piece_each_block_of_code_has_its_beginning_and_its_end(text: str, limit: int) -> None:
    assert [piece for piece in split(text, limit) if _left_open(piece)] == []


@given(TEXTS)
def test_cutting_a_piece_again_changes_nothing(text: str) -> None:
    pieces = split(text, 300)

    assert [split(piece, 300) for piece in pieces] == [[piece] for piece in pieces]


def test_a_text_that_is_just_as_long_as_the_limit_is_one_piece() -> None:
    assert [len(piece) for piece in split("a" * 4096)] == [4096]


def test_one_more_character_makes_two_pieces() -> None:
    assert [len(piece) for piece in split("a" * 4097)] == [4096, 1]


def test_what_stands_outside_the_basic_plane_counts_as_two() -> None:
    assert [len(piece) for piece in split("😀" * 2049)] == [2048, 1]


def test_a_block_that_goes_on_is_closed_and_begun_again_with_its_language() -> None:
    code = [f"line {nth:02}" for nth in range(40)]
    first, second = split("\n".join(["before", "```python", *code, "```", "after"]), 250)

    assert first.splitlines()[1] == "```python"
    assert (first.splitlines()[-1], second.splitlines()[0]) == ("```", "```python")
    assert [line for line in (first + "\n" + second).splitlines() if line.startswith("line")] == code
    assert second.splitlines()[-2:] == ["```", "after"]


def test_no_block_without_any_code_is_left_at_the_end_of_a_piece() -> None:
    first, second = split("\n".join(["a" * 190, "```", "b" * 100, "```"]), 200)

    assert (first, second) == ("a" * 190, f"```\n{'b' * 100}\n```")


def test_a_line_is_cut_between_words_where_there_are_some() -> None:
    assert split("word " * 50, 200) == [("word " * 40).strip(), ("word " * 10).strip()]


def test_a_block_that_was_never_ended_ends_with_the_text() -> None:
    assert split("```\ncode") == ["```\ncode\n```"]


def test_a_longer_fence_holds_a_shorter_one() -> None:
    text = "````md\n```\ninner\n```\n````"

    assert split(text) == [text]


def test_a_blank_text_has_no_pieces() -> None:
    assert split(" \n\n\t\n") == []


def test_a_limit_that_holds_no_code_is_refused() -> None:
    with pytest.raises(CallerError, match="at least 200, found 10"):
        split("text", 10)


def _said(text: str) -> str:
    """Return the characters of a text, without fences and blanks."""
    return re.sub(r"\s", "", "".join(line for line in text.splitlines() if fence_of(line) is None))


def _left_open(piece: str) -> bool:
    begun: Fence | None = None
    for line in piece.split("\n"):
        found = fence_of(line)
        if begun is None:
            begun = found
        elif found and found.ends(begun):
            begun = None
    return begun is not None


# Markdown becomes what Telegram reads as MarkdownV2, whatever a model has written.


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
