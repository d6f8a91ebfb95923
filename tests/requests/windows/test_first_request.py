"""The first request of a conversation: any agent can be asked for, and a body without a model is not sent."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

import stenolog
from stenolog import AgentCard, AssistantMessage, Entry, Log, ModeSwitch, UserMessage
from stenolog.context import Budget, Prompt
from stenolog.errors import AgentNotFoundError, RequestNotSendableError
from stenolog.projections.analysis.budget import budget
from stenolog.projections.analysis.explain import explain
from stenolog.projections.analysis.text_fate import text_fate
from stenolog.projections.formats import FORMATS
from stenolog.projections.requests import LaneId, build, lanes
from stenolog.projections.requests.proofs import invalid_requests
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


@pytest.mark.parametrize("api", [api for api in FORMATS if api != "plain"])
def test_a_body_without_a_model_is_not_sendable_until_one_is_named(conversations: Log, api: str) -> None:
    conversation = conversations["x"]
    conversation.append(UserMessage(text="Hello"))
    first = conversation.request("coder", api=api)

    assert (first.sendable, first.ready, first.body["model"]) == (False, True, "unspecified")
    with pytest.raises(RequestNotSendableError, match="no model is named; to name one"):
        first.check()
    line = first.reason.partition("conversation.")[2].partition(", or ")[0].replace("...", "'gpt-5'")
    eval(f"talk.{line}", {"talk": conversation})
    assert conversation.request("coder", api=api).check().body["model"] == "gpt-5"


def test_a_prompt_of_plain_text_needs_no_model(conversations: Log) -> None:
    conversations["x"].append(UserMessage(text="Hello"))

    assert conversations["x"].request("coder", api="plain").sendable


def test_the_model_of_an_answer_names_the_model_of_the_next_request() -> None:
    answered = AssistantMessage(agent="coder", model="gpt-5", text="Hi")

    assert build(log(ASKED, answered, ASKED), "coder").sendable


@pytest.mark.parametrize(
    ("known", "slip"),
    [("reviewer", "Reviewer"), ("reviewer", "rev"), ("coder", "coder-2"), ("planner", "plannner")],
)
def test_a_name_that_may_be_a_slip_is_refused_and_the_error_says_what_to_do(
    conversations: Log, known: str, slip: str
) -> None:
    conversation = conversations["x"]
    conversation.extend([AssistantMessage(agent="tester", text="Hi"), UserMessage(text="Go", to=[known])])
    expected = f"no agent '{slip}' (known: tester, {known}); did you mean '{known}'?"
    with pytest.raises(AgentNotFoundError, match=re.escape(expected)) as unknown:
        conversation.request(slip)

    line = str(unknown.value).partition("conversation.")[2]
    eval(f"talk.{line}", {"talk": conversation})
    assert conversation.request(slip).body["messages"]


def test_a_name_like_no_other_is_that_of_a_new_agent_with_an_empty_card() -> None:
    entries = log(ModeSwitch(cards={"reviewer": AgentCard(model="m", persona="You review.")}), ASKED)

    assert build(entries, "coder").body == {
        "model": "unspecified",
        "messages": [{"role": "user", "content": "List the files"}],
    }


def test_a_new_agent_is_no_lane_of_the_log_until_it_has_spoken(conversations: Log) -> None:
    conversation = conversations["x"]
    conversation.append(UserMessage(text="Hello"))
    assert conversation.request("coder").ready
    assert lanes(conversation.entries()) == ()

    conversation.append(AssistantMessage(agent="coder", text="Hi"))

    assert lanes(conversation.entries()) == (LaneId("coder"),)


def test_the_first_request_of_an_agent_without_a_card_is_explained(conversations: Log) -> None:
    conversation = conversations["x"]
    conversation.append(UserMessage(text="Hello"))
    receipt = conversation.request("coder").receipt
    conversation.append(AssistantMessage(agent="coder", text="Hi", receipt=receipt))

    (lane,) = explain(conversation.entries(), 2).lanes

    assert [(stretch.first, stretch.last, stretch.sent) for stretch in lane.stretches] == [(2, 3, (3,))]


@pytest.mark.parametrize(
    "asked", [lambda log: text_fate(log, "nobody", "x"), lambda log: [*budget(log, "nobody")]]
)
def test_an_analysis_asks_for_an_agent_that_takes_part(asked: Callable[[list[Entry]], object]) -> None:
    with pytest.raises(AgentNotFoundError, match=r"known: coder\)\. A new agent joins by"):
        asked(log(AssistantMessage(agent="coder", text="Hi")))


def test_a_log_whose_model_is_not_known_is_checked_but_not_sent() -> None:
    entries = log(ASKED, AssistantMessage(agent="coder", text="Hi"), ASKED)
    request = build(entries, "coder")

    assert (request.ready, request.sendable) == (True, False)
    assert request.reason.startswith("no model is named; to name one: conversation.join('coder', model=...)")
    assert [*invalid_requests(entries, all_prefixes=True)] == []


@pytest.mark.parametrize("api", FORMATS)
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
