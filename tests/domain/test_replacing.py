"""Replacing fields of a named tuple: what `_replace` gives, in less time."""

from __future__ import annotations

import pytest

from stenolog.domain.model import field_replacer
from stenolog.domain.state import LaneState


def test_it_gives_what_replace_gives() -> None:
    lane = LaneState("coder", "docs", asked=3, steps=2, session="s1", category="timeout")

    made = field_replacer(LaneState, "session", "asked")(lane, "s2", 5)

    assert made == lane._replace(session="s2", asked=5)
    assert type(made) is LaneState


@pytest.mark.parametrize("given", [(), (5,)])
def test_every_value_is_to_be_given(given: tuple[int, ...]) -> None:
    with pytest.raises(IndexError):
        field_replacer(LaneState, "session", "asked")(LaneState("coder"), *given)


def test_a_field_that_is_not_there_is_refused() -> None:
    with pytest.raises(TypeError, match="LaneState: no such field: role"):
        field_replacer(LaneState, "asked", "role")
