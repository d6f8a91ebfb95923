"""A call before a person who decides about it: nothing in it is hidden, and its code names it alone."""

from __future__ import annotations

import pytest

from stenolog.domain.values import CallRef
from stenolog.projections.json_checks import misfit
from stenolog.projections.terminal_text import call_code, in_plain_sight, shown_call

EUROPE_AND_ASIA = "na\u00efve caf\u00e9 \u65e5\u672c\u8a9e \uff0c\uff01"
RUSSIAN = "\u041f\u0440\u0438\u0432\u0435\u0442, \u0410\u043d\u043d\u0430"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n\ttext", "plain\n\ttext"),
        ("a\u200bb\u00adc\u3164d\u00a0e\u202ef\U000e0041\ufe0f", None),
        ("\uff41\uff44\uff4d\uff49\uff4e \u2215 \U0001d41a", None),
        (EUROPE_AND_ASIA, EUROPE_AND_ASIA),
        (RUSSIAN, RUSSIAN),
        ("p\u0430ypal", r"p\u0430ypal"),
        ('"\u0430\u0440\u0440\u04cf\u0435"', r'"\u0430\u0440\u0440\u04cf\u0435"'),
        ("```\n~~~", "\\u0060\\u0060\\u0060\n~~~"),
        ("a" + " " * 500 + "b", "a[500 blanks]b"),
        ("a" + "\n" * 500 + "b", "a\n[499 blank lines]\nb"),
    ],
)  # fmt: skip
def test_what_is_invisible_or_looks_like_ascii_is_escaped_and_other_text_is_not(
    text: str, shown: str | None
) -> None:
    seen = in_plain_sight(text)

    if shown is None:
        assert (seen.isascii(), seen.count("\\") > 0) == (True, True)
    else:
        assert seen == shown


def test_all_of_a_long_call_is_shown() -> None:
    assert len(shown_call("sh", "x" * 100_000)) == 100_004


def test_a_code_is_of_the_entry_the_index_the_tool_and_the_arguments() -> None:
    ref, other = CallRef(entry="e1"), CallRef(entry="e1", index=1)
    codes = [
        call_code(ref, "pay", "{}"),
        call_code(other, "pay", "{}"),
        call_code(CallRef(entry="e2"), "pay", "{}"),
        call_code(ref, "sell", "{}"),
        call_code(ref, "pay", '{"n": 1}'),
    ]

    assert len({*codes}) == 5
    assert codes[0] == call_code(ref, "pay", "{}")
    assert {len(code) for code in codes} == {5}


SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "how": {"enum": ["slow", "fast"]},
        "who": {"type": "array", "items": {"$ref": "#/$defs/Name"}},
        "at": {"anyOf": [{"type": "number"}, {"type": "null"}]},
    },
    "required": ["n"],
    "additionalProperties": False,
    "$defs": {"Name": {"type": "string"}},
}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"n": 1, "how": "slow", "who": ["a"], "at": None}, ""),
        ({"n": 1.0}, ""),
        ([], "the arguments: expected object, found []"),
        ({}, "/n: expected a value, found none"),
        ({"n": True}, "/n: expected integer, found True"),
        ({"n": 1, "m": 2}, "/m: no such argument; there are n, how, who, at"),
        ({"n": 1, "how": "so"}, "/how: expected one of ['slow', 'fast'], found 'so'"),
        ({"n": 1, "who": ["a", 2]}, "/who/1: expected string, found 2"),
        ({"n": 1, "at": "now"}, "/at: 'now' fits none of 2 schemas"),
    ],
)
def test_the_first_place_that_does_not_fit_a_schema_is_named(value: object, why: str) -> None:
    assert misfit(value, SCHEMA) == why


def test_a_schema_that_names_itself_comes_to_an_end() -> None:
    schema = {"$defs": {"A": {"$ref": "#/$defs/A"}}, "$ref": "#/$defs/A"}

    assert misfit({"a": 1}, schema) == ""
