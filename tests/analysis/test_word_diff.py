"""The difference of two texts: it holds both, says little where little changed, and is quick."""

from __future__ import annotations

import random
from time import process_time

from hypothesis import given
from hypothesis import strategies as st

from stenolog.projections.analysis.word_diff import Span, word_diff

TEXTS = st.text(st.sampled_from("ab \n."), max_size=60) | st.text(max_size=20)


@given(TEXTS, TEXTS)
def test_both_texts_can_be_read_off_a_difference(old: str, new: str) -> None:
    spans = word_diff(old, new)
    assert "".join(span.text for span in spans if span.sign != "+") == old
    assert "".join(span.text for span in spans if span.sign != "-") == new
    assert all(span.text for span in spans)
    assert (old == new) == all(span.sign == "=" for span in spans)


def test_a_changed_word_is_one_word_taken_and_one_given() -> None:
    assert word_diff("one two three\nfour", "one 2 three\nfour") == (
        Span("=", "one "),
        Span("-", "two"),
        Span("+", "2"),
        Span("=", " three\nfour"),
    )


def test_where_hardly_a_word_stays_both_texts_are_whole() -> None:
    assert word_diff("a cat sat there", "nobody knows why") == (
        Span("-", "a cat sat there"),
        Span("+", "nobody knows why"),
    )


def test_texts_of_200_kb_are_compared_in_less_than_a_tenth_of_a_second() -> None:
    draw = random.Random(1)
    lines = [" ".join(f"w{draw.randrange(10_000)}" for _ in range(12)) for _ in range(3_000)]
    changed = [f"{line} more" if index % 2 else line for index, line in enumerate(lines)]
    old, new = "\n".join(lines), "\n".join(changed)
    assert len(old) > 200_000
    begin = process_time()
    spans = word_diff(old, new)
    took = process_time() - begin
    assert len(spans) > 2_000
    assert took < 0.3  # 0.06 s by itself, on a machine that others use too
