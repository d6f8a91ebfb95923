"""A list of messages that a program holds becomes events: what is sent next is the list again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessage

import stenolog
from stenolog import AgentCard, AssistantMessage, Conversation, ModeSwitch, ToolResult, UserMessage
from stenolog.errors import CallerError, InvalidEventError
from stenolog.importers import events_from

PNG = "iVBORw0KGgo="
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Kyiv"}'}}
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "You tell the weather."},
    {"role": "user", "content": "Rain in Kyiv?"},
    {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "rain"},
    {"role": "assistant", "content": "Yes."},
    {"role": "user", "content": "And tomorrow?"},
]
ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "Rain in Kyiv?"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "xyz"},
    {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city":"Kyiv"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "rain"},
    {"role": "assistant", "content": "Yes."},
    {"role": "user", "content": [{"type": "input_text", "text": "And tomorrow?"}]},
]
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "Rain in Kyiv?"},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Kyiv"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": "no net", "is_error": True},
            {"type": "text", "text": "And tomorrow?"},
        ],
    },
]


def weather(city: str) -> str:
    """Tell the weather."""
    return "rain"


@pytest.fixture
def talk() -> Iterator[Conversation]:
    with stenolog.open(":memory:") as log:
        yield log["x"]


def test_chat_messages_are_sent_again_as_they_were(talk: Conversation) -> None:
    talk.extend(events_from(CHAT, agent="guide", model="gpt-5", tools=[weather]))

    request = talk.request("guide").check()
    assert request.body["messages"] == CHAT
    assert (request.body["model"], len(request.body["tools"])) == ("gpt-5", 1)
    assert talk.entry(1).event == ModeSwitch(
        joins=["guide"],
        cards={"guide": AgentCard(model="gpt-5", persona=CHAT[0]["content"], tools=request_tools(talk))},
    )


def request_tools(talk: Conversation) -> Any:
    return talk.settings().card_of("guide").tools


def test_items_of_responses_are_sent_again_as_they_were(talk: Conversation) -> None:
    talk.extend(events_from(ITEMS, agent="guide", model="gpt-5"))

    answer, result = talk.entry(3).event, talk.entry(4).event
    assert isinstance(answer, AssistantMessage)
    assert [part.type for part in answer.parts] == ["reasoning", "tool_call"]
    assert isinstance(result, ToolResult)
    assert (result.name, result.text) == ("weather", "rain")
    sent = talk.request("guide", api="openai-responses").check().body["input"]
    assert [each.get("type", "message") for each in sent] == [each.get("type", "message") for each in ITEMS]
    assert sent[1]["encrypted_content"] == "xyz"


def test_messages_of_anthropic_are_sent_again_as_they_were(talk: Conversation) -> None:
    talk.extend(events_from(MESSAGES, agent="guide", model="claude-opus-5"))

    assert [entry.event.kind for entry in talk.entries()] == [
        "mode_switch",
        "user_message",
        "assistant_message",
        "tool_result",
        "user_message",
    ]
    sent = talk.request("guide", api="anthropic").check().body["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]
    assert sent[1]["content"] == MESSAGES[1]["content"]
    assert sent[2]["content"][0]["is_error"]


def test_objects_of_an_sdk_may_stand_among_dictionaries(talk: Conversation) -> None:
    answer = ChatCompletionMessage.model_validate(CHAT[2])

    assert events_from([*CHAT[:2], answer, *CHAT[3:]]) == events_from(CHAT)


def test_a_list_goes_behind_what_is_there_as_often_as_it_is_appended(talk: Conversation) -> None:
    talk.join("assistant", model="gpt-5")
    for _ in range(2):
        talk.extend(events_from(CHAT[1:]))

    sent = talk.request("assistant").check().body["messages"]
    assert [message["content"] for message in sent] == [message["content"] for message in CHAT[1:] * 2]
    assert talk.settings().card_of("assistant").model == "gpt-5"


def test_a_later_system_message_is_said_and_instructs_nobody() -> None:
    events = events_from([CHAT[0], {"role": "system", "content": "Be brief."}, *CHAT[1:2]])

    assert [type(event) for event in events] == [ModeSwitch, UserMessage, UserMessage]
    assert isinstance(events[1], UserMessage)
    assert (events[1].author_kind, events[1].text) == ("system", "Be brief.")


def test_pictures_are_kept_in_the_log_that_is_given(talk: Conversation) -> None:
    url = f"data:image/png;base64,{PNG}"
    picture = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]
    with pytest.raises(CallerError, match="expected log="):
        events_from(picture)

    talk.extend(events_from(picture, model="gpt-5", log=talk.log))

    assert talk.request("assistant").body["messages"] == picture


@pytest.mark.parametrize(
    ("given", "place"), [([{"role": "robot", "content": "x"}], 0), ([CHAT[1], "Hi"], 1), ([{"words": 1}], 0)]
)
def test_what_is_no_message_is_refused_by_its_place(given: list[object], place: int) -> None:
    with pytest.raises(CallerError, match=rf"messages\[{place}\]: expected a message of one of the roles"):
        events_from(given)


def test_an_empty_list_has_no_events() -> None:
    assert events_from([]) == []


@pytest.mark.parametrize("given", ["hello", CHAT[0], b"hello", 5])
def test_what_is_no_list_is_refused_as_a_whole(given: Any) -> None:
    with pytest.raises(CallerError, match="expected a list of messages, found "):
        events_from(given)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"role": "user", "contnt": "Rain?"}, "messages[0]: no such key: contnt; did you mean content?"),
        ({"role": "assistant", "tool_call": []}, "no such key: tool_call; did you mean tool_calls?"),
        ({"role": "tool", "content": "", "toolCallId": "c1"}, "toolCallId; did you mean tool_call_id?"),
    ],
)
def test_a_slip_in_a_key_is_answered_with_the_key(message: dict[str, Any], said: str) -> None:
    with pytest.raises(CallerError, match=re.escape(said)):
        events_from([message])


def test_a_key_of_the_providers_own_is_kept() -> None:
    (event,) = events_from([{"role": "user", "content": "Rain?", "cache_control": {"type": "ephemeral"}}])

    assert event.meta["openai"] == {"cache_control": {"type": "ephemeral"}}


def test_a_list_goes_into_a_new_conversation(talk: Conversation) -> None:
    talk.append(UserMessage("Hi"))

    with pytest.raises(InvalidEventError, match=re.escape("(events_from) goes into a new conversation")):
        talk.extend(events_from(CHAT, agent="guide"))
