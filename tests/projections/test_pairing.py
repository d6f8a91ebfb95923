"""Which result belongs to which call, where ids repeat, are missing, or name what is not there."""

from __future__ import annotations

import pytest
from hypothesis import given

from stenolog import AssistantMessage, Entry, Event, LlmError, ToolCall, ToolResult, UserMessage
from stenolog.domain.lanes.step import fold
from stenolog.events import CallRef
from stenolog.projections.json_checks import misfit
from stenolog.projections.terminal_text import call_code, in_plain_sight, shown_call
from stenolog.projections.views.tool_pairs import CallKey, pair
from stenolog.testing import entries, example_conversation
from tests.strategies import decided, logs


def calling(*ids: str) -> AssistantMessage:
    return AssistantMessage(agent="coder", tool_calls=[ToolCall(id=id, name="shell") for id in ids])


def result(id: str, entry: str | None = None, index: int = 0) -> ToolResult:
    return ToolResult(call_id=id, call=CallRef(entry=entry, index=index) if entry else None)


def pairs(*events: Event) -> dict[int, tuple[int, int] | None]:
    """Return the call of each result: the position of its entry, and its place there."""
    return dict(pair(entries(*events)).calls)


@pytest.mark.parametrize(
    ("events", "calls"),
    [
        ([calling("a", "b"), result("b"), result("a")], {2: (1, 1), 3: (1, 0)}),
        ([calling("a", "a"), result("a"), result("a")], {2: (1, 0), 3: (1, 1)}),
        ([calling("a"), calling("a"), result("a"), result("a")], {3: (2, 0), 4: (1, 0)}),
        ([calling("a"), result("a"), result("a")], {2: (1, 0), 3: None}),
        ([result("a"), calling("a")], {1: None}),
        ([calling(""), result("")], {2: (1, 0)}),
        ([calling("a"), result("b")], {2: None}),
    ],
    ids=[
        "any order",
        "twice in one",
        "the nearest",
        "once",
        "not before its call",
        "an empty id",
        "no such id",
    ],
)
def test_a_result_goes_to_the_nearest_unanswered_call_of_its_id(
    events: list[Event], calls: dict[int, tuple[int, int] | None]
) -> None:
    assert pairs(*events) == calls


@pytest.mark.parametrize(
    ("named", "call"),
    [
        (result("a", "e1", 1), (1, 1)),
        (result("of another id", "e1", 1), (1, 1)),
        (result("a", "e1", 2), None),
        (result("a", "e9"), None),
        (result("a", "e3"), None),
    ],
    ids=["by its own id", "by another id", "an index too far", "no such entry", "no such message"],
)
def test_a_result_that_names_its_call_goes_there_and_nowhere_else(
    named: ToolResult, call: tuple[int, int] | None
) -> None:
    assert pairs(calling("a", "a"), calling("a"), UserMessage(text="Hi"), named) == {4: call}


def test_a_named_call_that_has_its_result_takes_no_second() -> None:
    assert pairs(calling("a"), result("a"), result("a", "e1")) == {2: (1, 0), 3: None}


def test_calls_of_an_answer_that_was_cut_off_take_no_result() -> None:
    cut = LlmError(agent="coder", category="timeout", tool_calls=[ToolCall(id="a", name="shell")])

    assert pairs(cut, result("a")) == {2: None}


def test_a_second_result_is_told_from_one_of_a_call_that_never_was() -> None:
    pairing = pair(entries(calling("a"), result("a"), result("a"), result("b")))

    assert pairing.second == {3}


@given(log=logs())
def test_a_call_has_at_most_one_result_and_a_result_at_most_one_call(log: list[Entry]) -> None:
    pairing = pair(log)
    paired = {position: key for position, key in pairing.calls.items() if key is not None}

    assert pairing.results == {key: position for position, key in paired.items()}
    assert all(key.position < position for position, key in paired.items())
    assert set(pairing.calls) == {entry.position for entry in log if isinstance(entry.event, ToolResult)}


@given(log=decided().map(lambda history: entries(*history)))
def test_the_step_and_the_pairing_agree_on_every_result_that_names_its_call(log: list[Entry]) -> None:
    pairing = pair(log)
    for entry in log:
        if isinstance(entry.event, ToolResult) and entry.event.call is not None:
            before = {CallKey(c.position, c.nth) for _, c in fold(log[: entry.position - 1]).open_calls()}
            after = {CallKey(c.position, c.nth) for _, c in fold(log[: entry.position]).open_calls()}

            assert before - after == {pairing.calls[entry.position]}


def test_the_story_leaves_no_result_without_its_call() -> None:
    assert None not in pair(entries(*example_conversation())).calls.values()


# A call before a person who decides about it: nothing in it is hidden, and its code names it alone.


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
