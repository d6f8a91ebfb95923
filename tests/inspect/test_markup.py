"""Markdown and code as HTML: no word is lost, and a short text does not become a long page."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stenolog.apps.inspect.reading import markup

from .words import words

SESSIONS = ("console", "pycon", "doscon", "rconsole", "psysh", "python", "json", "bash")
WIDE = f"{'a|' * 300}\n{'-|' * 300}\n"


@pytest.mark.parametrize("language", SESSIONS)
@pytest.mark.parametrize("end", ["", "\n"])
def test_code_keeps_its_last_line_whatever_its_language(language: str, end: str) -> None:
    text = f"$ ls\n>>> 1 + 1\n> x <- 1\nlast <line>{end}"
    assert shown(text, language) == text


@pytest.mark.parametrize("language", SESSIONS)
def test_code_that_is_too_long_to_be_coloured_keeps_all_its_words(language: str) -> None:
    text = "$ echo one two three\nfour five\n" * 300
    assert shown(text, language) == text
    assert shown("x" * 5_000, language) == "x" * 5_000


@given(st.text("$> .x=1\n\r'\"<", max_size=40), st.sampled_from(SESSIONS))
def test_code_is_coloured_without_a_change(text: str, language: str) -> None:
    assert shown(text, language) == text.replace("\r\n", "\n").replace("\r", "\n")


def shown(text: str, language: str) -> str:
    return unescape(re.sub(r"</?span[^>]*>", "", markup.code(text, language=language)))


@pytest.mark.parametrize("before", ["", "> ", "1. ", "- "])
def test_a_table_of_few_characters_and_many_cells_is_text(before: str) -> None:
    follows = before if before == "> " else " " * len(before)
    header, line = WIDE.splitlines()
    text = "\n".join([before + header, follows + line, *[f"{follows}b|"] * 200])
    assert len(markup.markdown(text)) < 3 * len(text)
    assert "b|" in words(markup.markdown(text))


@given(
    st.text("|-:a \n\r>1.", max_size=60),
    st.sampled_from(["", "a|b\n-|-\n", "> a|b\n> -|-\n", "- a|b\n  -|-\n"]),
)
def test_tables_have_no_more_cells_than_are_counted(text: str, before: str) -> None:
    assert len(re.findall("<t[dh][ >]", markup.markdown(before + text))) <= markup.cells(before + text)


def test_a_table_is_a_table() -> None:
    assert "<td>1</td>" in markup.markdown("|a|b|\n|-|-|\n" + "|1|2|\n" * 500)


def test_the_html_of_long_texts_is_not_kept() -> None:
    for kept in (markup._kept_markdown, markup._kept_code):
        kept.cache_clear()
    for size in (10, markup.LONGEST_KEPT, markup.LONGEST_KEPT + 1, markup.LONGEST):
        markup.markdown("x" * size)
        markup.code("x" * size)
    assert (markup._kept_markdown.cache_info().currsize, markup._kept_code.cache_info().currsize) == (2, 2)
