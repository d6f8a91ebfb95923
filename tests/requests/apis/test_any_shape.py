"""Whatever shape a part or a body has: a request is built, and laws judge it without raising."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stenolog import AgentCard, AssistantMessage, ModeSwitch
from stenolog.parts import ProviderPart
from stenolog.projections.formats import FORMATS, validate
from stenolog.projections.formats.openai_responses.items import STANDING
from stenolog.projections.requests import build
from tests.requests.given import ASKED, log

MAKERS = {"openai": "gpt-5", "anthropic": "claude-opus-5", "google": "gemini-3-pro"}
WORDS = """
type role content text id call_id tool_call_id tool_use_id name input summary encrypted_content arguments
function tool_calls tools parts functionCall functionResponse executableCode codeExecutionResult toolCall
toolResponse output prompt contents messages system thinking tool_choice max_tokens cache_control
response_format store
"""
KINDS_OF_OTHERS = """
server_tool_use web_search_tool_result message reasoning function_call tool_use tool_result user assistant
tool model enabled
"""
KEYS = WORDS.split()
KINDS = [*STANDING, *KINDS_OF_OTHERS.split(), "", "\ud83d"]
leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(KINDS)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=12,
)
many = settings(max_examples=60, derandomize=True, deadline=None, database=None)


@pytest.mark.parametrize("provider", MAKERS)
@given(raw=st.text(max_size=20) | values.map(json.dumps), kind=st.none() | values)
@many
def test_an_opaque_part_of_any_shape_builds_a_request(provider: str, raw: str, kind: Any) -> None:
    shaped = (
        [raw] if kind is None else [raw, json.dumps({"type": kind, "id": "ws_1", "content": ["odd", {}]})]
    )
    parts = [ProviderPart(provider=provider, model=MAKERS[provider], raw=each) for each in shaped]
    told = (ModeSwitch(cards={"coder": AgentCard(model=MAKERS[provider])}), ASKED)
    answer = AssistantMessage(agent="coder", model=MAKERS[provider], parts=parts)
    for api in FORMATS:
        request = build(log(*told, answer, ASKED), "coder", api=api)

        assert request.bytes
        assert request.parts
        assert validate(api, request.body) == []


@pytest.mark.parametrize("kind", [["web_search_call"], {"a": 1}, None, 5])
def test_an_opaque_part_whose_type_is_no_text_is_left_out_by_name(kind: Any) -> None:
    odd = ProviderPart(provider="openai", model="gpt-5", raw=json.dumps({"type": kind}))
    told = (ModeSwitch(cards={"coder": AgentCard(model="gpt-5")}), ASKED)
    answer = AssistantMessage(agent="coder", model="gpt-5", parts=[odd])

    request = build(log(*told, answer, ASKED), "coder", api="openai-responses")

    assert [run.rule for run in request.omissions] == ["opaque-not-carried"]


@pytest.mark.parametrize("api", FORMATS)
@given(body=st.dictionaries(st.sampled_from(KEYS), values, max_size=6))
@many
def test_the_laws_judge_a_body_of_any_shape(api: str, body: dict[str, Any]) -> None:
    assert all(isinstance(violation.found, str) for violation in validate(api, body))


@pytest.mark.parametrize("message", [{"role": "assistant", "tool_calls": [{}]}, ["odd"], None, 5])
def test_what_a_law_cannot_read_breaks_it(message: Any) -> None:
    found = validate("openai-chat", {"messages": [{"role": "user", "content": "Hi"}, message]})

    assert any(violation.pointer == "/messages/1" and "unreadable" in violation.found for violation in found)


def test_messages_that_are_no_list_are_told() -> None:
    (first, *_) = validate("openai-chat", {"messages": {"role": "user"}})

    assert (first.law, first.pointer) == ("shape", "/messages")
