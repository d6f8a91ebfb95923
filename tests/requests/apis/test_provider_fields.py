"""What a provider sends and wants back comes back, to the family of models that sent it, and to no other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stenolog import (
    AgentCard,
    AssistantMessage,
    ModeSwitch,
    Request,
    TextPart,
    Tool,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.parts import FilePart, ProviderPart, ReasoningPart
from stenolog.requests import FORMATS, build, validate
from tests.requests.given import ASKED, log

THOUGHT = ReasoningPart(text="I need the tool.", provider="openai")
CALL = ToolCall(id="c1", name="shell")
DONE = ToolResult(call_id="c1", text="done")
SOUND = "a" * 64


def request_of(
    *parts: Any,
    model: str,
    asked: str = "",
    api: str = "openai-responses",
    result: ToolResult = DONE,
    **card: Any,
) -> Request:
    """Return the request behind an answer of these parts by a model; `asked` is asked next."""
    dealt = ModeSwitch(cards={"coder": AgentCard(model=asked or model, **card)})
    answer = AssistantMessage(agent="coder", model=model, parts=parts)
    made = build(log(dealt, ASKED, answer, result, UserMessage(text="And?")), "coder", api=api)
    assert validate(api, made.body) == []
    return made


def answers(request: Request) -> list[dict[str, Any]]:
    return [message for message in request.body["messages"] if message["role"] == "assistant"]


# Reasoning


@pytest.mark.parametrize("model", ["deepseek-v4-pro", "deepseek-reasoner", "moonshotai/Kimi-K2.5", "mimo-v2"])
def test_reasoning_goes_back_to_the_models_that_refuse_an_answer_without(model: str) -> None:
    (answer,) = answers(request_of(THOUGHT, CALL, model=model, api="openai-chat"))

    assert answer["reasoning_content"] == "I need the tool."


@pytest.mark.parametrize(("model", "given"), [("glm-4.7", True), ("deepseek-v4", False), ("gpt-5", None)])
def test_a_card_says_whether_reasoning_goes_back(model: str, given: bool | None) -> None:
    said = {} if given is None else {"reasoning_content": given}

    request = request_of(THOUGHT, CALL, model=model, api="openai-chat", parameters=said)

    assert ("reasoning_content" in answers(request)[0]) is bool(given)
    assert "reasoning_content" not in request.body
    assert [run.rule for run in request.omissions] == ([] if given else ["reasoning-not-carried"])


@pytest.mark.parametrize(
    "parts",
    [(CALL,), (ReasoningPart(text="Signed.", provider="anthropic", signature="s"), CALL), (THOUGHT, CALL)],
    ids=["no thought", "another provider's", "another model's"],
)
def test_an_answer_whose_thought_may_not_go_back_has_a_blank_in_its_place(parts: tuple[Any, ...]) -> None:
    request = request_of(*parts, model="qwen3:8b", asked="kimi-k2.5", api="openai-chat")

    assert [answer["reasoning_content"] for answer in answers(request)] == [" "]
    assert [run.rule for run in request.omissions] == ["foreign-reasoning"] * (len(parts) - 1)


def test_a_name_without_words_is_a_family_of_its_own() -> None:
    given = {"reasoning_content": True}
    same, other = (
        request_of(THOUGHT, CALL, model="qwen3:8b", asked=asked, api="openai-chat", parameters=given)
        for asked in ("qwen3:8b", "glm4.5:9b")
    )

    assert [answers(request)[0]["reasoning_content"] for request in (same, other)] == [
        "I need the tool.",
        " ",
    ]


def test_the_law_finds_an_answer_without_the_reasoning_that_others_bring() -> None:
    body = request_of(THOUGHT, CALL, model="deepseek-v4", api="openai-chat").body
    without = {"role": "assistant", "content": "Hi"}
    asked = {"role": "user", "content": "Hi", "reasoning_content": "?"}
    found = validate("openai-chat", {**body, "messages": [*body["messages"], without, asked]})

    assert [violation.law for violation in found] == ["reasoning-with-every-answer"] * 2


# OpenAI's own fields


def test_a_phase_goes_back_with_its_message() -> None:
    said = (TextPart(text="Looking.", phase="commentary"), TextPart(text="Here.", phase="final_answer"), CALL)

    items = request_of(*said, model="gpt-5.4-codex").body["input"]

    assert [(item.get("phase"), item["content"][0]["text"]) for item in items[1:3]] == [
        ("commentary", "Looking."),
        ("final_answer", "Here."),
    ]


def test_two_tools_of_one_name_are_told_apart_by_their_namespace() -> None:
    call = ToolCall(id="c1", name="ask", namespace="mcp__github")

    item = request_of(call, model="gpt-5.4").body["input"][1]
    (foreign,) = answers(request_of(call, model="gpt-5.4", api="openai-chat"))

    assert (item["name"], item["namespace"]) == ("ask", "mcp__github")
    assert foreign["tool_calls"][0]["function"]["name"] == "mcp__github__ask"


def test_a_custom_tools_call_and_its_output_go_back_in_their_form() -> None:
    patch = ToolCall(id="c1", name="apply_patch", arguments="*** Begin Patch", form="custom")

    call, output = request_of(patch, model="gpt-5.4").body["input"][1:3]
    (answer,) = answers(request_of(patch, model="gpt-5.4", api="openai-chat"))

    assert call == {
        "type": "custom_tool_call",
        "call_id": "c1",
        "name": "apply_patch",
        "input": "*** Begin Patch",
    }
    assert output == {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"}
    assert answer["tool_calls"][0]["custom"] == {"name": "apply_patch", "input": "*** Begin Patch"}


@pytest.mark.parametrize("text", ['[{"type":"function","name":"f"}]', "none found"])
def test_a_tool_search_goes_back_in_its_form(text: str) -> None:
    search = ToolCall(id="c1", name="tool_search", arguments='{"query":"mail"}', form="tool_search")

    request = request_of(search, model="gpt-5.4", result=ToolResult(call_id="c1", text=text))
    call, output = request.body["input"][1:3]

    assert (call["type"], call["arguments"]) == ("tool_search_call", {"query": "mail"})
    assert (output["type"], output["execution"]) == ("tool_search_output", "client")
    assert output["tools"] == (json.loads(text) if text.startswith("[") else [])
    assert ("no-tools-found" in [part.rule for part in request.parts]) is not text.startswith("[")


def test_another_family_gets_plain_messages_and_functions_calls() -> None:
    said = (
        TextPart(text="Looking.", phase="commentary"),
        ToolCall(id="c1", name="apply_patch", arguments="*** Begin Patch", form="custom"),
    )

    message, call, output = request_of(*said, model="gpt-5.4", asked="o3").body["input"][1:4]

    assert "phase" not in message
    assert (call["type"], call["arguments"]) == ("function_call", '{"_raw":"*** Begin Patch"}')
    assert output["type"] == "function_call_output"


def test_the_laws_find_an_output_of_another_kind_and_a_phase_of_the_users() -> None:
    body = request_of(ToolCall(id="c1", name="f", arguments="x", form="custom"), model="gpt-5.4").body
    wrong = [{**item, "type": "function_call_output"} if "output" in item else item for item in body["input"]]
    phased = {"type": "message", "role": "user", "content": "Hi", "phase": "commentary"}

    found = validate("openai-responses", {**body, "input": [*wrong, phased]})

    assert [violation.law for violation in found] == ["every-output-has-its-call", "phases"]


@pytest.mark.parametrize(("strict", "chat", "responses"), [(True, True, True), (None, None, False)])
def test_strict_goes_with_its_tool(strict: bool | None, chat: bool | None, responses: bool) -> None:
    tools = [Tool(name="shell", strict=strict)]
    bodies = [
        request_of(CALL, model="gpt-5", api=w, tools=tools).body for w in ("openai-chat", "openai-responses")
    ]

    assert bodies[0]["tools"][0]["function"].get("strict") is chat
    assert bodies[1]["tools"][0]["strict"] is responses


# What users and tools show


def shown(part: Any, api: str) -> Request:
    dealt = ModeSwitch(cards={"coder": AgentCard(model="gpt-5")})
    request = build(
        log(dealt, UserMessage(parts=[TextPart(text="Look"), part])),
        "coder",
        api=api,
        blobs={SOUND: b"RIFF"},
    )
    assert validate(api, request.body) == []
    return request


def test_a_file_goes_by_its_id_to_the_provider_that_has_it() -> None:
    file = FilePart(name="a.pdf", provider="openai", id="file-1")

    chat, responses = (shown(file, api).body for api in ("openai-chat", "openai-responses"))

    assert chat["messages"][0]["content"][1] == {"type": "file", "file": {"file_id": "file-1"}}
    assert responses["input"][0]["content"][1] == {"type": "input_file", "file_id": "file-1"}


@pytest.mark.parametrize("api", ["anthropic", "gemini"])
def test_a_file_that_another_provider_has_is_a_line_that_says_so(api: str) -> None:
    request = shown(FilePart(name="a.pdf", provider="openai", id="file-1"), api)

    assert "file-1" not in json.dumps(request.body)
    assert [part.rule for part in request.parts] == ["media-as-text"]


def test_a_recording_is_sent_where_the_wire_takes_it_and_named_where_not() -> None:
    sound = FilePart(media_type="audio/wav", blob=SOUND)

    chat, responses, gemini = (shown(sound, api) for api in ("openai-chat", "openai-responses", "gemini"))

    assert chat.body["messages"][0]["content"][1] == {
        "type": "input_audio",
        "input_audio": {"data": "UklGRg==", "format": "wav"},
    }
    assert gemini.body["contents"][0]["parts"][1]["inlineData"]["mimeType"] == "audio/wav"
    assert "UklGRg" not in json.dumps(responses.body)
    assert [part.rule for part in responses.parts] == ["media-as-text"]


@pytest.mark.parametrize("api", FORMATS)
def test_a_part_that_no_wire_can_carry_is_named_and_never_sent_as_its_json(api: str) -> None:
    odd = ProviderPart(provider="openai", raw='{"type":"hologram","data":"SECRET"}')
    dealt = ModeSwitch(cards={"coder": AgentCard(model="gpt-5")})
    answer = AssistantMessage(agent="coder", model="gpt-5", parts=[CALL])
    result = ToolResult(call_id="c1", parts=[TextPart(text="done"), odd])
    alone = UserMessage(parts=[odd])

    request = build(
        log(dealt, UserMessage(parts=[TextPart(text="Look"), odd]), answer, result, alone), "coder", api=api
    )

    assert "SECRET" not in json.dumps(request.body)
    assert validate(api, request.body) == []
    left_out = {(run.first, run.rule) for run in request.omissions}
    assert left_out >= {(2, "opaque-not-carried"), (4, "opaque-not-carried"), (5, "opaque-not-carried")}
