"""Where words stood before: the longest run of them, in the texts that a request is made of."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stenolog.projections.analysis.origins import origins

TEXTS = ["Then fix it at the root. Don't touch the tests.", "The parser reads local time.", "FAILED tests"]


def test_words_are_found_in_other_letters_and_the_longest_run_comes_first() -> None:
    first, *_ = origins("without TOUCHING, no: don't touch — the tests", TEXTS)

    assert (first.text, first.found, first.words) == (0, "Don't touch the tests", 5)
    assert first.before.endswith("root. ")
    assert first.after == "."


def test_words_that_stood_nowhere_have_no_origin_and_one_word_is_found_if_no_more_is_asked() -> None:
    assert origins("as the model says", TEXTS) == []
    assert [one.text for one in origins("tests", TEXTS)] == [0, 2]
    assert origins("", TEXTS) == []


@pytest.mark.parametrize(
    ("wanted", "text"), [("北京", "我住在北京市"), ("=>", "a => b"), ("pars", "the parser"), ("·", "1 · 2")]
)
def test_signs_parts_of_words_and_words_without_blanks_are_found_as_they_are(wanted: str, text: str) -> None:
    (one,) = origins(wanted, ["other", text])

    assert (one.text, one.found, one.before + one.found + one.after) == (1, wanted, text)


def test_a_part_of_a_word_is_looked_for_only_if_no_whole_word_is_found() -> None:
    assert [one.text for one in origins("test", ["testing", "a test"])] == [1]


@given(st.lists(st.text("ab .", max_size=30), max_size=5), st.text("ab .", max_size=30))
def test_what_is_found_stands_in_its_text_and_is_a_run_of_the_words(texts: list[str], wanted: str) -> None:
    def words(text: str) -> list[str]:
        return re.findall(r"\w+", text.lower())

    asked = words(wanted)
    for one in origins(wanted, texts):
        assert one.before + one.found + one.after in texts[one.text]
        run = words(one.found)
        assert len(run) == one.words
        assert any(asked[at : at + len(run)] == run for at in range(len(asked) + 1))
