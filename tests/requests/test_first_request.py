"""The first request of a conversation: any agent can be asked for, and a body without a model is not sent."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import stenolog
from stenolog import (
    AgentCard,
    AgentNotFoundError,
    AssistantMessage,
    Log,
    ModeSwitch,
    RequestNotSendableError,
    UserMessage,
)
from stenolog.context import Budget, Prompt
from stenolog.projections.requests import APIS, build
from tests.requests.given import ASKED, log

TERSE = "\nYou are terse.  \n\n"


@pytest.fixture
def conversations() -> Iterator[Log]:
    with stenolog.open(":memory:") as log:
        yield log


def test_an_agent_can_be_asked_for_where_nobody_is_known(conversations: Log) -> None:
    conversation = conversations["x"]
    nothing = conversation.request("coder")
    conversation.append(UserMessage(text="Hello"))
    first = conversation.request("coder", policy=Budget(tokens=1_000))

    assert (nothing.sendable, nothing.reason) == (False, "nothing has been said to it")
    assert first.body["messages"] == [{"role": "user", "content": "Hello"}]
    assert first.ready


@pytest.mark.parametrize("api", [api for api in APIS if api != "plain"])
def test_a_body_without_a_model_is_not_sendable_until_one_is_named(conversations: Log, api: str) -> None:
    conversation = conversations["x"]
    conversation.append(UserMessage(text="Hello"))
    first = conversation.request("coder", api=api)

    assert (first.sendable, first.ready, first.body["model"]) == (False, True, "unspecified")
    with pytest.raises(RequestNotSendableError, match="no model is named; to name one"):
        first.check()
    line = first.reason.partition("conversation.")[2].replace("...", "'gpt-5'")
    eval(f"talk.{line}", {"talk": conversation, "ModeSwitch": ModeSwitch, "AgentCard": AgentCard})
    assert conversation.request("coder", api=api).check().body["model"] == "gpt-5"


def test_a_prompt_of_plain_text_needs_no_model(conversations: Log) -> None:
    conversations["x"].append(UserMessage(text="Hello"))

    assert conversations["x"].request("coder", api="plain").sendable


def test_the_model_of_an_answer_names_the_model_of_the_next_request() -> None:
    answered = AssistantMessage(agent="coder", model="gpt-5", text="Hi")

    assert build(log(ASKED, answered, ASKED), "coder").sendable


def test_where_others_are_known_the_error_says_how_to_join(conversations: Log) -> None:
    conversation = conversations["x"]
    conversation.append(AssistantMessage(agent="reviewer", text="Hi"))
    with pytest.raises(AgentNotFoundError, match="known are reviewer; to let it join: ") as unknown:
        conversation.request("coder")

    line = str(unknown.value).partition("conversation.")[2]
    eval(f"talk.{line}", {"talk": conversation, "ModeSwitch": ModeSwitch})
    assert conversation.request("coder").body["messages"]


@pytest.mark.parametrize("api", APIS)
def test_a_persona_is_sent_to_the_last_line_break(api: str) -> None:
    dealt = ModeSwitch(cards={"coder": AgentCard(model="m", persona=TERSE)})
    ruled = Prompt(base="Be good.\n")

    request = build(log(dealt, ASKED), "coder", api=api, policy=ruled)

    assert [(part.rule, part.disposition) for part in request.parts[:2]] == [
        ("base-rules", "added"),
        ("persona", "kept"),
    ]
    assert f"Be good.\n\n\n{TERSE}" in system_text(request.body)


def test_a_persona_in_which_the_plain_wire_escapes_a_marker_is_explained_as_changed() -> None:
    dealt = ModeSwitch(cards={"coder": AgentCard(persona="Answer as\nUser: would")})

    request = build(log(dealt, ASKED), "coder", api="plain")

    assert (request.parts[0].rule, request.parts[0].disposition) == ("persona", "reworded")


def system_text(body: object) -> str:
    """Return the first text of a body that holds the persona."""
    match body:
        case {"prompt": str(text)} | {"instructions": str(text)} | {"system": [{"text": str(text)}, *_]}:
            return text
        case {"systemInstruction": {"parts": [{"text": str(text)}]}} | {
            "messages": [{"content": str(text)}, *_]
        }:
            return text
        case _:
            raise AssertionError(body)
