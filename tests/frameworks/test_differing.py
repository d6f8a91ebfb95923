"""What a framework's JSON says beyond an event is a difference, and nothing of it is lost."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stenolog.adapters.frameworks.shared import apply_patch, make_patch
from tests.strategies import json_values


@given(plain=json_values() | st.text(max_size=3), other=json_values())
def test_a_difference_makes_the_one_into_the_other(plain: Any, other: Any) -> None:
    written = json.loads(json.dumps(make_patch(plain, other)))

    assert json.dumps(apply_patch(plain, written), sort_keys=True) == json.dumps(other, sort_keys=True)


def test_what_is_the_same_is_not_said_again() -> None:
    plain = {"role": "user", "content": [{"type": "text", "text": "a long text"}], "id": ""}
    given = {"role": "user", "content": [{"type": "text", "text": "a long text", "n": 1}]}

    assert make_patch(plain, given) == {
        "in": {"content": {"in": {"0": {"in": {"n": {"is": 1}}}}}},
        "less": ["id"],
    }
    assert make_patch('{"a":1}', {"a": 1}) == {"json": True}
    assert make_patch(given, given) == {}


def test_true_is_not_one() -> None:
    assert (make_patch(1, True), apply_patch(1, make_patch(1, True))) == ({"is": True}, True)
