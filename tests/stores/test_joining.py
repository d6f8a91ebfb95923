"""An agent joins in one line: its card is one mode switch, which is appended when it changes something."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import stenolog
from stenolog import AgentCard, Conversation, ModeSwitch, Tool, UserMessage
from stenolog.context import LastN
from stenolog.errors import CallerError, InvalidEventError
from stenolog.tools import ToolContext, tool
from tests.requests.judging import needs_judges

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = Tool(name="weather", description="Tell the weather.", parameters=SCHEMA)
CHAT = {
    "type": "function",
    "function": {"name": "weather", "description": "Tell the weather.", "parameters": SCHEMA},
}
RESPONSES = {
    "type": "function",
    "name": "weather",
    "description": "Tell the weather.",
    "parameters": SCHEMA,
    "strict": True,
}
ANTHROPIC = {"name": "weather", "description": "Tell the weather.", "input_schema": SCHEMA}


def weather(city: str) -> str:
    """Tell the weather."""
    return f"rain in {city}"


def in_a_call(city: str, call: ToolContext) -> str:
    """Tell the weather."""
    return call.key


@pytest.fixture
def talk() -> Iterator[Conversation]:
    with stenolog.open(":memory:") as log:
        yield log["x"]


def test_joining_appends_one_mode_switch_with_the_card(talk: Conversation) -> None:
    policy = LastN(3)
    entry = talk.join(
        "coder",
        model="gpt-5",
        persona="You code.",
        tools=[WEATHER],
        parameters={"temperature": 0.2},
        policy=policy,
    )

    card = AgentCard(
        model="gpt-5", persona="You code.", tools=[WEATHER], parameters={"temperature": 0.2}, policy=policy
    )
    assert entry is not None
    assert entry.event == ModeSwitch(joins=["coder"], cards={"coder": card})
    assert (talk.position, talk.settings().members) == (1, ("coder",))


def test_joining_again_with_the_same_card_appends_nothing(talk: Conversation) -> None:
    talk.join("coder", model="gpt-5", tools=[weather])

    assert talk.join("coder", model="gpt-5", tools=[weather]) is None
    assert talk.position == 1


def test_what_a_later_join_leaves_out_stays_on_the_card(talk: Conversation) -> None:
    talk.join("coder", model="gpt-5", persona="You code.", tools=[WEATHER], parameters={"stop": ["."]})
    entry = talk.join("coder", model="gpt-6", policy=LastN(3))

    assert entry is not None
    parameters: dict[str, Any] = {"stop": ["."]}
    card = AgentCard(
        model="gpt-6", persona="You code.", tools=[WEATHER], parameters=parameters, policy=LastN(3)
    )
    assert entry.event == ModeSwitch(cards={"coder": card})
    assert talk.join("coder", model="gpt-6") is None
    assert talk.join("coder") is None


def test_what_is_given_empty_is_taken_from_the_card(talk: Conversation) -> None:
    talk.join("coder", model="m", persona="x", tools=[WEATHER], parameters={"n": 1}, policy=LastN(3))
    talk.join("coder", model="", persona="", tools=[], parameters={}, policy={})

    assert talk.settings().card_of("coder") == AgentCard()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("modle", "join: no such argument: modle; did you mean model?"),
        ("system", "join: no such argument: system; did you mean persona?"),
        ("instructions", "join: no such argument: instructions; did you mean persona?"),
        ("temperature", 'the provider\'s own go in parameters={"temperature": 0.2}'),
    ],
)
def test_an_argument_that_there_is_not_is_answered_with_the_one_that_is_meant(
    talk: Conversation, tmp_path: Path, given: str, said: str
) -> None:
    async def run() -> None:
        async with stenolog.open_async(tmp_path / "a.db") as log:
            await log["x"].join("coder", **{given: "x"})  # type: ignore[arg-type]

    with pytest.raises(CallerError, match=re.escape(said)):
        talk.join("coder", **{given: "x"})  # type: ignore[arg-type]
    with pytest.raises(CallerError, match=re.escape(said)):
        asyncio.run(run())


def test_an_agent_that_has_left_joins_again(talk: Conversation) -> None:
    talk.join("coder", model="gpt-5")
    talk.append(ModeSwitch(leaves=["coder"]), expected=talk.position)
    talk.join("coder", model="gpt-5")
    talk.append(UserMessage(text="Go"))

    assert talk.request("coder").check().body["model"] == "gpt-5"


def test_many_that_join_at_once_append_one_switch(tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "a.db") as log:
        threads = [Thread(target=log["x"].join, args=("coder",), kwargs={"model": "m"}) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert log["x"].position == 1


def test_a_joined_agent_is_asked_and_its_request_may_be_sent(talk: Conversation) -> None:
    talk.append(UserMessage(text="Rain?"))
    talk.join("coder", model="gpt-5", persona="You tell the weather.", tools=[CHAT])

    assert talk.request("coder").check().body == {
        "model": "gpt-5",
        "messages": [
            {"role": "system", "content": "You tell the weather."},
            {"role": "user", "content": "Rain?"},
        ],
        "tools": [CHAT],
    }


@needs_judges
@pytest.mark.parametrize("api", ["openai-chat", "openai-responses", "anthropic", "gemini"])
def test_the_tools_of_a_function_are_what_every_provider_takes(talk: Conversation, api: str) -> None:
    from tests.requests.judging import complaints

    talk.join("coder", model="claude-opus-5" if api == "anthropic" else "gpt-5", tools=[weather])
    talk.append(UserMessage(text="Rain?"))

    assert complaints(api, talk.request("coder", api=api).check().body) == []


@pytest.mark.parametrize(
    "given",
    [WEATHER, weather, in_a_call, tool(weather), CHAT, ANTHROPIC, ANTHROPIC | {"type": "custom"}],
    ids=["Tool", "function", "function of a call", "@tool", "chat", "anthropic", "anthropic custom"],
)
def test_a_tool_is_a_function_a_tool_or_a_providers_dictionary(talk: Conversation, given: Any) -> None:
    talk.join("coder", tools=[given])

    (made,) = talk.settings().card_of("coder").tools or ()
    assert (made.description, list(made.parameters["required"])) == ("Tell the weather.", ["city"])  # type: ignore[arg-type]


def test_strictness_of_a_responses_tool_is_kept(talk: Conversation) -> None:
    talk.join("coder", tools=[RESPONSES])

    (made,) = talk.settings().card_of("coder").tools or ()
    assert (made.name, made.strict) == ("weather", True)


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ([42], "tools[0]: expected a function, a Tool, or a function's schema"),
        ([WEATHER, {"type": "telepathy"}], "tools[1]: expected a function, a Tool"),
        ([{"type": "function", "function": {}}], "tools[0]: expected a function, a Tool"),
        ([{"name": "a b", "input_schema": {}}], "tools[0]: expected a tool's name of letters, digits"),
        ([{"name": "a", "parameters": "none"}], "tools[0]: parameters: expected a JSON Schema, found 'none'"),
        ([WEATHER, weather], "tools[1]: expected another name, found a second 'weather'"),
        ([lambda *words: 1], "tools[0]: <lambda>: expected parameters with names"),
        (CHAT, "tools: expected a list of tools, found {"),
        (weather, "tools: expected a list of tools, found <function weather"),
        ([{"name": "a", "paramters": {}}], "tools[0]: no such key: paramters; did you mean parameters?"),
        (
            [{"function": {"name": "a", "params": {}}}],
            "tools[0]: no such key: params; did you mean parameters?",
        ),
        (
            [{"name": "a", "inputschema": {}}],
            "tools[0]: no such key: inputschema; did you mean input_schema?",
        ),
    ],
)
def test_what_is_no_tool_is_refused_by_its_place(talk: Conversation, tools: Any, said: str) -> None:
    with pytest.raises(CallerError, match=re.escape(said)):
        talk.join("coder", tools=tools)
    assert talk.position == 0


def test_a_card_says_which_tools_it_takes_and_where_others_go() -> None:
    with pytest.raises(
        InvalidEventError, match=re.escape("/tools/1: expected a Tool, found a dict; ")
    ) as bad:
        AgentCard(tools=[WEATHER, CHAT])  # type: ignore[list-item]
    assert "conversation.join(name, tools=[…]) takes functions" in str(bad.value)


def test_an_async_conversation_is_joined_alike(tmp_path: Path) -> None:
    async def run() -> None:
        async with stenolog.open_async(tmp_path / "a.db") as log:
            entry = await log["x"].join("coder", model="gpt-5", tools=[weather])
            assert entry is not None
            assert await log["x"].join("coder", model="gpt-5", tools=[weather]) is None
            assert (await log["x"].settings()).members == ("coder",)

    asyncio.run(run())


def test_a_key_that_a_provider_knows_is_no_slip(talk: Conversation) -> None:
    talk.join("coder", tools=[ANTHROPIC | {"cache_control": {"type": "ephemeral"}, "defer_loading": True}])

    assert talk.position == 1


def test_a_request_says_that_the_message_is_for_somebody_who_has_not_joined(talk: Conversation) -> None:
    talk.join("guide", model="m")
    talk.append(UserMessage("Rain?", to=["guid"]))

    request = talk.request("guide")
    assert (request.sendable, request.reason) == (
        False,
        "nothing to answer: the message at 2 is for guid, who has not joined",
    )
