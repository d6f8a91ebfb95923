"""How much of a result is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stenolog.adapters.tools.base import Attachment, ToolOutput
from stenolog.adapters.tools.functions import tool
from stenolog.adapters.tools.results import LARGEST_META, truncate_output
from tests.tools.given import outcome

ANY = st.characters(exclude_categories=())  # halves of surrogate pairs too


def test_a_text_of_100_mb_and_more_is_cut_and_says_by_how_much() -> None:
    found = outcome(tool(lambda: "x" * 120_000_000, name="f"))

    kept, note = found.content
    assert len(kept) == 100_000_000
    assert (
        note == "[20,000,000 of 120,000,000 bytes of this result were left out; at most 100,000,000 are kept]"
    )


def test_a_text_is_cut_between_characters_as_a_reader_sees_them() -> None:
    def cut(words: str, limit: int) -> object:
        return truncate_output(ToolOutput((words,)), limit).content[0]

    assert cut("дада", 5) == "да"
    assert cut("a👨‍👩‍👧‍👦b", 20) == "a"
    assert cut("ae\u0301b", 2) == "a"
    assert cut("ab", 2) == "ab"


def test_what_fits_is_kept_and_what_does_not_is_counted() -> None:
    big, small = Attachment(b"x" * 900, "image/png"), Attachment(b"y" * 50)

    found = truncate_output(ToolOutput(("words", big, small, "more words")), 60)

    assert found.content == (
        "words", small, "more ", "[905 of 965 bytes of this result were left out; at most 60 are kept]",
    )  # fmt: skip


@given(st.lists(st.text(ANY, max_size=20) | st.binary(max_size=20)), st.integers(1, 60))
def test_never_more_than_the_limit_is_kept_and_all_of_it_can_be_written(
    items: list[str | bytes], limit: int
) -> None:
    content = tuple(item if isinstance(item, str) else Attachment(item) for item in items)

    found = truncate_output(ToolOutput(content), limit).content
    sizes = [len(item.encode()) if isinstance(item, str) else len(item.content) for item in found]
    whole = sum(len(i.encode(errors="replace")) if isinstance(i, str) else len(i.content) for i in content)

    assert sum(sizes[:-1] if whole > limit else sizes) <= limit
    assert (len(found) > 0 and str(found[-1]).endswith(f"at most {limit:,} are kept]")) == (whole > limit)


# Meta


@pytest.mark.parametrize(
    ("meta", "kept"),
    [
        ({"app": {"n": [1, None, "é"]}}, {"app": {"n": [1, None, "é"]}}),
        ({"app": (1, {2})}, {"app": [1, [2]]}),
        ({"app": object()}, "Unable to serialize unknown type"),
        ({"app": float("nan")}, "expected a finite number"),
        ({"app": "\ud83d"}, "surrogates not allowed"),
        ({"app": "x" * LARGEST_META}, "expected at most 64,000 bytes, found 64,010"),
    ],
)
def test_meta_that_no_log_can_hold_is_left_out_and_that_is_said(meta: Mapping[str, Any], kept: Any) -> None:
    found = truncate_output(ToolOutput(("x",), meta=meta), 10).meta

    assert found == kept or kept in found["stenolog"]["meta left out"]
