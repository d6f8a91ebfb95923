"""A law finds what it forbids, and laws and judges agree on what is broken, on each API."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

import pytest

from stenolog import AgentCard, AssistantMessage, ModeSwitch, TextPart, ToolCall, ToolResult, UserMessage
from stenolog.parts import ReasoningPart
from stenolog.requests import FORMATS, Law, build, validate
from stenolog.testing import entries
from tests.requests.judging import complaints, needs_judges
from tests.requests.laws.mutations import CHAT, MUTATIONS

Body = dict[str, Any]
THOUGHTS = {
    "claude-opus-5": ReasoningPart(text="hm", signature="sig", provider="anthropic"),
    "gpt-5": ReasoningPart(text="hm", encrypted="gAAA", provider="openai"),
    "gemini-3-pro": ReasoningPart(text="hm", signature="c2ln", provider="google"),
}
MODELS = {
    "openai-chat": "claude-opus-5",
    "anthropic": "claude-opus-5",
    "plain": "claude-opus-5",
    "openai-responses": "gpt-5",
    "gemini": "gemini-3-pro",
}


def healthy(api: str, model: str = "") -> Body:
    """Return a body with everything that a mutation could break."""
    said_by = MODELS[api]
    thought = THOUGHTS[said_by]
    calls: list[Any] = [ToolCall(id="c1", name="shell"), ToolCall(id="c2", name="read_file")]
    words = TextPart(text="two calls")
    # Gemini signs the call, and the others think first.
    parts = [words, thought, *calls] if api == "gemini" else [thought, words, *calls]
    log = entries(
        ModeSwitch(cards={"coder": AgentCard(model=model or said_by, persona="You are a coder.")}),
        UserMessage(text="go"),
        AssistantMessage(agent="coder", model=said_by, parts=parts),
        ToolResult(call_id="c1", text="one"),
        ToolResult(call_id="c2", text="two", is_error=True),
        AssistantMessage(agent="coder", text="done"),
        UserMessage(text="again"),
        AssistantMessage(agent="coder", tool_calls=[ToolCall(id="c3", name="shell")]),
        ToolResult(call_id="c3", text="three"),
    )
    body: Body = copy.deepcopy(build(log, "coder", api=api).body)
    return body


EVERY = [(api, name) for api, mutations in MUTATIONS.items() for name in mutations]


@needs_judges
@pytest.mark.parametrize(
    ("api", "at_least"),
    [("openai-chat", 500), ("anthropic", 500), ("openai-responses", 800), ("gemini", 700)],
)
def test_what_a_judge_calls_an_error_in_a_mutant_breaks_a_law_too(api: str, at_least: int) -> None:
    random = Random(7)
    unbroken = healthy(api)
    broken = 0
    for _ in range(1000):
        mutant = copy.deepcopy(unbroken)
        if not random.choice([*MUTATIONS[api].values()])(random, mutant):
            continue
        found = complaints(api, mutant)
        if found:
            broken += 1
            assert list(validate(api, mutant)) != [], (found, json.dumps(mutant)[:2000])

    assert broken > at_least


@needs_judges
@pytest.mark.parametrize("name", MUTATIONS["gemini"])
def test_each_kind_of_mutation_is_one_that_the_judge_and_the_laws_both_know(name: str) -> None:
    random = Random(1)
    known = []
    for _ in range(20):
        mutant = healthy("gemini")
        if MUTATIONS["gemini"][name](random, mutant):
            known.append((bool(complaints("gemini", mutant)), bool([*validate("gemini", mutant)])))

    assert (True, True) in known
    assert (True, False) not in known


@pytest.mark.parametrize(("api", "name"), [case for case in EVERY if case[0] != "gemini"])
def test_every_mutation_that_can_be_made_breaks_a_law(api: str, name: str) -> None:
    made = 0
    for seed in range(20):
        mutant = healthy(api)
        if MUTATIONS[api][name](Random(seed), mutant):
            made += 1
            assert list(validate(api, mutant)) != []

    assert made or MUTATIONS[api] is CHAT  # each of the two has only some of these places


@pytest.mark.parametrize(
    ("api", "model"), [*((api, "") for api in MODELS), ("gemini", "gemini-2.5-pro"), ("gemini", "gpt-5")]
)
def test_a_healthy_body_breaks_no_law(api: str, model: str) -> None:
    body = healthy(api, model)

    assert list(validate(api, body)) == []
    if api == "openai-responses":
        assert [item["type"] for item in body["input"]].count("reasoning") == 1


def _item(**item: Any) -> Body:
    return {"store": False, "input": [item]}


def _said(*parts: Body, role: str = "user") -> Body:
    return {"contents": [{"role": role, "parts": list(parts)}]}


CALLED = {"functionCall": {"id": "c1", "name": "f", "args": {}}, "thoughtSignature": "c2ln"}
ANSWERED = {"functionResponse": {"id": "c1", "name": "f", "response": {}}}
USER = {"type": "message", "role": "user", "content": "x"}
BROKEN: dict[str, list[tuple[str, Body]]] = {
    "openai-chat": [
        ("messages-present", {"messages": []}),
        ("known-roles", {"messages": [{"role": "narrator", "content": "x"}]}),
        ("tool-names", {"messages": [], "tools": [{"function": {"name": "a b"}}]}),
        ("content-present", {"messages": [{"role": "user", "content": " "}]}),
        ("content-present", {"messages": [{"role": "assistant", "content": None}]}),
        ("tools-declared", {"messages": [], "tool_choice": "auto"}),
        ("ends-with-a-user-turn", {"messages": [{"role": "assistant", "content": "x"}]}),
    ],
    "anthropic": [
        ("messages-present", {"messages": []}),
        ("token-limit", {"messages": []}),
        ("roles-alternate", {"messages": [{"role": "assistant", "content": "x"}]}),
        ("system-turns", {"model": "claude-3", "messages": [{"role": "system", "content": "x"}]}),
        ("nothing-blank", {"system": " ", "messages": []}),
        ("nothing-blank", {"system": [{"type": "text", "text": ""}], "messages": []}),
        ("thinking-budget", {"messages": [], "thinking": {"type": "enabled", "budget_tokens": 5}}),
        (
            "no-force-on-a-thinker",
            {"messages": [], "thinking": {"type": "enabled"}, "tool_choice": {"type": "any"}},
        ),
        (
            "four-breakpoints",
            {"messages": [], "cache_control": {}, "tools": [{"name": "x", "cache_control": {}}] * 4},
        ),
        (
            "own-tools-closed",
            {
                "messages": [
                    {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s1"}]},
                    {"role": "user", "content": "Go on"},
                ]
            },
        ),
        ("ends-with-a-user-turn", {"messages": [{"role": "assistant", "content": "x"}]}),
    ],
    "plain": [
        ("prompt-present", {"prompt": " "}),
        ("no-forged-marker", {"prompt": "User: a\nUser: b"}),
    ],
    "openai-responses": [
        ("input-present", {"store": False, "input": []}),
        ("known-items", _item(type="telepathy")),
        ("known-roles", _item(type="message", role="tool", content="x")),
        ("nothing-stored", {"input": [USER]}),
        ("nothing-stored", {"store": False, "previous_response_id": "resp_1", "input": [USER]}),
        ("item-ids", _item(**USER, id="msg_1")),
        ("item-ids", {"input": [{"type": "mcp_call", "id": "mcp_1"}] * 2}),
        ("every-call-answered", _item(type="function_call", call_id="c1", name="f", arguments="{}")),
        ("every-output-has-its-call", _item(type="function_call_output", call_id="c1", output="x")),
        ("call-ids", _item(type="function_call", call_id="a b", name="f", arguments="{}")),
        ("tool-names", _item(type="function_call", call_id="c1", name="a b", arguments="{}")),
        ("tool-names", {"tools": [{"type": "function", "name": "f"}] * 2}),
        ("arguments-are-objects", _item(type="function_call", call_id="c1", name="f", arguments="[]")),
        ("content-present", _item(type="message", role="user", content=" ")),
        ("content-present", _item(type="message", role="user", content=[{"type": "input_text", "text": ""}])),
        ("content-present", {"instructions": " "}),
        ("parts-of-their-side", _item(type="message", role="user", content=[{"type": "output_text"}])),
        ("reasoning-is-encrypted", _item(type="reasoning", summary=[])),
        ("reasoning-is-followed", _item(type="reasoning", summary=[], encrypted_content="gAAA")),
        ("tools-declared", {"tools": []}),
        ("tools-declared", {"tool_choice": "auto"}),
        ("json-is-said", {"text": {"format": {"type": "json_object"}}, "input": [USER]}),
        ("ends-with-something-to-answer", _item(type="message", role="assistant", content="x")),
    ],
    "gemini": [
        ("contents-present", {"contents": []}),
        ("contents-present", _said()),
        ("known-roles", _said({"text": "x"}, role="assistant")),
        ("one-thing-each", _said({})),
        ("one-thing-each", _said({"text": "x", "odd": 1})),
        ("calls-by-the-model", _said(CALLED)),
        ("every-call-answered", _said(CALLED, role="model")),
        ("every-response-has-its-call", _said(ANSWERED)),
        ("responses-apart", _said(ANSWERED, {"text": "x"})),
        ("calls-come-after-the-user", _said(CALLED, role="model")),
        ("call-ids", _said(CALLED, CALLED, role="model")),
        ("function-names", _said({"functionCall": {"id": "c1", "name": "7zip", "args": {}}}, role="model")),
        ("objects-both-ways", _said({"functionCall": {"id": "c1", "name": "f", "args": "{}"}}, role="model")),
        ("calls-are-signed", _said({"functionCall": CALLED["functionCall"]}, role="model")),
        ("nothing-blank", _said({"text": " "})),
        ("nothing-blank", {"contents": [], "systemInstruction": {"parts": [{"text": ""}]}}),
        ("tools-declared", {"contents": [], "toolConfig": {}}),
        (
            "json-without-tools",
            {
                "model": "gemini-2.5-pro",
                "contents": [],
                "tools": [{}],
                "generationConfig": {"responseMimeType": "application/json"},
            },
        ),
        ("ends-with-a-user-turn", _said({"text": "x"}, role="model")),
    ],
}


@pytest.mark.parametrize(
    ("api", "law", "body"), [(w, *case) for w, cases in BROKEN.items() for case in cases]
)
def test_a_law_names_itself_and_the_place_where_it_is_broken(api: str, law: str, body: Body) -> None:
    found = [violation for violation in validate(api, body) if violation.law == law]

    assert found
    assert all(violation.pointer.startswith("/") for violation in found)


def _all_laws() -> list[Law]:
    return [law for format in FORMATS.values() for law in format.laws]


def test_every_law_says_what_it_demands_in_a_sentence() -> None:
    assert [law.name for law in _all_laws() if not law.says.endswith(".")] == []


def test_every_law_of_gemini_is_broken_by_some_body_here() -> None:
    assert {law.name for law in FORMATS["gemini"].laws} == {law for law, _ in BROKEN["gemini"]}


def test_on_openai_chat_too_a_json_object_needs_the_word() -> None:
    body = {"response_format": {"type": "json_object"}, "messages": [{"role": "user", "content": "x"}]}

    assert [violation.law for violation in validate("openai-chat", body)] == ["json-is-said"]
    body["messages"] = [{"role": "user", "content": "Answer in JSON"}]
    assert list(validate("openai-chat", body)) == []
