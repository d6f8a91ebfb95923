"""What is particular to Responses: items, reasoning that goes back encrypted, OpenAI's own tools."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stenolog import AssistantMessage, TextPart, ToolCall, UserMessage
from stenolog.adapters.models.openai import OpenAIResponses
from stenolog.events import Usage
from stenolog.models import ModelResponse, ResponseDelta
from stenolog.parts import ProviderPart, ReasoningPart
from stenolog.projections.formats.openai_responses.stream import OpenAIResponsesStream
from tests.llms import wire_openai_responses as api
from tests.llms.listening import HI, Heard, ask, failure, prompt
from tests.llms.server import Reply, Server, sse

THOUGHT = ReasoningPart(text="First look.\n\nThen say.", provider="openai", id="rs_1", encrypted="gAAA-=")
SEARCHED = '{"type":"web_search_call","status":"completed","action":{"type":"search","query":"steno"}}'
SEARCH = ProviderPart(provider="openai", raw=SEARCHED)
YES = TextPart(text="Yes.")


def model(server: Server) -> OpenAIResponses:
    return OpenAIResponses("gpt-5", base_url=f"{server.url}/v1")


def answer(*parts: Any, finish_reason: str = "completed", usage: Usage | None = None) -> ModelResponse:
    return ModelResponse(parts, "gpt-5", finish_reason, usage)


def read(*events: dict[str, Any]) -> Heard:
    """Return the deltas and the answer of these events."""
    reading = OpenAIResponsesStream("gpt-5")
    return Heard([said for event in events for said in reading.read(event)], reading.answer())


def test_reasoning_and_the_items_of_openais_own_tools_go_back(server: Server) -> None:
    made = answer(THOUGHT, SEARCH, YES)
    server.add(Reply(api.frames(made)), Reply(api.frames(answer(YES))))
    first = ask(model(server)).answer

    ask(
        model(server),
        HI,
        AssistantMessage(agent="coder", parts=first.parts, model=first.model),
        UserMessage(text="Go on"),
    )

    assert first.parts == made.parts
    sent = server.bodies[1]["input"]
    assert [item["type"] for item in sent] == [
        "message",
        "reasoning",
        "web_search_call",
        "message",
        "message",
    ]
    assert sent[1]["encrypted_content"] == THOUGHT.encrypted
    assert sent[2] == json.loads(SEARCHED)


def test_nothing_is_stored_and_reasoning_is_asked_for_by_the_wire_alone(server: Server) -> None:
    server.add(Reply(api.frames(answer(YES))))

    ask(model(server))

    sent = server.bodies[0]
    assert (sent["store"], sent["include"]) == (False, ["reasoning.encrypted_content"])
    assert sent == prompt(model(server)).body | {"stream": True}


def test_items_that_did_not_stream_are_taken_whole() -> None:
    call = ToolCall(id="c1", name="shell", arguments='{"cmd": "ls"}')
    items = [api.item(0, THOUGHT), api.item(1, YES), api.item(2, call)]
    done = [
        {"type": "response.output_item.done", "output_index": n, "item": item} for n, item in enumerate(items)
    ]
    over = {"type": "response.completed", "response": {"status": "completed", "output": items}}

    assert read(*done, over) == read(over)
    assert read(over).answer.parts == (THOUGHT, YES, call)
    assert read(over).said == [
        ResponseDelta(0, "reasoning", THOUGHT.text),
        ResponseDelta(1, "text", "Yes."),
        ResponseDelta(2, "tool_call", '{"cmd": "ls"}', "c1", "shell"),
    ]


def test_an_item_as_it_is_when_done_takes_the_place_of_what_streamed() -> None:
    delta = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Ye"}
    done = {"type": "response.output_item.done", "output_index": 0, "item": api.item(0, YES)}
    other = {
        "type": "response.output_item.done",
        "output_index": 0,
        "item": api.item(0, TextPart(text="No.")),
    }
    over = {"type": "response.completed", "response": {}}

    assert read(delta, done, over) == (
        [ResponseDelta(0, "text", "Ye"), ResponseDelta(0, "text", "s.")],
        answer(YES),
    )
    assert read(delta, other, over) == ([ResponseDelta(0, "text", "Ye")], answer(TextPart(text="No.")))


@pytest.mark.parametrize(
    ("event", "category", "message"),
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "slow"}, "rate_limited", "slow"),
        ({"type": "error", "error": {"type": "server_error", "message": "oh"}}, "overloaded", "oh"),
        ({"code": "server_error", "message": "oh"}, "overloaded", "oh"),
        ({"code": "invalid_prompt", "message": "against the policy"}, "refused", "against the policy"),
        ({"code": "bio_policy", "message": "no"}, "refused", "no"),
        ({"code": "context_length_exceeded", "message": "long"}, "context_length", "long"),
        ({"code": "insufficient_quota", "message": "pay"}, "budget", "pay"),
        ({"code": "invalid_image", "message": "no"}, "invalid_request", "no"),
        (None, "overloaded", "status: failed"),
    ],
)  # fmt: skip
def test_a_failed_response_has_a_category(server: Server, event: Any, category: str, message: str) -> None:
    response = {"type": "response.failed", "response": {"status": "failed", "error": event}}
    last = event if event and event.get("type") == "error" else response
    server.add(Reply([*list(api.frames(answer(YES)))[:3], sse(last)]))

    failed = failure(model(server))

    assert (failed.category, failed.message) == (category, message)


def test_half_a_character_in_an_item_is_marked() -> None:
    item = {"type": "web_search_call", "query": "\ud83d"}
    over = {"type": "response.completed", "response": {"output": [item]}}

    assert read(over).answer.parts == (
        ProviderPart(provider="openai", raw='{"type":"web_search_call","query":"\ufffd"}'),
    )
