"""The help that value classes give: names, signatures, and a short `repr`."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest

from stenolog import AgentCard, AssistantMessage, ToolCall, ToolResult, UserMessage
from stenolog.domain.base.value_help import (
    field_names,
    no_such_field,
    quoted,
    slips,
    type_name,
    with_inherited_attributes,
)
from stenolog.events import CallRef


def test_a_value_is_quoted_whole_up_to_60_characters() -> None:
    assert quoted("a" * 58) == f"'{'a' * 58}'"
    assert quoted("a" * 59) == f"'{'a' * 58}…"


def test_an_unknown_field_is_met_with_the_closest_name_and_all_names() -> None:
    assert no_such_field(["txet"], ["text", "to"]) == (
        "no such field: txet; did you mean text? There are text, to"
    )
    assert no_such_field(["zzz"], []) == "no such field: zzz. There are none"
    assert "did you mean persona" in no_such_field(["prompt"], ["persona"])
    assert "blob=log.blobs.put(data)" in no_such_field(["data"], ["blob"])
    assert "blob=" not in no_such_field(["zzz"], ["blob"])


def test_a_slip_is_a_key_like_a_known_one_that_is_missing() -> None:
    known = ["tool_call_id", "content"]

    assert slips({"tool_calls_id": 1}, known) == "no such key: tool_calls_id; did you mean tool_call_id?"
    assert slips({"tool_calls_id": 1, "tool_call_id": 2, "content": 3}, known) == ""
    assert slips({"seed": 1}, known) == ""
    assert slips({"error": 1}, ["is_error"]) == "no such key: error; did you mean is_error?"


def test_a_signature_has_what_is_given_by_place_first_and_the_type_last() -> None:
    assert field_names(UserMessage)[0] == "text"
    assert field_names(ToolCall)[-1] == "type"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Annotated[int, "positive"], "int"),
        (tuple[str, ...], "Sequence[str]"),
        (tuple[str, int], "tuple[str, int]"),
        (int | None, "int | None"),
        (Literal["a", 1], "Literal['a', 1]"),
        (dict[str, list[int]], "dict[str, list[int]]"),
    ],
)
def test_a_type_is_named_as_one_would_write_it(kind: object, name: str) -> None:
    assert type_name(kind) == name


def test_a_repr_has_what_is_no_default_and_short_names_of_parts() -> None:
    call = ToolCall(id="c", name="shell")

    assert repr(UserMessage("Hi", author="Ada")) == "UserMessage(text='Hi', author='Ada')"
    assert repr(AgentCard()) == "AgentCard()"
    assert repr(AssistantMessage(agent="a", tool_calls=[call])) == (
        "AssistantMessage(agent='a', tool_calls=(ToolCall(id='c', name='shell'),))"
    )
    assert repr(ToolResult(call_id="c", call=CallRef(entry="e"))) == (
        "ToolResult(call_id='c', call=CallRef(entry='e'))"
    )
    assert len(repr(UserMessage("x" * 5_000))) < 100


def test_attributes_of_bases_follow_a_classs_own() -> None:
    class Base:
        """A base.

        Attributes:
            one: First.
        """

    assert with_inherited_attributes("A value.", [Base]) == "A value."
    joined = with_inherited_attributes("A value.\n\nAttributes:\n    two: Second.\n", [Base])
    assert joined.index("two: Second.") < joined.index("one: First.")
