"""What only its provider understands of a part is kept, goes back to its family, and is named to others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, Conversation, TextPart, Tool, ToolCall, ToolResult, UserMessage
from stenolog.parts import AssistantPart, FilePart, ProviderPart, ReasoningPart
from stenolog.requests import FORMATS, build, validate
from tests.transcripts.given import Import, assistant, codex, item, meta, text, tool_result, tool_use, user

CITED = {"type": "web_search_result_location", "url": "u", "encrypted_index": "I", "cited_text": "c"}
SEARCH: dict[str, Any] = {
    "type": "search_result",
    "source": "https://e",
    "title": "Bread",
    "content": [{"type": "text", "text": "Rye rises slowly."}],
    "citations": {"enabled": True},
}
WEB: list[dict[str, Any]] = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {"code": "q()"}},
    {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
]
MCP: list[dict[str, Any]] = [
    {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "echo", "server_name": "s", "input": {}},
    {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": False, "content": []},
]
COMPACTION = {"type": "compaction", "content": "All of it, in short."}
PROGRAM = {"type": "program", "id": "pg_1", "call_id": "call_p", "code": "q()", "fingerprint": "F"}
OUTPUT = {"type": "program_output", "id": "po_1", "call_id": "call_p", "result": "7", "status": "completed"}


def own(raw: Any, provider: str = "anthropic", model: str = "claude-opus-4-8") -> ProviderPart:
    return ProviderPart(provider=provider, model=model, raw=json.dumps(raw))


@pytest.fixture
def talk() -> Iterator[Conversation]:
    with stenolog.open(":memory:") as log:
        log["x"].join("a", model="claude-opus-4-8", tools=[Tool(name="mcp__x__y")])
        log["x"].append(UserMessage("Search"))
        yield log["x"]


def say(talk: Conversation, *parts: AssistantPart, model: str = "claude-opus-4-8") -> None:
    talk.append(AssistantMessage(agent="a", model=model, parts=parts))


def sent(talk: Conversation, api: str = "anthropic") -> list[Any]:
    request = talk.request("a", api=api)
    assert list(validate(api, request.body)) == []
    return list(request.body["messages" if api == "anthropic" else "input"])


def lost(talk: Conversation, api: str) -> list[tuple[str, str]]:
    return [(each.rule, each.what) for each in talk.request("a", api=api).omissions]


def test_a_session_keeps_citations_callers_and_references_and_sends_them_back(into: Import) -> None:
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
    into.records(
        user("u", None, "Search"),
        assistant("a", "u", {**text("So."), "citations": [CITED]}, *WEB, {**tool_use("t"), "caller": caller}),
        user("r", "a", [tool_result("t", [{"type": "tool_reference", "tool_name": "Bash"}, SEARCH])]),
    )
    _, answer, results = into.conversation.request("claude", api="anthropic").body["messages"]

    assert answer["content"][0]["citations"] == [CITED]
    assert answer["content"][1:3] == WEB
    assert answer["content"][3]["caller"] == caller
    assert results["content"][0]["content"] == [{"type": "tool_reference", "tool_name": "Bash"}, SEARCH]


def test_a_caller_goes_back_only_with_its_program(talk: Conversation) -> None:
    raw = '{"caller":{"type":"code_execution_20260120","tool_id":"srvtoolu_1"}}'
    say(talk, ToolCall(id="t", name="q", provider="anthropic", raw=raw))
    talk.append(ToolResult(call_id="t", text="rows"))

    assert "caller" not in sent(talk)[1]["content"][0]
    assert lost(talk, "anthropic") == [("fields-not-carried", "caller")]


def test_the_file_of_a_citation_is_not_sent_back(talk: Conversation) -> None:
    cited = {"type": "char_location", "cited_text": "c", "document_index": 0, "file_id": None}
    say(talk, TextPart("So.", provider="anthropic", raw=json.dumps({"citations": [cited]})))
    talk.append(UserMessage("Go on"))

    assert "file_id" not in sent(talk)[1]["content"][0]["citations"][0]


@pytest.mark.parametrize("blocks", [WEB, MCP, [COMPACTION]])
def test_what_anthropics_own_tools_and_compactions_said_goes_back(talk: Conversation, blocks: Any) -> None:
    say(talk, *map(own, blocks), TextPart("Done."))
    talk.append(UserMessage("Go on"))

    assert sent(talk)[1]["content"] == [*blocks, {"type": "text", "text": "Done."}]


def test_a_call_of_its_own_tools_may_have_its_result_in_the_next_message_of_the_turn(
    talk: Conversation,
) -> None:
    say(talk, own(WEB[0]))
    say(talk, own(WEB[1]), TextPart("Done."))
    talk.append(UserMessage("Go on"))

    assert sent(talk)[1]["content"] == [*WEB, {"type": "text", "text": "Done."}]


def test_a_reference_to_a_tool_that_is_not_declared_is_left_out_by_name(talk: Conversation) -> None:
    known, unknown = ({"type": "tool_reference", "tool_name": name} for name in ("mcp__x__y", "gone"))
    say(talk, ToolCall(id="t", name="ToolSearch"))
    talk.append(ToolResult(call_id="t", parts=[own(known, model=""), own(unknown, model="")]))

    assert sent(talk)[2]["content"][0]["content"] == [known]
    assert ("opaque-not-carried", "tool_reference") in lost(talk, "anthropic")


def test_a_program_of_openai_goes_back_with_its_calls_and_its_end(talk: Conversation) -> None:
    caller = {"type": "program", "caller_id": "call_p"}
    talk.join("a", model="gpt-5.5")
    call = ToolCall(id="c", name="q", provider="openai", raw=json.dumps({"caller": caller}))
    say(talk, own(PROGRAM, "openai", "gpt-5.5"), call, model="gpt-5.5")
    talk.append(ToolResult(call_id="c", text="rows"))
    say(talk, own(OUTPUT, "openai", "gpt-5.5"), TextPart("7"), model="gpt-5.5")
    talk.append(UserMessage("Go on"))
    _, program, made, result, output, *_ = sent(talk, "openai-responses")

    assert (program, output) == (PROGRAM, OUTPUT)
    assert (made["caller"], result["caller"]) == (caller, caller)


@pytest.mark.parametrize("api", [api for api in FORMATS if api not in ("anthropic", "plain")])
def test_others_are_told_by_name_what_they_are_not_sent(talk: Conversation, api: str) -> None:
    say(talk, TextPart("So.", provider="anthropic", raw=json.dumps({"citations": [CITED]})))
    say(talk, ToolCall(id="t", name="q"))
    reference = own({"type": "tool_reference", "tool_name": "q"}, model="")
    talk.append(
        ToolResult(
            call_id="t", parts=[TextPart("Rye", provider="anthropic", raw=json.dumps(SEARCH)), reference]
        )
    )
    talk.append(UserMessage("Go on"))

    assert {
        ("fields-not-carried", "citations"),
        ("fields-not-carried", "search_result"),
        ("opaque-not-carried", "tool_reference"),
    } <= set(lost(talk, api))


def test_a_paused_answer_is_sent_back_as_the_last_message(talk: Conversation) -> None:
    paused = AssistantMessage(
        agent="a", model="claude-opus-4-8", parts=[own(WEB[0])], finish_reason="pause_turn"
    )
    talk.append(paused)
    first, last = sent(talk)

    assert (last["role"], last["content"]) == ("assistant", WEB[:1])
    assert talk.request("a", api="anthropic").sendable
    assert talk.state().lane("a").status == "awaiting_llm"

    say(talk, own(WEB[1]), TextPart("Done."))
    talk.append(UserMessage("Go on"))

    assert sent(talk)[:2] == [
        first,
        {"role": "assistant", "content": [*WEB, {"type": "text", "text": "Done."}]},
    ]


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses", "gemini"])
def test_a_paused_answer_is_ended_by_a_note_for_those_that_cannot_go_on_with_it(
    talk: Conversation, api: str
) -> None:
    said: list[AssistantPart] = [TextPart("Looking"), own(WEB[0])]
    talk.append(AssistantMessage(agent="a", model="claude-opus-4-8", parts=said, finish_reason="pause_turn"))
    request = talk.request("a", api=api)

    assert request.sendable
    assert list(validate(api, request.body)) == []
    assert "it is your turn" in request.bytes.decode()


def test_words_after_a_paused_answer_leave_its_open_call_out(talk: Conversation) -> None:
    said: list[AssistantPart] = [TextPart("Looking"), own(WEB[0])]
    talk.append(AssistantMessage(agent="a", model="claude-opus-4-8", parts=said, finish_reason="pause_turn"))
    talk.append(UserMessage("Never mind"))

    assert sent(talk)[1]["content"] == [{"type": "text", "text": "Looking"}]


def test_an_answer_that_anthropic_refused_is_taken_out_before_going_on(talk: Conversation) -> None:
    parts = [TextPart("I would")]
    talk.append(AssistantMessage(agent="a", model="claude-opus-4-8", parts=parts, finish_reason="refusal"))
    talk.append(UserMessage("Then something else"))

    assert [turn["role"] for turn in sent(talk)] == ["user"]
    assert ("refused-answer", "") in lost(talk, "anthropic")


# What OpenAI's formats hold beside words is kept, and is in the next request as it was.


WEATHER = {"name": "get_weather", "parameters": {"type": "object", "properties": {}}, "strict": True}
CALL = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}


def document(into: Import, *messages: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    """Return the messages of the next request, once a document of these was imported."""
    into.file(json.dumps({"messages": list(messages), **fields}).encode(), "talk.json")
    request = build(into.entries, "assistant", api="openai-chat", blobs=into.log.blobs)
    sent: list[dict[str, Any]] = request.body["messages"]
    return sent


def asked(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


def test_reasoning_content_is_of_the_model_that_the_document_is_for(into: Import) -> None:
    thought = {"role": "assistant", "content": "", "reasoning_content": "I need it.", "tool_calls": [CALL]}
    done = {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}

    _, sent, _ = document(into, {"role": "user", "content": "Hi"}, thought, done, model="deepseek-reasoner")

    (answer,) = [event for event in into.said if isinstance(event, AssistantMessage)]
    assert (answer.model, answer.parts[0]) == (
        "deepseek-reasoner",
        ReasoningPart(text="I need it.", provider="openai"),
    )
    assert sent["reasoning_content"] == "I need it."


def test_strict_tools_stay_strict(into: Import) -> None:
    document(
        into,
        {"role": "user", "content": "Hi"},
        model="gpt-5",
        tools=[{"type": "function", "function": WEATHER}],
    )

    request = build(into.entries, "assistant", api="openai-chat")

    assert request.body["tools"][0]["function"]["strict"] is True


def test_a_file_by_id_a_recording_and_an_unknown_part_are_kept(into: Import) -> None:
    file = {"type": "file", "file": {"file_id": "file-1"}}
    sound = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
    odd = {"type": "hologram", "data": "x"}

    (sent,) = document(into, asked({"type": "text", "text": "Hi"}, file, sound, odd), model="gpt-5")

    assert sent["content"][1:] == [file, sound]
    (said,) = [event for event in into.said if isinstance(event, UserMessage)]
    _, by_id, recording, opaque = said.parts
    assert by_id == FilePart(provider="openai", id="file-1")
    assert isinstance(recording, FilePart)
    assert recording.media_type == "audio/wav"
    assert opaque == ProviderPart(provider="openai", raw='{"type":"hologram","data":"x"}')


def test_codex_keeps_phases_namespaces_and_the_forms_of_calls(into: Import) -> None:
    into.records(
        meta(),
        codex("turn_context", model="gpt-5.4"),
        item("message", role="user", content=[{"type": "input_text", "text": "Go"}]),
        item(
            "message",
            role="assistant",
            phase="commentary",
            content=[{"type": "output_text", "text": "Looking."}],
        ),
        item("function_call", name="ask", namespace="mcp__github", arguments="{}", call_id="c1"),
        item("function_call_output", call_id="c1", output="yes"),
        item("custom_tool_call", name="apply_patch", input="*** Begin", call_id="c2"),
        item("custom_tool_call_output", call_id="c2", output="done"),
        item("tool_search_call", execution="client", arguments={"query": "mail"}, call_id="c3"),
        item(
            "tool_search_output", execution="client", tools=[{"type": "function", "name": "f"}], call_id="c3"
        ),
    )

    parts = [part for event in into.said if isinstance(event, AssistantMessage) for part in event.parts]
    sent = build(into.entries, "codex", api="openai-responses").body["input"]

    assert parts[:2] == [
        TextPart(text="Looking.", phase="commentary"),
        ToolCall(id="c1", name="ask", namespace="mcp__github"),
    ]
    assert [part.form for part in parts if isinstance(part, ToolCall)] == ["", "custom", "tool_search"]
    assert [message["type"] for message in sent[1:]] == [
        "message",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "tool_search_call",
        "tool_search_output",
    ]
    assert (sent[1]["phase"], sent[2]["namespace"]) == ("commentary", "mcp__github")
    assert sent[-1]["tools"] == [{"type": "function", "name": "f"}]
