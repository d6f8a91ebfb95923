"""What a framework's JSON says beyond an event is a difference, and nothing of it is lost."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stenolog.adapters.frameworks.differing import applied, difference
from tests.strategies import json_values


@given(plain=json_values() | st.text(max_size=3), other=json_values())
def test_a_difference_makes_the_one_into_the_other(plain: Any, other: Any) -> None:
    written = json.loads(json.dumps(difference(plain, other)))

    assert json.dumps(applied(plain, written), sort_keys=True) == json.dumps(other, sort_keys=True)


def test_what_is_the_same_is_not_said_again() -> None:
    plain = {"role": "user", "content": [{"type": "text", "text": "a long text"}], "id": ""}
    given = {"role": "user", "content": [{"type": "text", "text": "a long text", "n": 1}]}

    assert difference(plain, given) == {
        "in": {"content": {"in": {"0": {"in": {"n": {"is": 1}}}}}},
        "less": ["id"],
    }
    assert difference('{"a":1}', {"a": 1}) == {"json": True}
    assert difference(given, given) == {}


def test_true_is_not_one() -> None:
    assert (difference(1, True), applied(1, difference(1, True))) == ({"is": True}, True)
