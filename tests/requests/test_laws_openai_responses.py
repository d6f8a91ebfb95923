"""The laws of OpenAI Responses find what they forbid, and agree with the judge on what is broken."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from stenolog import AgentCard, AssistantMessage, ModeSwitch, TextPart, ToolCall, ToolResult, UserMessage
from stenolog.parts import ReasoningPart
from stenolog.requests import build, validate
from stenolog.testing import entries
from tests.requests.judging import complaints, needs_judges

Body = dict[str, Any]
Mutation = Callable[[Random, Body], None]
API = "openai-responses"
THOUGHT = ReasoningPart(text="hm", encrypted="gAAA", provider="openai")
ONE, TWO = (ToolCall(id=id, name="shell") for id in ("c1", "c2"))


def healthy() -> Body:
    """Return a body with everything that a mutation could break."""
    log = entries(
        ModeSwitch(cards={"coder": AgentCard(model="gpt-5", persona="You are a coder.")}),
        UserMessage(text="go"),
        AssistantMessage(agent="coder", model="gpt-5", parts=[THOUGHT, TextPart(text="two calls"), ONE, TWO]),
        ToolResult(call_id="c1", text="one"),
        ToolResult(call_id="c2", text="two", is_error=True),
        AssistantMessage(agent="coder", text="done"),
        UserMessage(text="again"),
        AssistantMessage(agent="coder", tool_calls=[ToolCall(id="c3", name="shell")]),
        ToolResult(call_id="c3", text="three"),
    )
    body: Body = copy.deepcopy(build(log, "coder", api=API).body)
    return body


def _some(random: Random, body: Body, kind: str) -> int:
    return random.choice([i for i, item in enumerate(body["input"]) if item["type"] == kind])


def drop_output(random: Random, body: Body) -> None:
    del body["input"][_some(random, body, "function_call_output")]


def drop_call(random: Random, body: Body) -> None:
    del body["input"][_some(random, body, "function_call")]


def rename_output(random: Random, body: Body) -> None:
    body["input"][_some(random, body, "function_call_output")]["call_id"] = random.choice(("c9", "stranger"))


def rename_call(random: Random, body: Body) -> None:
    body["input"][_some(random, body, "function_call")]["call_id"] = random.choice(("", "x" * 65))


def output_first(random: Random, body: Body) -> None:
    body["input"].insert(0, body["input"].pop(_some(random, body, "function_call_output")))


def odd_output(random: Random, body: Body) -> None:
    body["input"][_some(random, body, "function_call_output")]["output"] = random.choice((None, {"a": 1}))


def reasoning_last(random: Random, body: Body) -> None:
    body["input"].append(body["input"].pop(_some(random, body, "reasoning")))


def reasoning_before_the_user(random: Random, body: Body) -> None:
    body["input"].insert(0, body["input"].pop(_some(random, body, "reasoning")))


def reasoning_by_its_id(random: Random, body: Body) -> None:
    reasoning = body["input"][_some(random, body, "reasoning")]
    reasoning["id"] = "rs_1"
    del reasoning["encrypted_content"]


def no_summary(random: Random, body: Body) -> None:
    del body["input"][_some(random, body, "reasoning")]["summary"]


def foreign_part(random: Random, body: Body) -> None:
    message = body["input"][_some(random, body, "message")]
    odd = "input_text" if message["role"] == "assistant" else "output_text"
    message["content"] = [{"type": odd, "text": "hello"}]


def odd_role(random: Random, body: Body) -> None:
    body["input"][_some(random, body, "message")]["role"] = random.choice(("tool", "model"))


def odd_id(random: Random, body: Body) -> None:
    item = random.choice(body["input"])
    item["id"] = random.choice(("a b", "x" * 65, "id_1"))


def reference(random: Random, body: Body) -> None:
    body["input"].insert(0, {"type": random.choice(("item_reference", "telepathy")), "id": "msg_1"})


def unfit_name(random: Random, body: Body) -> None:
    body["tools"][0]["name"] = random.choice(("a b", "", "x" * 200))


def unfit_name_of_a_call(random: Random, body: Body) -> None:
    body["input"][_some(random, body, "function_call")]["name"] = random.choice(("a b", "", "x" * 200))


def no_arguments(random: Random, body: Body) -> None:
    body["input"][_some(random, body, "function_call")]["arguments"] = random.choice((None, {}))


def an_object_without_the_word(random: Random, body: Body) -> None:
    body["text"] = {"format": {"type": "json_object"}}


def nothing_at_all(random: Random, body: Body) -> None:
    del body["input"], body["instructions"]


MUTATIONS: tuple[Mutation, ...] = (
    drop_output,
    drop_call,
    rename_output,
    rename_call,
    output_first,
    odd_output,
    reasoning_last,
    reasoning_before_the_user,
    reasoning_by_its_id,
    no_summary,
    foreign_part,
    odd_role,
    odd_id,
    reference,
    unfit_name,
    unfit_name_of_a_call,
    no_arguments,
    an_object_without_the_word,
    nothing_at_all,
)


@needs_judges
def test_what_the_judge_calls_an_error_in_a_mutant_breaks_a_law_too() -> None:
    random = Random(7)
    whole = healthy()
    broken = 0
    for _ in range(1000):
        mutant = copy.deepcopy(whole)
        random.choice(MUTATIONS)(random, mutant)
        found = complaints(API, mutant)
        if found:
            broken += 1
            assert list(validate(API, mutant)) != [], (found, json.dumps(mutant)[:2000])

    assert broken > 800


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: mutate.__name__)
def test_every_mutation_breaks_a_law(mutate: Mutation) -> None:
    for seed in range(20):
        mutant = healthy()
        mutate(Random(seed), mutant)

        assert list(validate(API, mutant)) != []


def test_a_healthy_body_breaks_no_law() -> None:
    body = healthy()

    assert [item["type"] for item in body["input"]].count("reasoning") == 1
    assert list(validate(API, body)) == []


def _said(**item: Any) -> Body:
    return {"store": False, "input": [item]}


USER = {"type": "message", "role": "user", "content": "x"}
BROKEN: list[tuple[str, Body]] = [
    ("input-present", {"store": False, "input": []}),
    ("known-items", _said(type="telepathy")),
    ("known-roles", _said(type="message", role="tool", content="x")),
    ("nothing-stored", {"input": [USER]}),
    ("nothing-stored", {"store": False, "previous_response_id": "resp_1", "input": [USER]}),
    ("item-ids", _said(**USER, id="msg_1")),
    ("item-ids", {"input": [{"type": "mcp_call", "id": "mcp_1"}] * 2}),
    ("every-call-answered", _said(type="function_call", call_id="c1", name="f", arguments="{}")),
    ("every-output-has-its-call", _said(type="function_call_output", call_id="c1", output="x")),
    ("call-ids", _said(type="function_call", call_id="a b", name="f", arguments="{}")),
    ("tool-names", _said(type="function_call", call_id="c1", name="a b", arguments="{}")),
    ("tool-names", {"tools": [{"type": "function", "name": "f"}] * 2}),
    ("arguments-are-objects", _said(type="function_call", call_id="c1", name="f", arguments="[]")),
    ("content-present", _said(type="message", role="user", content=" ")),
    ("content-present", _said(type="message", role="user", content=[{"type": "input_text", "text": ""}])),
    ("content-present", {"instructions": " "}),
    ("parts-of-their-side", _said(type="message", role="user", content=[{"type": "output_text"}])),
    ("reasoning-is-encrypted", _said(type="reasoning", summary=[])),
    ("reasoning-is-followed", _said(type="reasoning", summary=[], encrypted_content="gAAA")),
    ("tools-declared", {"tools": []}),
    ("tools-declared", {"tool_choice": "auto"}),
    ("json-is-said", {"text": {"format": {"type": "json_object"}}, "input": [USER]}),
    ("ends-with-something-to-answer", _said(type="message", role="assistant", content="x")),
]


@pytest.mark.parametrize(("law", "body"), BROKEN)
def test_a_law_names_itself_and_the_place_where_it_is_broken(law: str, body: Body) -> None:
    found = [violation for violation in validate(API, body) if violation.law == law]

    assert found
    assert all(violation.pointer.startswith("/") for violation in found)


def test_on_openai_chat_too_a_json_object_needs_the_word() -> None:
    body = {"response_format": {"type": "json_object"}, "messages": [{"role": "user", "content": "x"}]}

    assert [violation.law for violation in validate("openai-chat", body)] == ["json-is-said"]
    body["messages"] = [{"role": "user", "content": "Answer in JSON"}]
    assert list(validate("openai-chat", body)) == []
