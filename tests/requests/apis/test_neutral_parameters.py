"""A card's parameters: names that no provider owns are said in each one's words, its own pass as they are."""

from __future__ import annotations

from typing import Any

import pytest

from stenolog import AgentCard, Event, ModeSwitch, Request, Tool, UserMessage
from stenolog.errors import CallerError
from stenolog.projections.formats.parameters import merged
from stenolog.projections.requests import build
from stenolog.testing import entries

ASKED = UserMessage(text="List the files")
SHELL = Tool(name="shell")
ODD = Tool(name="a b")
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
OUTPUT = {"name": "answer", "schema": SCHEMA, "strict": True}
CHAT, RESPONSES = "openai-chat", "openai-responses"


def asked(api: str, *, model: str = "gpt-5", tools: tuple[Tool, ...] = (SHELL,), **given: Any) -> Request:
    switch: Event = ModeSwitch(cards={"coder": AgentCard(model=model, tools=tools, parameters=given)})
    return build(entries(switch, ASKED), "coder", api=api)


def said(api: str, **given: Any) -> dict[str, Any]:
    """Return the fields that the parameters add to the body."""
    plain = asked(api).body
    return {name: value for name, value in asked(api, **given).body.items() if name not in plain}


def lost(request: Request) -> list[tuple[int, str, str]]:
    """Return the parameters that were not carried, with the position of the switch that set them."""
    return [(run.first, run.rule, run.what) for run in request.omissions]


Given = dict[str, Any]
SAME: list[Given] = [
    {"temperature": 0.5, "top_p": 1},
    {"parallel_tool_calls": False},
    *({"tool_choice": mode} for mode in ("auto", "none", "required")),
]
SAID: list[tuple[Given, Given, Given]] = [
    *((given, given, given) for given in SAME),
    ({"max_tokens": 100}, {"max_completion_tokens": 100}, {"max_output_tokens": 100}),
    ({"stop": ["END"]}, {"stop": ["END"]}, {}),
    ({"effort": "low"}, {"reasoning_effort": "low"}, {"reasoning": {"effort": "low"}}),
    (
        {"output": OUTPUT},
        {"response_format": {"type": "json_schema", "json_schema": OUTPUT}},
        {"text": {"format": {"type": "json_schema", **OUTPUT}}},
    ),
    (
        {"tool_choice": {"tool": "shell"}},
        {"tool_choice": {"type": "function", "function": {"name": "shell"}}},
        {"tool_choice": {"type": "function", "name": "shell"}},
    ),
]


@pytest.mark.parametrize(("given", "chat", "responses"), SAID, ids=lambda given: "-".join(given))
def test_a_neutral_name_is_said_in_the_providers_words(given: Given, chat: Given, responses: Given) -> None:
    assert (said(CHAT, **given), said(RESPONSES, **given)) == (chat, responses)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("gpt-5.5-codex", "max_completion_tokens"),
        ("openai/o4-mini", "max_completion_tokens"),
        ("gpt-12", "max_completion_tokens"),
        ("gpt-4o", "max_tokens"),
        ("gpt-oss-120b", "max_tokens"),
        ("llama-o3", "max_tokens"),
    ],
)
def test_on_openai_chat_the_limit_of_an_answer_goes_by_the_name_that_the_model_takes(
    model: str, name: str
) -> None:
    assert asked(CHAT, model=model, max_tokens=100).body[name] == 100


def test_a_providers_own_names_pass_as_they_are_and_win() -> None:
    chat = said(CHAT, max_tokens=100, max_completion_tokens=7, reasoning_effort="minimal", effort="high")
    responses = said(
        RESPONSES, effort="high", reasoning={"summary": "auto"}, text={"verbosity": "low"}, output=OUTPUT
    )

    assert chat == {"max_completion_tokens": 7, "reasoning_effort": "minimal"}
    assert responses["reasoning"] == {"effort": "high", "summary": "auto"}
    assert set(responses["text"]) == {"format", "verbosity"}


def test_an_object_is_taken_over_key_by_key_unless_it_says_of_what_type_it_is() -> None:
    below = {"a": {"x": 1, "y": 1}, "b": {"type": "one", "z": 1}}

    both = merged(below, {"a": {"y": 2}, "b": {"type": "two"}, "c": 3})

    assert both == {"a": {"x": 1, "y": 2}, "b": {"type": "two"}, "c": 3}


def test_the_order_on_the_card_does_not_change_the_bytes_of_neutral_names() -> None:
    one, other = asked(CHAT, effort="low", max_tokens=9), asked(CHAT, max_tokens=9, effort="low")

    assert one.bytes == other.bytes


def test_what_a_wire_does_not_carry_is_listed_by_name() -> None:
    request = asked(RESPONSES, stop=["END"], odd=1, seed=7, temperature=0.5, user=None)

    assert lost(request) == [(1, "parameter-not-carried", "stop, odd, seed")]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("effort", "enormous"),
        ("output", {"schema": SCHEMA}),
        ("output", {"name": "answer", "schema": SCHEMA, "strict": "yes"}),
        ("tool_choice", "sometimes"),
        ("tool_choice", {"type": "allowed_tools"}),
        ("parallel_tool_calls", "no"),
    ],
)
@pytest.mark.parametrize("api", [CHAT, RESPONSES])
def test_a_malformed_value_is_not_sent_but_listed(api: str, name: str, value: Any) -> None:
    request = asked(api, **{name: value})

    assert request.body == asked(api).body
    assert lost(request) == [(1, "parameter-not-carried", name)]


@pytest.mark.parametrize("api", [CHAT, RESPONSES])
def test_without_tools_nothing_is_chosen_among_them(api: str) -> None:
    request = asked(api, tools=(), tool_choice="auto", parallel_tool_calls=True)

    assert request.body == asked(api, tools=()).body
    assert lost(request) == [(1, "parameter-not-carried", "tool_choice, parallel_tool_calls")]


@pytest.mark.parametrize(
    "choice",
    [
        {"tool": "shel"},
        {"type": "tool", "name": "shel"},
        {"type": "function", "name": "shel"},
        {"type": "function", "function": {"name": "shel"}},
    ],
)
@pytest.mark.parametrize("api", [CHAT, RESPONSES])
def test_a_choice_of_a_tool_that_does_not_exist_is_an_error_that_names_it(api: str, choice: Any) -> None:
    with pytest.raises(CallerError, match=r"agent 'coder': .*'shel'.*; known are 'shell', 'a b'"):
        asked(api, tools=(SHELL, ODD), tool_choice=choice)


def test_a_choice_goes_by_the_name_that_the_tool_is_declared_by() -> None:
    body = asked(RESPONSES, tools=(SHELL, ODD), tool_choice={"tool": "a b"}).body

    assert body["tool_choice"]["name"] == body["tools"][1]["name"]


def test_on_openai_chat_the_word_json_stands_behind_the_persona() -> None:
    as_object: Given = {"response_format": {"type": "json_object"}}
    switch: Event = ModeSwitch(cards={"coder": AgentCard(persona="You are a coder.", parameters=as_object)})

    request = build(entries(switch, ASKED), "coder", api=CHAT)

    content = [message["content"] for message in request.body["messages"]]
    assert content == ["You are a coder.\n\n[answer in JSON]", "List the files"]
    assert [(part.rule, part.message) for part in request.parts[:2]] == [("persona", 0), ("json-note", 0)]
