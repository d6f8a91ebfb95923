"""Cohere's Chat API: recorded, exported, priced, and read by its own SDK, as each format that ships is."""

from __future__ import annotations

import json
from typing import Any

import pytest

import stenolog
from stenolog import (
    AgentCard,
    AssistantMessage,
    Log,
    ModeSwitch,
    TextPart,
    Tool,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.adapters.providers.prices import listed
from stenolog.errors import ModelError
from stenolog.importers import events_from
from stenolog.models import answer_from, recording
from stenolog.parts import ReasoningPart
from stenolog.projections.formats import api_by
from stenolog.projections.prices import price_of
from stenolog.requests import build, proofs, validate
from stenolog.testing import entries
from tests.llms.api import KEY
from tests.llms.server import Reply, Server
from tests.llms.wire_cohere import API
from tests.recording.given import Tap

MODEL = "command-a-03-2025"
SCALE = {"name": "scale", "description": "Weigh", "parameters": {"type": "object", "properties": {}}}
ASKED = {"role": "user", "content": "How heavy?"}
CALL = {"id": "c1", "type": "function", "function": {"name": "scale", "arguments": '{"grams":5}'}}
CALLING = {"role": "assistant", "tool_plan": "I will weigh it.", "tool_calls": [CALL]}
WEIGHED = {"role": "tool", "tool_call_id": "c1", "content": "5 g"}
CITED = {"start": 3, "end": 6, "text": "5 g", "sources": [{"type": "tool", "id": "c1:0"}], "content_index": 0}
SAID = {"role": "assistant", "content": "It is 5 g.", "citations": [CITED]}
TALK = [ASKED, CALLING, WEIGHED, SAID, {"role": "user", "content": "And this?"}]
PLAN = ReasoningPart(text="I will weigh it.", provider="cohere", id="tool_plan")
WEIGH = ToolCall(id="c1", name="scale", arguments='{"grams":5}')


def body(*messages: dict[str, Any]) -> dict[str, Any]:
    tools = [{"type": "function", "function": SCALE}]
    system = {"role": "system", "content": "Be brief."}
    return {"model": MODEL, "messages": [system, *messages], "tools": tools, "stream": True}


def recorded() -> Log:
    """Return a log into which a tap recorded two exchanges that streamed."""
    tap = Tap(headers={"content-type": "application/json"})
    calling = API.answer(PLAN, WEIGH, finish_reason="TOOL_CALL")
    for sent, said in (
        (body(ASKED), calling),
        (body(ASKED, CALLING, WEIGHED), API.answer(TextPart(text="5 g."))),
    ):
        exchange = tap.exchange(sent, path="/v2/chat", upstream="cohere")
        tap.recording.request(exchange)
        tap.answer(exchange, b"".join(API.frames(said)), answer_headers={"content-type": "text/event-stream"})
    return tap.log


def test_a_tap_records_it_and_each_request_is_proved() -> None:
    log = recorded()
    (name,) = log.names()
    events = [entry.event for entry in log[name].entries()]

    answers = [event for event in events if isinstance(event, AssistantMessage)]
    assert [answer.parts for answer in answers] == [(PLAN, WEIGH), (TextPart(text="5 g."),)]
    assert [answer.usage for answer in answers] == [API.tokens] * 2
    assert [event.text for event in events if isinstance(event, ToolResult)] == ["5 g"]
    assert [proof.outcome for proof in proofs(log[name].entries(), blobs=log.blobs)] == ["same"] * 2


def test_its_messages_are_read_as_events_and_written_as_they_were() -> None:
    said = events_from(TALK, agent="baker", model=MODEL)
    card = ModeSwitch(joins=["baker"], cards={"baker": AgentCard(model=MODEL)})
    log = entries(card, *(event for event in said if not isinstance(event, ModeSwitch)))

    request = build(log, "baker", api="cohere")

    assert request.body["messages"] == TALK
    assert validate("cohere", request.body) == []
    assert "citations" not in str(build(log, "baker", api="openai-chat").body)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("curl", ["${CO_API_URL:-https://api.cohere.com}", "/v2/chat", "CO_API_KEY"]),
        ("python", ["import cohere", "client.chat(**BODY", "CO_API_KEY"]),
        ("pytest", ["cohere", "5 g"]),
    ],
)
def test_its_request_is_exported_as_a_program(form: str, expected: list[str]) -> None:
    with stenolog.open(":memory:") as log:
        log["talk"].extend(events_from(TALK, agent="baker", model=MODEL))
        written = log["talk"].export(form, agent="baker", api="cohere")

    assert [words for words in expected if words not in written] == []


