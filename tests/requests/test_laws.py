"""A law finds what it forbids, and laws and judges agree on what is broken."""

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
from stenolog.projections.formats.checks import Law
from stenolog.projections.requests import build
from stenolog.testing import entries
from tests.requests.judging import complaints, needs_judges

Body = dict[str, Any]
Mutation = Callable[[Random, Body], bool]
THOUGHT = ReasoningPart(text="hm", signature="sig", provider="anthropic")
ONE, TWO = (ToolCall(id=id, name="shell") for id in ("c1", "c2"))


def healthy(api: str) -> Body:
    """Return a body with everything that a mutation could break."""
    log = entries(
        ModeSwitch(cards={"coder": AgentCard(model="claude-opus-5", persona="You are a coder.")}),
        UserMessage(text="go"),
        AssistantMessage(
            agent="coder", model="claude-opus-5", parts=[THOUGHT, TextPart(text="two calls"), ONE, TWO]
        ),
        ToolResult(call_id="c1", text="one"),
        ToolResult(call_id="c2", text="two", is_error=True),
        AssistantMessage(agent="coder", text="done"),
        UserMessage(text="again"),
        AssistantMessage(agent="coder", tool_calls=[ToolCall(id="c3", name="shell")]),
        ToolResult(call_id="c3", text="three"),
    )
    body: Body = copy.deepcopy(build(log, "coder", api=api).body)
    return body


def _some(random: Random, body: Body, kind: str) -> tuple[list[Body], int] | None:
    """Return the list that holds some result or call, and its index there."""
    found: list[tuple[list[Body], int]] = []
    for i, message in enumerate(body["messages"]):
        content = message["content"] if isinstance(message["content"], list) else []
        found += [(content, k) for k, block in enumerate(content) if block["type"] == kind]
        if (message["role"], kind) == ("tool", "tool_result"):
            found.append((body["messages"], i))
    return random.choice(found) if found else None


def drop_result(random: Random, body: Body) -> bool:
    place = _some(random, body, "tool_result")
    if place is not None:
        del place[0][place[1]]
    return place is not None


def double_result(random: Random, body: Body) -> bool:
    place = _some(random, body, "tool_result")
    if place is not None:
        place[0].insert(place[1], copy.deepcopy(place[0][place[1]]))
    return place is not None


def rename_result(random: Random, body: Body) -> bool:
    place = _some(random, body, "tool_result")
    if place is not None:
        result = place[0][place[1]]
        result["tool_call_id" if "role" in result else "tool_use_id"] = random.choice(("c9", "stranger"))
    return place is not None


def move_result(random: Random, body: Body) -> bool:
    place = _some(random, body, "tool_result")
    if place is None or "role" not in place[0][place[1]]:
        return False
    body["messages"].append(place[0].pop(place[1]))
    return True


def blank_text(random: Random, body: Body) -> bool:
    place = _some(random, body, "text")
    if place is not None:
        place[0][place[1]]["text"] = random.choice(("", " ", "\n"))
    return place is not None


def trailing_thought(random: Random, body: Body) -> bool:
    turns = [m for m in body["messages"] if m["role"] == "assistant" and isinstance(m["content"], list)]
    if not turns or "max_tokens" not in body:
        return False
    random.choice(turns)["content"].append({"type": "thinking", "thinking": "hm", "signature": "sig"})
    return True


def unsigned_thought(random: Random, body: Body) -> bool:
    place = _some(random, body, "thinking")
    if place is not None:
        place[0][place[1]]["signature"] = ""
    return place is not None


def unfit_name(random: Random, body: Body) -> bool:
    tool = body["tools"][0]
    tool.get("function", tool)["name"] = random.choice(("a b", "", "x" * 200))
    return True


def no_tools(random: Random, body: Body) -> bool:
    if "max_tokens" in body:
        del body["tools"]
    else:
        body["tools"] = []
    return True


MUTATIONS: tuple[Mutation, ...] = (
    drop_result,
    double_result,
    rename_result,
    move_result,
    blank_text,
    trailing_thought,
    unsigned_thought,
    unfit_name,
    no_tools,
)


@needs_judges
@pytest.mark.parametrize("api", ["openai-chat", "anthropic"])
def test_what_a_judge_calls_an_error_in_a_mutant_breaks_a_law_too(api: str) -> None:
    random = Random(7)
    whole = healthy(api)
    broken = 0
    for _ in range(1000):
        mutant = copy.deepcopy(whole)
        if not random.choice(MUTATIONS)(random, mutant):
            continue
        found = complaints(api, mutant)
        if found:
            broken += 1
            assert list(validate(api, mutant)) != [], (found, json.dumps(mutant)[:2000])

    assert broken > 500


@pytest.mark.parametrize("api", ["openai-chat", "anthropic", "plain"])
def test_a_healthy_body_breaks_no_law(api: str) -> None:
    assert list(validate(api, healthy(api))) == []


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
