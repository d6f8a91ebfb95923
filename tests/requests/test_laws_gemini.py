"""The laws of Gemini find what they forbid, and agree with the judge on what is broken."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from stenolog import AgentCard, AssistantMessage, ModeSwitch, TextPart, ToolCall, ToolResult, UserMessage
from stenolog.parts import ReasoningPart
from stenolog.projections.formats import FORMATS, validate
from stenolog.projections.requests import build
from stenolog.testing import entries
from tests.requests.judging import complaints, needs_judges

Body = dict[str, Any]
Mutation = Callable[[Random, Body], bool]
MODEL = "gemini-3-pro"
SIGNED = ReasoningPart(text="hm", signature="c2ln", provider="google")
ONE, TWO = (ToolCall(id=id, name=name) for id, name in (("c1", "shell"), ("c2", "read_file")))


def healthy(model: str = MODEL) -> Body:
    """Return a body with everything that a mutation could break."""
    log = entries(
        ModeSwitch(cards={"coder": AgentCard(model=model, persona="You are a coder.")}),
        UserMessage(text="go"),
        AssistantMessage(agent="coder", model=MODEL, parts=[TextPart(text="two calls"), SIGNED, ONE, TWO]),
        ToolResult(call_id="c1", text="one"),
        ToolResult(call_id="c2", text="two", is_error=True),
        AssistantMessage(agent="coder", text="done"),
        UserMessage(text="again"),
        AssistantMessage(agent="coder", tool_calls=[ToolCall(id="c3", name="shell")]),
        ToolResult(call_id="c3", text="three"),
    )
    body: Body = copy.deepcopy(build(log, "coder", api="gemini").body)
    return body


def _some(random: Random, body: Body, kind: str) -> tuple[list[Body], int]:
    """Return the list that holds some part of a kind, and its index there."""
    found = [
        (content["parts"], k)
        for content in body["contents"]
        for k, part in enumerate(content["parts"])
        if kind in part
    ]
    return random.choice(found)


def drop_response(random: Random, body: Body) -> bool:
    parts, k = _some(random, body, "functionResponse")
    del parts[k]
    return True


def double_response(random: Random, body: Body) -> bool:
    parts, k = _some(random, body, "functionResponse")
    parts.insert(k, copy.deepcopy(parts[k]))
    return True


def move_response(random: Random, body: Body) -> bool:
    parts, k = _some(random, body, "functionResponse")
    body["contents"].append({"role": "user", "parts": [parts.pop(k)]})
    return parts is not body["contents"][-2]["parts"]


def nameless_response(random: Random, body: Body) -> bool:
    parts, k = _some(random, body, "functionResponse")
    parts[k]["functionResponse"]["name"] = ""
    return True


def spoken_response(random: Random, body: Body) -> bool:
    parts, k = _some(random, body, "functionResponse")
    parts[k]["functionResponse"]["response"] = random.choice(("one", ["one"], None))
    return True


def written_arguments(random: Random, body: Body) -> bool:
    parts, k = _some(random, body, "functionCall")
    parts[k]["functionCall"]["args"] = "{}"
    return True


def unsigned_call(random: Random, body: Body) -> bool:
    parts, k = _some(random, body, "functionCall")
    return bool(parts[k].pop("thoughtSignature", ""))


def unfit_name(random: Random, body: Body) -> bool:
    function = random.choice(body["tools"][0]["functionDeclarations"])
    function["name"] = random.choice(("a b", "", "7zip", "x" * 200, "shell"))
    return True


def strange_role(random: Random, body: Body) -> bool:
    random.choice(body["contents"])["role"] = random.choice(("assistant", "system", "tool"))
    return True


def swapped_role(random: Random, body: Body) -> bool:
    content = random.choice(body["contents"])
    content["role"] = "user" if content["role"] == "model" else "model"
    return True


def no_parts(random: Random, body: Body) -> bool:
    random.choice(body["contents"])["parts"] = []
    return True


def two_in_one(random: Random, body: Body) -> bool:
    parts, k = _some(random, body, "functionCall")
    parts[k]["text"] = "and"
    return True


def strange_key(random: Random, body: Body) -> bool:
    parts, k = _some(random, body, "text")
    parts[k]["cache_control"] = {"type": "ephemeral"}
    return True


def no_last_turn(random: Random, body: Body) -> bool:
    body["contents"].pop()
    return True


def no_first_turn(random: Random, body: Body) -> bool:
    del body["contents"][0]
    return True


MUTATIONS: tuple[Mutation, ...] = (
    drop_response,
    double_response,
    move_response,
    nameless_response,
    spoken_response,
    written_arguments,
    unsigned_call,
    unfit_name,
    strange_role,
    swapped_role,
    no_parts,
    two_in_one,
    strange_key,
    no_last_turn,
    no_first_turn,
)


@needs_judges
def test_what_the_judge_calls_an_error_in_a_mutant_breaks_a_law_too() -> None:
    random = Random(7)
    whole = healthy()
    broken = 0
    for _ in range(1000):
        mutant = copy.deepcopy(whole)
        if not random.choice(MUTATIONS)(random, mutant):
            continue
        found = complaints("gemini", mutant)
        if found:
            broken += 1
            assert list(validate("gemini", mutant)) != [], (found, json.dumps(mutant)[:2000])

    assert broken > 700


@needs_judges
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_each_kind_of_mutation_is_one_that_the_judge_and_the_laws_both_know(mutation: Mutation) -> None:
    random = Random(1)
    known = []
    for _ in range(20):
        mutant = healthy()
        if mutation(random, mutant):
            known.append((bool(complaints("gemini", mutant)), bool([*validate("gemini", mutant)])))

    assert (True, True) in known
    assert (True, False) not in known


@pytest.mark.parametrize("model", [MODEL, "gemini-2.5-pro", "gpt-5"])
def test_a_healthy_body_breaks_no_law(model: str) -> None:
    assert list(validate("gemini", healthy(model))) == []


def _said(*parts: Body, role: str = "user") -> Body:
    return {"contents": [{"role": role, "parts": list(parts)}]}


CALLED = {"functionCall": {"id": "c1", "name": "f", "args": {}}, "thoughtSignature": "c2ln"}
ANSWERED = {"functionResponse": {"id": "c1", "name": "f", "response": {}}}
BROKEN: list[tuple[str, Body]] = [
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
]


@pytest.mark.parametrize(("law", "body"), BROKEN)
def test_a_law_names_itself_and_the_place_where_it_is_broken(law: str, body: Body) -> None:
    found = [violation for violation in validate("gemini", body) if violation.law == law]

    assert found
    assert all(violation.pointer.startswith("/") for violation in found)


def test_every_law_is_broken_by_some_body_here() -> None:
    assert {law.name for law in FORMATS["gemini"].laws} == {law for law, _ in BROKEN}