def test_parameters_of_a_card_have_its_names_and_what_it_lacks_is_named() -> None:
    neutral: dict[str, Any] = {"top_p": 0.5, "stop": ["END"], "tool_choice": "required", "effort": "low"}
    card = AgentCard(model=MODEL, tools=[Tool(name="scale", strict=True)], parameters=neutral)
    log = entries(ModeSwitch(joins=["baker"], cards={"baker": card}), *events_from([ASKED]))

    request = build(log, "baker", api="cohere")

    asked = {key: value for key, value in request.body.items() if key not in ("model", "messages", "tools")}
    assert asked == {"p": 0.5, "stop_sequences": ["END"], "tool_choice": "REQUIRED", "strict_tools": True}
    assert [cut.what for cut in request.omissions] == ["effort"]


@pytest.mark.parametrize("beside", [{"tools": [Tool(name="oven")]}, {"parameters": {"documents": ["Rye."]}}])
def test_an_answer_in_json_is_left_out_beside_tools_or_documents_and_named(beside: dict[str, Any]) -> None:
    asked = {"response_format": {"type": "json_object"}}
    card = AgentCard(model="command-a", **{**beside, "parameters": {**asked, **beside.get("parameters", {})}})
    log = entries(ModeSwitch(joins=["baker"], cards={"baker": card}), UserMessage(text="Bake."))

    request = build(log, "baker", api="cohere")

    assert "response_format" not in request.body
    assert validate("cohere", request.body) == []
    assert [cut.what for cut in request.omissions] == ["response_format"]


@pytest.mark.parametrize(
    ("wrong", "law"),
    [
        ({"messages": [ASKED, {**CALLING, "tool_calls": []}, ASKED]}, "plan-with-calls"),
        ({"messages": [ASKED, CALLING, ASKED]}, "every-call-answered"),
        ({"messages": [{**ASKED, "role": "developer"}]}, "known-roles"),
        ({"messages": [{**ASKED, "content": " "}]}, "content-present"),
        ({"tool_choice": "NONE"}, "tools-declared"),
        ({"stop_sequences": ["a"] * 6}, "few-stop-sequences"),
        ({"response_format": {"type": "json_object"}, "documents": ["a"]}, "json-without-tools"),
    ],
)
def test_what_its_reference_forbids_breaks_a_law(wrong: dict[str, Any], law: str) -> None:
    found = {violation.law for violation in validate("cohere", {"messages": [ASKED], **wrong})}

    assert law in found


@pytest.mark.parametrize("reason", ["ERROR", "TIMEOUT"])
def test_an_answer_that_failed_is_an_error(reason: str) -> None:
    with pytest.raises(ModelError, match="broken"):
        answer_from({"message": SAID, "finish_reason": reason, "error": "broken"})


def test_its_models_are_known_and_priced() -> None:
    assert api_by("", MODEL) == api_by("cohere") == "cohere"
    assert price_of(MODEL, listed())


def test_its_own_sdk_reads_what_the_server_of_the_tests_says_and_sends_what_is_written() -> None:
    import cohere

    request = json.loads(json.dumps(body(ASKED)))
    del request["stream"]
    with Server() as server:
        server.add(Reply(API.frames(API.answer(PLAN, WEIGH))))
        with cohere.ClientV2(KEY, base_url=server.url) as client:
            read = [event.model_dump(exclude_none=True) for event in client.chat_stream(**request)]

    assert server.bodies == [body(ASKED)]
    assert answer_from_events(read).parts == (PLAN, WEIGH)


def answer_from_events(events: list[Any]) -> AssistantMessage:
    """Return the answer of some events of the SDK."""
    reading = recording(events, agent="baker")
    for _ in reading:
        pass
    return reading.answer()
