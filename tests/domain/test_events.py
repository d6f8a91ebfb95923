"""The events as they are made and read in Python."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
from typing import Any, get_args

import pytest
from hypothesis import given

from stenolog import (
    UNCHANGED,
    AgentCard,
    AssistantMessage,
    Event,
    LlmError,
    ModeSwitch,
    TextPart,
    Tool,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.errors import InvalidEventError
from stenolog.events import Known, PositionRange, Unknown, dump_event
from stenolog.parts import ImagePart, ReasoningPart
from stenolog.testing import examples
from tests.strategies import events

CALL = ToolCall(id="c1", name="look")


def test_there_are_five_kinds_and_each_has_its_topic_and_its_example() -> None:
    kinds = [cls.kind for cls in get_args(Known)]

    assert kinds == ["user_message", "assistant_message", "tool_result", "llm_error", "mode_switch"]
    assert [dump_event(event)[0] for event in examples().values()] == [f"{kind}@1" for kind in kinds]
    assert list(examples()) == kinds


def test_text_and_tool_calls_are_short_for_ordered_parts() -> None:
    said = AssistantMessage(agent="coder", text="Let me look.", tool_calls=[CALL])

    assert said == AssistantMessage(agent="coder", parts=[TextPart(text="Let me look."), CALL])
    assert (said.text, said.tool_calls) == ("Let me look.", (CALL,))


def test_the_text_of_several_parts_has_a_line_each_and_nothing_but_text() -> None:
    said = AssistantMessage(
        agent="coder", parts=[TextPart(text="One"), ReasoningPart(text="Hm"), TextPart(text="two")]
    )

    assert said.text == "One\ntwo"


def test_an_empty_text_says_nothing() -> None:
    assert UserMessage(text="").parts == ()


@pytest.mark.parametrize("name", ["data", "bytes", "base64"])
def test_bytes_of_a_picture_are_given_to_the_log_first(name: str) -> None:
    given: dict[str, Any] = {name: b"x"}
    with pytest.raises(InvalidEventError, match=r"give bytes to the log first: blob=log\.blobs\.put\(data\)"):
        ImagePart(**given)


@pytest.mark.parametrize("kind", [UserMessage, AssistantMessage, ToolResult, LlmError])
def test_text_and_parts_cannot_both_be_given(kind: type[Any]) -> None:
    with pytest.raises(InvalidEventError, match="not both"):
        kind(text="One", parts=[TextPart(text="two")])


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"sesame": "Hi"}, "UserMessage: no such field: sesame"),
        ({"author": 7}, "UserMessage: /author: expected a valid string, found 7"),
        ({"replaces": True}, "UserMessage: /replaces: expected a valid integer, found True"),
        ({"replaces": "sesame"}, "UserMessage: /replaces: expected a valid integer, found 'sesame'"),
        (
            {"replaces": 2**63},
            "UserMessage: /replaces: expected less than 9223372036854775808",
        ),
        ({"parts": [CALL]}, "UserMessage: /parts/0: no such type"),
        ({"to": "sesame"}, "UserMessage: /to: expected a list, found a text; write to=['sesame']"),
        ({"to": ["a", 7]}, "UserMessage: /to/1: expected a valid string, found 7"),
        ({"author_kind": "sesame"}, "UserMessage: /author_kind: expected"),
        ({"tags": {"sesame"}}, "UserMessage: /tags: expected a valid tuple, found {'sesame'}"),
        ({"control": {"action": "cancel"}}, "UserMessage: /control: expected"),
        (
            {"meta": {"app": {"sesame"}}},
            "UserMessage: /meta: input was not a valid JSON value, found {'sesame'}",
        ),
    ],
    ids=str,
)
def test_what_is_not_of_the_fields_type_makes_no_event(wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidEventError) as caught:
        UserMessage(**wrong)

    assert str(caught.value).startswith(complaint)


def test_an_event_without_what_it_needs_says_what_it_needs() -> None:
    with pytest.raises(InvalidEventError, match="AssistantMessage: /agent: expected a value, found none"):
        AssistantMessage(text="Hi")  # type: ignore[call-arg]


def test_the_text_may_be_given_by_place_and_everything_else_by_name() -> None:
    make: Any = UserMessage

    assert make("Hi", author="Ada") == UserMessage(text="Hi", author="Ada")
    assert AssistantMessage("Hi", agent="coder") == AssistantMessage(agent="coder", text="Hi")
    with pytest.raises(
        InvalidEventError, match="expected at most text by place, each once; its fields are text, parts,"
    ):
        make("Hi", "Ada")
    with pytest.raises(InvalidEventError, match="expected text once, found it twice"):
        make("Hi", text="Hi")


def test_a_list_stands_for_a_tuple() -> None:
    assert UserMessage(to=["coder"], tags=["a"]) == UserMessage(to=("coder",), tags=("a",))


def test_an_event_cannot_be_changed_but_a_changed_copy_can_be_made() -> None:
    message: Any = UserMessage(text="Hi", to=["coder"])
    with pytest.raises((AttributeError, TypeError)):
        message.to = ()

    assert dataclasses.replace(message, to=()) == UserMessage(text="Hi")


def test_an_event_does_not_change_with_the_dictionary_it_was_made_of() -> None:
    meta: dict[str, Any] = {"app": {"seen": [1]}}
    message = UserMessage(meta=meta)
    meta["app"]["seen"].append(2)

    assert message.meta == {"app": {"seen": [1]}}


@given(event=events())
def test_an_event_travels_between_processes(event: Event) -> None:
    assert pickle.loads(pickle.dumps(event)) == event
    assert copy.deepcopy(event) == event


def test_patterns_match_by_keyword() -> None:
    match AssistantMessage(agent="coder", text="Hi", tool_calls=[CALL]):
        case AssistantMessage(agent="coder", text=text, tool_calls=(ToolCall(name=name),)):
            found = (text, name)
        case _:
            found = ("", "")

    assert found == ("Hi", "look")


@pytest.mark.parametrize(("position", "inside"), [(1, False), (2, True), (4, True), (5, False)])
def test_a_span_holds_both_its_ends(position: int, inside: bool) -> None:
    assert (position in PositionRange(first=2, last=4)) is inside


def test_an_event_is_equal_to_one_of_the_same_fields_and_kind_only() -> None:
    empty: list[Event] = [UserMessage(), ModeSwitch(), Unknown(topic="a@1", payload=b"")]

    assert [[one == other for other in empty] for one in empty] == [
        [True, False, False],
        [False, True, False],
        [False, False, True],
    ]


def test_a_setting_that_is_left_alone_is_not_shown_and_one_that_is_cleared_is() -> None:
    assert repr(ModeSwitch(title=None)) == "ModeSwitch(title=None)"
    assert repr(UNCHANGED) == "UNCHANGED"


@pytest.mark.parametrize("name", ["", "coder/docs", "/"])
def test_an_agents_name_is_not_empty_and_holds_no_slash(name: str) -> None:
    with pytest.raises(InvalidEventError, match="/agent"):
        AssistantMessage(agent=name)


@pytest.mark.parametrize("wrong", [{"first": 0, "last": 1}, {"first": 1, "last": -(2**63)}])
def test_positions_begin_at_one(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidEventError, match="greater than or equal to 1"):
        PositionRange(**wrong)


@pytest.mark.parametrize(
    ("wrong", "question"),
    [
        ({"content": "Hi"}, "no such field: content; did you mean text? There are text, parts, author,"),
        ({"auhtor": "Ada"}, "no such field: auhtor; did you mean author? There are text,"),
        ({"colour": "red"}, "no such field: colour. There are text,"),
    ],
)
def test_an_unknown_field_is_answered_with_the_closest_one_and_the_list(
    wrong: dict[str, Any], question: str
) -> None:
    with pytest.raises(InvalidEventError, match=re.escape(question)):
        UserMessage(**wrong)


@pytest.mark.parametrize("kind", [*get_args(Known), Tool, ToolCall, AgentCard])
def test_the_signature_and_the_help_of_a_class_show_every_field(kind: type[Any]) -> None:
    names = {each.name for each in dataclasses.fields(kind)}

    assert names <= inspect.signature(kind).parameters.keys()
    if kind in get_args(Known):
        help_text = inspect.getdoc(kind) or ""
        assert {name for name in names if f"\n    {name}: " not in help_text} == set()


@pytest.mark.parametrize("name", ["text", "author", "colour"])
def test_no_attribute_of_an_event_can_be_set_or_deleted(name: str) -> None:
    message = UserMessage("x")

    with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot assign to field '{name}'"):
        setattr(message, name, "y")
    with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot delete field '{name}'"):
        delattr(message, name)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"role": "user", "content": "hi"},
            "found dict; for a chat message: conversation.extend(events_from(",
        ),
        ([], "found list; for chat messages: conversation.extend(events_from(messages"),
        ("hi", "found str; of a text, UserMessage('hi') makes one"),
        (UserMessage, "found the class UserMessage; a value of it is UserMessage(...)"),
        (None, "found NoneType"),
    ],
)
def test_what_is_no_event_is_answered_with_how_one_is_made(given: Any, said: str) -> None:
    with pytest.raises(
        InvalidEventError, match=re.escape(f"expected one of the five kinds of event, {said}")
    ):
        dump_event(given)
